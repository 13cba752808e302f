"""Tokens that only their issuer can read: who is asked about them, how often, and what counts."""

import base64

import pytest

from tests.conftest import OpenGateway, peer
from tests.gateway.serving import raw_client, serve_http
from tests.gateway.test_http import INITIALIZE
from tests.identity.test_front_door import AUDIENCE, PUBLIC, knock, served
from tests.peers.identity_provider import IdentityProvider
from wicket_mcp.config.model.config import Config
from wicket_mcp.errors import ConfigError
from wicket_mcp.identity.settings import check


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
        issuers = [
            {"issuer": each.issuer, "introspection": f"{each.issuer}/introspect", "token_prefix": prefix}
            for each, prefix in ((away, "away-"), (provider, ""))
        ]
        await away.__aexit__(None, None, None)
        http = {"public_url": PUBLIC, "issuers": issuers}
        async with open_gateway({"echo": peer("Echo")}, http=http) as gateway, serve_http(gateway) as address:
            async with raw_client(address) as client:
                for token, status in (("good", 200), ("unknown", 401), ("away-unknown", 503)):
                    assert (await knock(client, token))[0] == status


@pytest.mark.promise("T7", "A token is shown to no issuer but the one whose token it is.")
async def test_t7_an_issuer_is_asked_about_its_own_tokens_alone(open_gateway: OpenGateway) -> None:
    """W26."""
    async with IdentityProvider() as first, IdentityProvider() as second:
        issuers = [
            {"issuer": each.issuer, "introspection": f"{each.issuer}/introspect", "token_prefix": prefix}
            for each, prefix in ((first, "f-"), (second, "f-s-"))
        ]
        for each, token in ((first, "f-good"), (second, "f-s-good")):
            each.opaque[token] = {"active": True, **each.claims(aud=AUDIENCE)}
        http = {"public_url": PUBLIC, "issuers": issuers}
        async with open_gateway({}, http=http) as gateway, serve_http(gateway) as at, raw_client(at) as client:
            for token, status, asked in (
                ("f-good", 200, (1, 0)),
                ("f-s-good", 200, (1, 1)),
                ("f-s-bad", 401, (1, 2)),
                ("g-good", 401, (1, 2)),
            ):
                assert (await knock(client, token))[0] == status
                assert (first.asked["/introspect"], second.asked["/introspect"]) == asked
    with pytest.raises(ConfigError, match=r"http.issuers\[1\].token_prefix: must differ from that of"):
        check(Config.from_dict({"http": {**http, "issuers": [{**each, "token_prefix": "x"} for each in issuers]}}))


KINDS = {
    200: [{"token_type": "Bearer"}, {"token_type": "access_token"}, {"token_use": "access_token"}, {"typ": "Bearer"}],
    401: [
        {"token_type": "refresh_token"},
        {"token_type": "Bearer", "token_use": "refresh_token"},
        {"typ": "Refresh"},
        {"token_type": "DPoP"},
        {"token_type": 5},
    ],
}


@pytest.mark.parametrize(("status", "said"), [(status, said) for status, kinds in KINDS.items() for said in kinds])
async def test_only_an_access_token_counts(open_gateway: OpenGateway, status: int, said: dict[str, object]) -> None:
    """W26: an issuer also knows its refresh tokens."""
    async with IdentityProvider() as provider:
        provider.opaque["x"] = {"active": True, **provider.claims(aud=AUDIENCE), **said}
        async with served(open_gateway, provider, introspection=f"{provider.issuer}/introspect") as (client, _):
            assert (await knock(client, "x"))[0] == status


async def test_a_jwt_without_a_type_is_asked_about_where_the_issuer_can_be(open_gateway: OpenGateway) -> None:
    async with IdentityProvider() as provider:
        token, other = (provider.token(header={"typ": None}, aud=AUDIENCE, sub=who) for who in ("ann", "bob"))
        provider.opaque[token] = {"active": True, **provider.claims(aud=AUDIENCE)}
        async with IdentityProvider() as stranger:
            issuers = [
                {"issuer": p.issuer, "introspection": f"{p.issuer}/introspect", "token_prefix": prefix}
                for p, prefix in ((stranger, ""), (provider, "x"))
            ]
            http = {"public_url": PUBLIC, "issuers": issuers}
            async with open_gateway({}, http=http) as gateway, serve_http(gateway) as at, raw_client(at) as client:
                assert [(await knock(client, each))[0] for each in (token, other)] == [200, 401]
                asked = provider.asked["/introspect"]
                assert (await knock(client, provider.token(aud=AUDIENCE, sub="typed")))[0] == 200
                assert provider.asked["/introspect"] == asked  # its signature says enough
            assert not stranger.asked  # who does not need to see it
        async with served(open_gateway, provider) as (client, _):
            status, _, body = await client.post(INITIALIZE, token=token)
            assert (status, "(typ)" in body["error"]) == (401, True)
