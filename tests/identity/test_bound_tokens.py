"""Tokens that are bound to a key (DPoP), at a server that checks every proof against the request that it came with."""

import base64
import hashlib
from dataclasses import dataclass

import pytest
from aiohttp import web
from joserfc import jwk, jws, jwt

from tests.conftest import OpenGateway
from tests.identity.test_sign_in import sign_in, text_of
from tests.peers.protected import Protected
from wicket_mcp.errors import NeedsSignIn
from wicket_mcp.model import LOCAL, JsonObject


@dataclass
class BoundToKey(Protected):
    """Takes tokens with a proof that names this method, address, token and body."""

    proofs: int = 0

    def metadata(self) -> JsonObject:
        return {**super().metadata(), "dpop_signing_alg_values_supported": ["ES256"]}

    def issue(self, account: str, scope: str) -> JsonObject:
        return {**super().issue(account, scope), "token_type": "DPoP"}

    async def mcp(self, request: web.Request) -> web.Response:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if token not in self.tokens:
            where = f"{self.origin}/.well-known/oauth-protected-resource/mcp"
            return web.Response(
                status=401, headers={"WWW-Authenticate": f'DPoP resource_metadata="{where}", algs="ES256"'}
            )
        assert scheme == "DPoP"
        claims = claims_of(request.headers["DPoP"])
        digest = base64.b64encode(hashlib.sha256(await request.read()).digest()).decode()
        assert (claims["htm"], claims["htu"]) == (request.method, self.url)
        assert claims["ath"] == base64.urlsafe_b64encode(hashlib.sha256(token.encode()).digest()).rstrip(b"=").decode()
        assert claims["content_digest"] == f"sha-256=:{digest}:"
        self.proofs += 1
        return await super().mcp(request)


def claims_of(proof: str) -> JsonObject:
    key = jwk.ECKey.import_key(jws.extract_compact(proof.encode()).headers()["jwk"])
    return jwt.decode(proof, key, algorithms=["ES256"]).claims


async def test_the_next_sign_in_is_bound_to_a_key_too(open_gateway: OpenGateway) -> None:
    async with BoundToKey() as remote:
        servers = {"x": {"url": remote.url}}
        async with open_gateway(servers) as gateway:
            await sign_in(gateway)  # nobody has asked the server before
            assert text_of(await gateway.call("x.whoami")) == "ann"
            remote.tokens.clear()
            remote.refresh_tokens.clear()
            with pytest.raises(NeedsSignIn, match="revoked"):
                await gateway.call("x.whoami")
            await sign_in(gateway)
            assert await gateway.accounts.sign_ins.sign_out(gateway.catalogue.server("x"), LOCAL)
            await sign_in(gateway)
            assert await gateway.accounts.sign_ins.sign_out(gateway.catalogue.server("x"), LOCAL)
        async with open_gateway(servers) as gateway:
            assert (await gateway.verbs.servers(LOCAL))[0].state == "needs sign-in"
            await sign_in(gateway)
            assert text_of(await gateway.call("x.whoami")) == "ann"


async def test_every_request_proves_that_it_is_ours_and_unchanged(open_gateway: OpenGateway) -> None:
    async with BoundToKey() as remote, open_gateway({"x": {"url": remote.url}}) as gateway:
        assert (await gateway.servers())[0].state == "needs sign-in"
        await sign_in(gateway)
        assert text_of(await gateway.call("x.whoami")) == "ann"
        assert remote.proofs >= 2
        token_proof = claims_of(remote.seen("/token")[0].headers["DPoP"])
        assert token_proof["htu"] == f"{remote.origin}/token"
