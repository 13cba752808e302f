"""Signing in at a certified authorization server from npm: discovery, registration, PKCE, resource, rotation, end."""

import asyncio
import html
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urljoin

import aiohttp
import pytest
from aiohttp import web
from joserfc import jwk, jwt

from tests import needs
from tests.conformance.suite import node
from tests.conftest import PEERS, ROOT, OpenGateway
from tests.identity.browser import browse
from tests.identity.test_authorization import flow, returned
from tests.peers.protected import Issued, Protected
from wicket_mcp import Gateway
from wicket_mcp.config.model.config import Config
from wicket_mcp.errors import NeedsSignIn
from wicket_mcp.identity.oauth.credentials import PersonCredentials
from wicket_mcp.model import LOCAL

MODULES = ROOT / ".node" / "node_modules"
pytestmark = pytest.mark.node


@dataclass
class Delegating(Protected):
    """A server that takes the signed tokens of another authorization server."""

    issuer: str = ""

    async def resource_metadata(self, request: web.Request) -> web.Response:
        return web.json_response(
            {"resource": self.url, "authorization_servers": [self.issuer], "scopes_supported": ["mcp"]}
        )

    async def mcp(self, request: web.Request) -> web.Response:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if token and token not in self.tokens:
            async with aiohttp.ClientSession() as session, session.get(f"{self.issuer}/jwks") as answer:
                keys = jwk.KeySet.import_key_set(await answer.json())
            claims = jwt.decode(token, keys).claims
            assert (claims["iss"], claims["aud"]) == (self.issuer, self.url)
            self.tokens[token] = Issued(claims["sub"], claims["scope"])
        return await super().mcp(request)


@asynccontextmanager
async def provider(resource: str) -> AsyncGenerator[str]:
    """The issuer's address."""
    program = node()
    assert program is not None
    arguments = (str(PEERS / "resource_provider.mjs"), str(MODULES), resource)
    process = await asyncio.create_subprocess_exec(
        program, *arguments, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        line = (await process.stdout.readline()).decode().strip()
        while line and not line.startswith("http"):  # what it warns of in development
            line = (await process.stdout.readline()).decode().strip()
        yield line
    finally:
        process.stdin.close()
        await process.wait()


async def sign_in(gateway: Gateway) -> None:
    pending = await gateway.accounts.sign_ins.begin(gateway.catalogue.server("x"), LOCAL)
    status, text = await browse(pending.link)
    assert status == 200, text
    await pending.wait()


async def test_a_certified_provider_signs_us_in_renews_and_ends_it(open_gateway: OpenGateway) -> None:
    if not (MODULES / "oidc-provider").exists():
        pytest.skip(needs.NPM_SERVERS)
    async with Delegating() as remote, provider(remote.url) as issuer:
        remote.issuer = issuer
        async with open_gateway({"x": {"url": remote.url}}) as gateway:
            with pytest.raises(NeedsSignIn):
                await gateway.call("x.whoami")
            await sign_in(gateway)
            assert (await gateway.call("x.whoami"))["content"][0]["text"] == "ann"
            credentials = gateway.accounts.sign_ins.credentials(gateway.catalogue.server("x"), remote.url, "shared")
            assert isinstance(credentials, PersonCredentials)
            first = await gateway.accounts.sign_ins.keep.grant("shared", "x", remote.url)
            assert first is not None
            assert first.refresh_token
            renewed = await credentials.renew(first)
            assert renewed.access_token != first.access_token
            assert renewed.refresh_token != first.refresh_token
            await gateway.accounts.sign_ins.keep.save_grant("shared", "x", first)
            with pytest.raises(NeedsSignIn, match="revoked"):  # a refresh token that is used twice ends the sign-in
                await credentials.renew(first)
            [status] = await gateway.verbs.servers(LOCAL)
            assert (status.state, status.tools) == ("needs sign-in", 1)


async def test_a_certified_provider_says_who_allows_a_client(open_gateway: OpenGateway) -> None:
    if not (MODULES / "oidc-provider").exists():
        pytest.skip(needs.NPM_SERVERS)
    async with flow(open_gateway) as (client, gateway), provider(f"{client.base}/mcp") as issuer:
        ours = {"redirect_uris": [f"{client.base}/oauth/signed-in"], "application_type": "native"}
        async with client.session.post(f"{issuer}/reg", json=ours) as answer:
            registered = await answer.json()
        section = {"issuer": issuer, "client_id": registered["client_id"], "scopes": {"*": ["discover", "invoke"]}}
        http = {"authorization": {"enabled": True}, "issuers": [section]}
        gateway.apply(Config.from_dict({"http": http, "state_dir": str(gateway.config.state_path)}))
        await client.register()
        leaving = await client.submit(await client.sealed(), decision=issuer, credential="")
        cookie = leaving.headers["Set-Cookie"].partition(";")[0]
        (address,) = re.findall(r'content="0;url=([^"]+)"', await leaving.text())
        back = html.unescape(address)
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser:
            while not back.startswith(client.base):
                async with browser.get(back, allow_redirects=False) as answer:
                    back = urljoin(back, answer.headers["Location"])
        answer = await client.session.get(back, headers={"Cookie": cookie}, allow_redirects=False)
        status, issued = await client.redeem(returned(answer)["code"])
        assert (status, issued["scope"]) == (200, "discover invoke")
        assert await client.status(issued["access_token"]) == 200
