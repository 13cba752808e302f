"""Tokens that only their issuer can read: who is asked about them, how often, and what counts."""

import base64

import pytest

from tests.conftest import OpenGateway, peer
from tests.gateway.serving import raw_client, serve_http
from tests.gateway.test_http import INITIALIZE
from tests.identity.test_front_door import AUDIENCE, PUBLIC, knock, served
from tests.peers.identity_provider import IdentityProvider


async def test_an_opaque_token_is_asked_about_and_the_answer_is_kept(
    open_gateway: OpenGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASKING", "s3:cr/t+%")
    async with IdentityProvider() as provider:
        provider.opaque["good"] = {"active": True, **provider.claims(aud=AUDIENCE)}
        provider.opaque["other"] = {"active": True, **provider.claims(aud="https://other.example")}
        provider.opaque["expired"] = {"active": True, **provider.claims(aud=AUDIENCE, exp=1)}
        asking = {"introspection": f"{provider.issuer}/introspect", "client_id": "w@x", "client_secret": "${ASKING}"}
        async with served(open_gateway, provider, **asking) as (client, _):
            for token, status in (("good", 200), ("unknown", 401), ("other", 401), ("expired", 401)):
                assert (await knock(client, token))[0] == status
            assert provider.introspected_by == "Basic " + base64.b64encode(b"w%40x:s3%3Acr%2Ft%2B%25").decode()
            before = provider.asked["/introspect"]
            for _ in range(5):
                assert (await knock(client, "good"))[0] == 200
                assert (await knock(client, "unknown"))[0] == 401
            assert provider.asked["/introspect"] == before


async def test_an_issuer_that_cannot_be_asked_does_not_hide_another(open_gateway: OpenGateway) -> None:
    async with IdentityProvider() as away, IdentityProvider() as provider:
        provider.opaque["good"] = {"active": True, **provider.claims(aud=AUDIENCE)}
        issuers = [{"issuer": each.issuer, "introspection": f"{each.issuer}/introspect"} for each in (away, provider)]
        await away.__aexit__(None, None, None)
        http = {"public_url": PUBLIC, "issuers": issuers}
        async with open_gateway({"echo": peer("Echo")}, http=http) as gateway, serve_http(gateway) as address:
            async with raw_client(address) as client:
                assert (await knock(client, "good"))[0] == 200
                assert (await knock(client, "unknown"))[0] == 503  # it may be one of the other's


async def test_a_jwt_without_a_type_is_asked_about_where_the_issuer_can_be(open_gateway: OpenGateway) -> None:
    async with IdentityProvider() as provider:
        token, other = (provider.token(header={"typ": None}, aud=AUDIENCE, sub=who) for who in ("ann", "bob"))
        provider.opaque[token] = {"active": True, **provider.claims(aud=AUDIENCE)}
        async with IdentityProvider() as stranger:
            issuers = [{"issuer": p.issuer, "introspection": f"{p.issuer}/introspect"} for p in (stranger, provider)]
            http = {"public_url": PUBLIC, "issuers": issuers}
            async with open_gateway({}, http=http) as gateway, serve_http(gateway) as at, raw_client(at) as client:
                assert [(await knock(client, each))[0] for each in (token, other)] == [200, 401]
            assert not stranger.asked  # who does not need to see it
        async with served(open_gateway, provider) as (client, _):
            status, _, body = await client.post(INITIALIZE, token=token)
            assert (status, "(typ)" in body["error"]) == (401, True)
