"""The front door: what clients are told, whose tokens count, and everything that must not."""

import asyncio
import base64
import hmac
import json
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

from tests.conftest import PEERS, ROOT, OpenGateway, peer
from tests.gateway.serving import TOKEN, Command, Raw, raw_client, serve_http
from tests.gateway.test_http import INITIALIZE, call
from tests.peers.http_faults import HttpPeer, Received, send
from tests.peers.identity_provider import AnswersHtml, IdentityProvider, NeverAnswers
from wicket_mcp import Gateway
from wicket_mcp.config.model.config import Config, IssuerConfig, ProfileConfig
from wicket_mcp.errors import ConfigError
from wicket_mcp.identity.claims import person_name
from wicket_mcp.identity.documents import Documents, Unreadable
from wicket_mcp.rooms import check
from wicket_mcp.store.model import AuditQuery

PUBLIC = "http://127.0.0.1:9999"
AUDIENCE = f"{PUBLIC}/mcp"


class Upstream(HttpPeer):
    """A server with one tool, that remembers every byte it got."""

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        results: dict[str, dict[str, Any]] = {
            "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "u"}},
            "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [{"type": "text", "text": "hello"}]},
        }
        if request.rpc_method in results:
            send(writer, 200, "application/json", request.answered(results[request.rpc_method]))
        else:
            send(writer, 202 if "id" not in request.body else 404, "text/plain", b"")


@asynccontextmanager
async def served(
    open_gateway: OpenGateway, *providers: IdentityProvider, **options: Any
) -> AsyncGenerator[tuple[Raw, Gateway]]:
    """A gateway that accepts the tokens of these providers."""
    issuers = [{"issuer": provider.issuer, **options} for provider in providers]
    http = {"public_url": PUBLIC, "issuers": issuers}
    async with open_gateway({"echo": peer("Echo")}, http=http) as gateway, serve_http(gateway) as address:
        async with raw_client(address) as client:
            yield client, gateway


async def knock(client: Raw, token: str | None, message: dict[str, Any] = INITIALIZE) -> tuple[int, str]:
    """The status for a token, and the challenge that came with it."""
    status, headers, _ = await client.post(message, token=token)
    return status, headers.get("WWW-Authenticate", "")


async def test_issuers_come_and_go_while_it_runs(open_gateway: OpenGateway) -> None:
    async with IdentityProvider() as provider:
        async with open_gateway({}) as gateway, serve_http(gateway) as address, raw_client(address) as client:
            plain, token = gateway.config, provider.token(aud=address)
            http = msgspec.structs.replace(plain.http, issuers=(IssuerConfig(issuer=provider.issuer),))
            missing = IssuerConfig(issuer=provider.issuer, client_secret="${NOT_SET_ANYWHERE}")
            assert (await knock(client, token))[0] == 401
            gateway.apply(msgspec.structs.replace(plain, http=http))
            assert (await knock(client, token))[0] == 200
            bad = msgspec.structs.replace(plain, http=msgspec.structs.replace(http, issuers=(missing,)))
            with pytest.raises(ConfigError, match="NOT_SET_ANYWHERE"):
                gateway.apply(bad)
            assert (await knock(client, token))[0] == 200
            gateway.apply(plain)
            assert await knock(client, token) == (401, 'Bearer error="invalid_token"')
            assert await knock(client, None) == (401, "Bearer")


@pytest.mark.parametrize("path", ["/mcp", "/mcp/", "/mcp/native", "/mcp/flat/"])
async def test_the_metadata_names_the_address_to_the_byte(open_gateway: OpenGateway, path: str) -> None:
    async with IdentityProvider() as provider, served(open_gateway, provider) as (client, _):
        at = client.address.removesuffix("/mcp")
        async with client.session.get(f"{at}/.well-known/oauth-protected-resource{path}") as answer:
            body = await answer.json()
        async with client.session.post(f"{at}{path}") as rejected:
            challenge = rejected.headers["WWW-Authenticate"]
    assert body["resource"] == f"{PUBLIC}{path}"
    assert body["authorization_servers"] == [provider.issuer]
    assert body["bearer_methods_supported"] == ["header"]
    assert set(body["scopes_supported"]) >= {"discover", "invoke"}
    metadata = f"{PUBLIC}/.well-known/oauth-protected-resource{path}"
    assert (rejected.status, challenge) == (
        401,
        f'Bearer resource_metadata="{metadata}", scope="discover invoke"',
    )


async def test_a_profile_that_is_added_while_it_runs_has_metadata(open_gateway: OpenGateway) -> None:
    async with IdentityProvider() as provider, served(open_gateway, provider) as (client, gateway):
        path = "/mcp/p/docs"
        at = client.address.removesuffix("/mcp")
        async with client.session.get(f"{at}/.well-known/oauth-protected-resource{path}") as before:
            assert before.status == 401
        profile = ProfileConfig(name="docs", servers=("echo",))
        gateway.apply(msgspec.structs.replace(gateway.config, profiles=(profile,)))
        async with client.session.get(f"{at}/.well-known/oauth-protected-resource{path}") as answer:
            assert (await answer.json())["resource"] == f"{PUBLIC}{path}"
        there = Raw(client.session, f"{at}{path}")
        status, challenge = await knock(there, None)
        assert (status, f'oauth-protected-resource{path}"' in challenge) == (401, True)
        assert (await knock(there, provider.token(aud=f"{PUBLIC}{path}")))[0] == 200


async def test_the_root_metadata_is_about_mcp_and_other_paths_have_none(open_gateway: OpenGateway) -> None:
    async with IdentityProvider() as provider, served(open_gateway, provider) as (client, _):
        at = f"{client.address.removesuffix('/mcp')}/.well-known/oauth-protected-resource"
        async with client.session.get(at) as answer:
            assert (await answer.json())["resource"] == AUDIENCE
        async with client.session.get(f"{at}/mcp/nothing") as answer:
            assert answer.status == 401


async def test_without_a_public_address_the_one_that_was_used_counts(open_gateway: OpenGateway) -> None:
    async with IdentityProvider() as provider:
        http = {"issuers": [{"issuer": provider.issuer}]}
        async with (
            open_gateway({}, http=http) as gateway,
            serve_http(gateway) as address,
            raw_client(address) as client,
        ):
            for own in (address, address.replace("127.0.0.1", "localhost")):
                there = Raw(client.session, own)
                assert (await knock(there, provider.token(aud=own)))[0] == 200
                assert (await knock(there, provider.token(aud=AUDIENCE)))[0] == 401


@pytest.mark.parametrize("host", ["localhost:3000", "127.0.0.1:3000", "localhost", "[::1]:3000", "tools.example:3000"])
async def test_the_sender_cannot_choose_which_service_a_token_is_for(open_gateway: OpenGateway, host: str) -> None:
    async with IdentityProvider() as provider:
        http = {"issuers": [{"issuer": provider.issuer}], "allowed_hosts": ["tools.example"]}
        async with (
            open_gateway({}, http=http) as gateway,
            serve_http(gateway) as address,
            raw_client(address) as client,
        ):
            sent = {"Host": host}
            for scheme in ("http", "https"):
                elsewhere = provider.token(aud=f"{scheme}://{host}/mcp")
                assert (await client.post(INITIALIZE, sent, token=elsewhere))[0] == 401
            assert (await client.post(INITIALIZE, sent, token=provider.token(aud=address)))[0] == 200
            listed = provider.token(aud="https://tools.example/mcp")
            assert (await client.post(INITIALIZE, {"Host": "tools.example"}, token=listed))[0] == 200


async def test_without_issuers_there_is_no_door(open_gateway: OpenGateway) -> None:
    async with open_gateway({}) as gateway, serve_http(gateway) as address, raw_client(address) as client:
        assert await knock(client, None) == (401, "Bearer")
        url = address.replace("/mcp", "/.well-known/oauth-protected-resource")
        async with client.session.get(url, headers={"Authorization": f"Bearer {TOKEN}"}) as answer:
            assert answer.status == 404


async def test_a_person_calls_tools_and_the_others_go_on_working(open_gateway: OpenGateway) -> None:
    async with IdentityProvider() as provider, served(open_gateway, provider) as (client, gateway):
        key, _ = await gateway.registry.keys.create("ci", ["invoke"])
        for token in (provider.token(aud=AUDIENCE), TOKEN, key):
            status, headers, _ = await client.post(INITIALIZE, token=token)
            assert status == 200
            session = {"Mcp-Session-Id": headers["Mcp-Session-Id"]}
            _, _, body = await client.post(call("echo.echo", message="hello"), session, token=token)
            assert body["result"]["content"][0]["text"] == "hello"
        person = person_name(provider.issuer, "ann")
        calls = await gateway.store.find_calls(AuditQuery(principal=person))
        assert {(record.method, record.tool) for record in calls} == {("tools/call", "echo"), ("admin", "sign-in")}
        assert [f"(ann) of {provider.issuer}"] == [record.detail for record in calls if record.method == "admin"]


async def test_a_renewed_token_is_the_same_person(open_gateway: OpenGateway) -> None:
    async with IdentityProvider() as provider, served(open_gateway, provider) as (client, _):
        _, headers, _ = await client.post(INITIALIZE, token=provider.token(aud=AUDIENCE))
        session = {"Mcp-Session-Id": headers["Mcp-Session-Id"]}
        renewed = provider.token(aud=AUDIENCE, scope="invoke discover register", jti="2", email="new@example.com")
        assert (await client.post(call("echo.echo", message="x"), session, token=renewed))[0] == 200
        somebody_else = provider.token(aud=AUDIENCE, sub="bob")
        assert (await client.post(call("echo.echo", message="x"), session, token=somebody_else))[0] == 404


async def test_people_who_use_one_client_are_as_many_people(open_gateway: OpenGateway) -> None:
    """Every access token after RFC 9068 names its client, too."""
    async with IdentityProvider() as provider, served(open_gateway, provider) as (client, gateway):
        for sub in ("ann", "bob", None):
            token = provider.token(aud=AUDIENCE, sub=sub, client_id="desktop")
            assert (await knock(client, token))[0] == 200
            acts = await gateway.store.find_calls(
                AuditQuery(principal=person_name(provider.issuer, sub or "client:desktop"))
            )
            assert len(acts) == 1, sub
        _, headers, _ = await client.post(INITIALIZE, token=provider.token(aud=AUDIENCE, client_id="desktop"))
        session = {"Mcp-Session-Id": headers["Mcp-Session-Id"]}
        others = {"bob": 404, "ann": 200}
        for sub, expected in others.items():
            token = provider.token(aud=AUDIENCE, sub=sub, client_id="desktop")
            assert (await client.post(call("echo.echo", message="x"), session, token=token))[0] == expected


async def test_two_issuers_with_one_subject_are_two_people(open_gateway: OpenGateway) -> None:
    async with IdentityProvider() as one, IdentityProvider() as other:
        async with served(open_gateway, one, other) as (client, _):
            _, headers, _ = await client.post(INITIALIZE, token=one.token(aud=AUDIENCE))
            session = {"Mcp-Session-Id": headers["Mcp-Session-Id"]}
            assert (await client.post(call("echo.echo"), session, token=other.token(aud=AUDIENCE)))[0] == 404
            forged = one.token(aud=AUDIENCE, iss=other.issuer)
            assert (await knock(client, forged))[0] == 401
    assert person_name(one.issuer, "ann") != person_name(other.issuer, "ann")
    assert person_name("ab", "c") != person_name("a", "bc")


def encoded(part: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


def unsigned(provider: IdentityProvider) -> str:
    return f"{encoded({'alg': 'none', 'typ': 'at+jwt'})}.{encoded(provider.claims(aud=AUDIENCE))}."


def signed_with_the_public_key(provider: IdentityProvider) -> str:
    """HS256 with the public key as the secret: what a verifier that trusts the header takes for genuine."""
    header = {"alg": "HS256", "typ": "at+jwt", "kid": "first"}
    head, claims, _ = ".".join([encoded(header), encoded(provider.claims(aud=AUDIENCE)), ""]).split(".")
    secret = provider.rsa.as_pem(private=False)
    signature = hmac.digest(secret, f"{head}.{claims}".encode(), "sha256")
    return f"{head}.{claims}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def changed_after_signing(provider: IdentityProvider) -> str:
    header, _, signature = provider.token(aud=AUDIENCE).split(".")
    return f"{header}.{encoded(provider.claims(aud=AUDIENCE, sub='root'))}.{signature}"


def now() -> int:
    return int(time.time())


BAD: dict[str, Callable[[IdentityProvider], str]] = {
    "another audience": lambda p: p.token(aud="https://other.example/mcp"),
    "no audience": lambda p: p.token(),
    "an audience that only begins like ours": lambda p: p.token(aud=f"{AUDIENCE}x"),
    "another issuer": lambda p: p.token(aud=AUDIENCE, iss="https://login.example"),
    "an issuer with a slash more": lambda p: p.token(aud=AUDIENCE, iss=f"{p.issuer}/"),
    "no issuer": lambda p: p.token(aud=AUDIENCE, iss=None),
    "expired": lambda p: p.token(aud=AUDIENCE, exp=now() - 61),
    "not valid yet": lambda p: p.token(aud=AUDIENCE, nbf=now() + 120),
    "no end": lambda p: p.token(aud=AUDIENCE, exp=None),
    "an end that is text": lambda p: p.token(aud=AUDIENCE, exp="never"),
    "an end beyond all time": lambda p: p.token(aud=AUDIENCE, exp=1e300),
    "no subject": lambda p: p.token(aud=AUDIENCE, sub=None),
    "a subject that is a number": lambda p: p.token(aud=AUDIENCE, sub=5),
    "a subject that is a list": lambda p: p.token(aud=AUDIENCE, sub=["ann"]),
    "an empty subject": lambda p: p.token(aud=AUDIENCE, sub=""),
    "alg none": unsigned,
    "alg HS256 with the public key": signed_with_the_public_key,
    "an algorithm that is not allowed": lambda p: p.token(header={"alg": "RS512"}, aud=AUDIENCE),
    "changed after signing": changed_after_signing,
    "another key under a known name": lambda p: p.token(RSAKey.generate_key(2048, {"kid": "first"}), aud=AUDIENCE),
    "a type of another kind": lambda p: p.token(header={"typ": "dpop+jwt"}, aud=AUDIENCE),
    "no type": lambda p: p.token(header={"typ": None}, aud=AUDIENCE),
    "an empty type": lambda p: p.token(header={"typ": ""}, aud=AUDIENCE),
    "a critical header": lambda p: p.token(header={"crit": ["jku"], "jku": "https://login.example/keys"}, aud=AUDIENCE),
    "a key name that is a path": lambda p: p.token(header={"kid": "../../etc/passwd"}, aud=AUDIENCE),
    "too long": lambda p: p.token(aud=AUDIENCE, filler="x" * 20_000),
    "three parts of nothing": lambda p: "..",
    "not base64": lambda p: "a.b.c",
    "opaque, and nobody to ask": lambda p: "opaque-token",
}


@pytest.mark.parametrize("case", BAD)
async def test_a_token_that_must_not_count(open_gateway: OpenGateway, case: str) -> None:
    async with IdentityProvider() as provider, served(open_gateway, provider) as (client, _):
        token = BAD[case](provider)
        status, headers, body = await client.post(INITIALIZE, token=token)
        assert status == 401
        assert headers["WWW-Authenticate"].startswith('Bearer error="invalid_token", resource_metadata="')
        assert token not in json.dumps(body) or token == ".."
        assert (await knock(client, provider.token(aud=AUDIENCE)))[0] == 200


GOOD: dict[str, Callable[[IdentityProvider], str]] = {
    "the resource": lambda p: p.token(aud=AUDIENCE),
    "a slash more": lambda p: p.token(aud=f"{AUDIENCE}/"),
    "another address of ours": lambda p: p.token(aud=f"{PUBLIC}/mcp/native"),
    "the whole service": lambda p: p.token(aud=PUBLIC),
    "one audience of several": lambda p: p.token(aud=["https://other.example", AUDIENCE]),
    "expired within the leeway": lambda p: p.token(aud=AUDIENCE, exp=now() - 30),
    "a clock that is ahead": lambda p: p.token(aud=AUDIENCE, nbf=now() + 30),
    "type JWT": lambda p: p.token(header={"typ": "JWT"}, aud=AUDIENCE),
    "no key name": lambda p: p.token(header={"kid": None}, aud=AUDIENCE),
}


@pytest.mark.parametrize("case", GOOD)
async def test_a_token_that_counts(open_gateway: OpenGateway, case: str) -> None:
    async with IdentityProvider() as provider, served(open_gateway, provider) as (client, _):
        assert (await knock(client, GOOD[case](provider)))[0] == 200


async def test_every_allowed_kind_of_key_counts_for_its_own_algorithm_alone(open_gateway: OpenGateway) -> None:
    async with IdentityProvider() as provider, served(open_gateway, provider) as (client, _):
        elliptic = ECKey.generate_key("P-256", {"kid": "ec"})
        edwards = OKPKey.generate_key("Ed25519", {"kid": "ed"})
        for_encryption = RSAKey.generate_key(2048, {"kid": "enc"})
        provider.keys += [elliptic, edwards, for_encryption, OctKey.generate_key(256, {"kid": "oct"})]
        provider.marks["enc"] = {"use": "enc"}
        statuses = [(await knock(client, provider.token(key, aud=AUDIENCE)))[0] for key in provider.keys]
        assert statuses == [200, 200, 200, 401, 401]


async def test_a_new_key_is_fetched_and_unknown_ones_ask_once_a_minute(open_gateway: OpenGateway) -> None:
    async with IdentityProvider() as provider, served(open_gateway, provider) as (client, _):
        provider.keys = [RSAKey.generate_key(2048, {"kid": "second"})]
        for number in range(20):
            unknown = provider.token(header={"kid": f"unknown {number}"}, aud=AUDIENCE)
            assert (await knock(client, unknown))[0] == 401
        assert provider.asked["/keys"] == 1
        assert (await knock(client, provider.token(aud=AUDIENCE)))[0] == 200
        assert provider.asked["/keys"] == 1


async def test_an_issuer_that_is_down_does_not_stop_the_start_and_says_so_later(open_gateway: OpenGateway) -> None:
    provider = IdentityProvider()
    async with provider:
        pass
    async with served(open_gateway, provider) as (client, _):
        status, headers, body = await client.post(INITIALIZE, token=provider.token(aud=AUDIENCE))
        assert (status, "WWW-Authenticate" in headers) == (503, False)
        assert "could not be reached" in body["error"]
        assert (await knock(client, TOKEN))[0] == 200


async def test_an_issuer_that_goes_down_later_hurts_nobody_who_is_known(open_gateway: OpenGateway) -> None:
    async with IdentityProvider() as provider:
        async with served(open_gateway, provider) as (client, _):
            first, second = provider.token(aud=AUDIENCE), provider.token(aud=AUDIENCE, sub="bob")
            assert (await knock(client, first))[0] == 200
            await provider.__aexit__(None, None, None)
            assert (await knock(client, first))[0] == 200
            assert (await knock(client, second))[0] == 200


async def test_an_issuer_that_answers_nonsense(open_gateway: OpenGateway) -> None:
    async with AnswersHtml() as provider, served(open_gateway, provider) as (client, _):
        status, _, body = await client.post(INITIALIZE, token=provider.token(aud=AUDIENCE))
        assert status == 503
        assert "not JSON" in body["error"]


async def test_an_issuer_that_never_answers_is_waited_for_so_long(open_gateway: OpenGateway) -> None:
    async with NeverAnswers() as provider:
        documents = Documents(["127.0.0.1"], timeout=0.05)
        with pytest.raises(Unreadable, match=r"did not answer within 0.05 s"):
            await documents.get(provider.issuer)
        await documents.close()


async def test_metadata_of_another_issuer_is_not_used(open_gateway: OpenGateway) -> None:
    async with IdentityProvider() as provider, served(open_gateway, provider) as (client, _):
        provider.metadata["issuer"] = "https://login.example"
        status, _, body = await client.post(INITIALIZE, token=provider.token(aud=AUDIENCE))
        assert (status, provider.asked["/keys"]) == (503, 0)
        assert "another issuer" in body["error"]


async def test_keys_are_not_fetched_from_inside_because_a_document_says_so(open_gateway: OpenGateway) -> None:
    async with (
        IdentityProvider() as provider,
        IdentityProvider() as inside,
        served(open_gateway, provider) as (client, _),
    ):
        provider.metadata["jwks_uri"] = inside.metadata["jwks_uri"].replace("127.0.0.1", "127.0.0.2")
        status, _, body = await client.post(INITIALIZE, token=provider.token(aud=AUDIENCE))
        assert (status, inside.asked.total()) == (503, 0)
        assert "may not be reached" in body["error"]


async def test_an_audience_of_the_issuers_own(open_gateway: OpenGateway) -> None:
    async with IdentityProvider() as provider, served(open_gateway, provider, audience=["api://wicket"]) as (client, _):
        assert (await knock(client, provider.token(aud="api://wicket")))[0] == 200
        assert (await knock(client, provider.token(aud=AUDIENCE)))[0] == 401


async def test_scopes_groups_and_roles_become_what_a_person_may_do(open_gateway: OpenGateway) -> None:
    scopes = {"*": ["discover"], "engineers": ["invoke"]}
    async with IdentityProvider() as provider:
        async with served(open_gateway, provider, scopes=scopes, groups="realm_access.roles") as (client, gateway):
            plain = provider.token(aud=AUDIENCE, scope="openid admin invoke")
            engineer = provider.token(aud=AUDIENCE, scope="openid", realm_access={"roles": ["engineers"]})
            for token, expected in ((plain, 403), (engineer, 200)):
                _, headers, _ = await client.post(INITIALIZE, token=token)
                session = {"Mcp-Session-Id": headers["Mcp-Session-Id"]}
                status, answered, _ = await client.post(call("echo.echo", message="x"), session, token=token)
                assert status == expected
                if expected == 403:
                    assert answered["WWW-Authenticate"] == (
                        'Bearer error="insufficient_scope", '
                        f'resource_metadata="{PUBLIC}/.well-known/oauth-protected-resource/mcp", '
                        'scope="discover invoke"'
                    )
            (refused,) = await gateway.store.find_calls(AuditQuery(outcome="denied"))
            assert (refused.method, refused.tool, refused.rule) == ("tools/call", "call_tool", "scope invoke: deny")


async def test_a_group_is_held_to_its_profile(open_gateway: OpenGateway) -> None:
    async with IdentityProvider() as provider:
        http = {"public_url": PUBLIC, "issuers": [{"issuer": provider.issuer}]}
        profiles = {"small": {"tools": ["echo.calls"], "groups": ["guests"]}}
        servers = {"echo": peer("Echo")}
        async with open_gateway(servers, http=http, profiles=profiles) as gateway, serve_http(gateway) as address:
            async with raw_client(address) as client:
                for groups, expected in ((["guests"], True), (["staff"], False)):
                    token = provider.token(aud=AUDIENCE, groups=groups)
                    _, headers, _ = await client.post(INITIALIZE, token=token)
                    session = {"Mcp-Session-Id": headers["Mcp-Session-Id"]}
                    _, _, body = await client.post(call("echo.echo", message="x"), session, token=token)
                    assert body["result"].get("isError", False) is expected
                url = address.replace("/mcp", "/.well-known/oauth-protected-resource/mcp/p/small")
                async with client.session.get(url) as answer:
                    assert (await answer.json())["resource"] == f"{PUBLIC}/mcp/p/small"


async def test_a_token_without_any_scope_of_ours_is_told_all_at_once(open_gateway: OpenGateway) -> None:
    async with IdentityProvider() as provider, served(open_gateway, provider) as (client, _):
        status, challenge = await knock(client, provider.token(aud=AUDIENCE, scope="openid admin"))
        assert status == 403
        assert 'error="insufficient_scope"' in challenge
        assert 'scope="discover invoke"' in challenge


async def test_the_clients_token_never_goes_upstream(open_gateway: OpenGateway) -> None:
    async with IdentityProvider() as provider, Upstream() as upstream:
        http = {"public_url": PUBLIC, "issuers": [{"issuer": provider.issuer}]}
        servers = {"up": {"url": upstream.url, "transport": "http"}}
        async with open_gateway(servers, http=http) as gateway, serve_http(gateway) as address:
            async with raw_client(address) as client:
                token = provider.token(aud=AUDIENCE)
                _, headers, _ = await client.post(INITIALIZE, token=token)
                session = {"Mcp-Session-Id": headers["Mcp-Session-Id"]}
                _, _, body = await client.post(call("up.echo"), session, token=token)
        assert body["result"]["content"][0]["text"] == "hello"
        everything = "".join(f"{got.path}{got.headers}{got.body}" for got in upstream.received)
        assert "tools/call" in everything
        assert not [part for part in token.split(".") if part in everything]


UNUSABLE: list[tuple[dict[str, Any], str]] = [
    ({"issuers": [{}]}, "http.issuers[0].issuer: is missing"),
    ({"issuers": [{"issuer": "login"}]}, "http.issuers[0].issuer: is not a web address"),
    ({"issuers": [{"issuer": "http://login.example"}]}, "is not encrypted"),
    ({"issuers": [{"issuer": "https://a"}, {"issuer": "https://a"}]}, "is there twice"),
    ({"issuers": [{"issuer": "https://a", "algorithms": ["none"]}]}, "'none' is not one of"),
    ({"issuers": [{"issuer": "https://a", "algorithms": ["HS256"]}]}, "'HS256' is not one of"),
    ({"public_url": "https://a.example/mcp"}, "without /mcp"),
    ({"host": "0.0.0.0", "issuers": [{"issuer": "https://a"}]}, "http.public_url: is needed"),
]


@pytest.mark.parametrize(("http", "expected"), UNUSABLE)
def test_what_cannot_be_configured(http: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError) as problem:
        check(Config.from_dict({"http": http}))
    assert expected in str(problem.value)


UNUSED = {
    "wicket_mcp.identity.documents",
    "wicket_mcp.identity.grants",
    "wicket_mcp.identity.jwks",
    "wicket_mcp.identity.oauth",
    "wicket_mcp.identity.providers",
    "wicket_mcp.identity.tokens",
    "wicket_mcp.surface.authorization",
    "wicket_mcp.surface.consent_page",
    "joserfc",
    "cryptography",
    "keyring",
}
OVER_HTTP = """
import asyncio, sys
from tests.gateway.serving import TOKEN, serve_http, raw_client
from tests.gateway.test_http import INITIALIZE, call
from wicket_mcp import Gateway
async def main(folder, server):
    servers = {"echo": {"command": sys.executable, "args": [server, "Echo"]}}
    async with Gateway.open({"servers": servers, "state_dir": folder, "http": {"port": 0}}) as gateway:
        async with serve_http(gateway) as address, raw_client(address) as client:
            _, headers, _ = await client.post(INITIALIZE)
            session = {"Mcp-Session-Id": headers["Mcp-Session-Id"]}
            status, _, body = await client.post(call("echo.echo", message="hello"), session)
            assert body["result"]["content"][0]["text"] == "hello", body
asyncio.run(main(*sys.argv[1:]))
print(" ".join(sys.modules))
"""


def test_a_gateway_over_http_that_uses_none_of_this_loads_none_of_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OVER_HTTP, tmp_path, PEERS / "stdio_peer.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    modules = set(done.stdout.split())
    assert "wicket_mcp.surface.guard" in modules
    assert not modules & UNUSED


async def test_a_gateway_over_stdio_loads_none_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    command = await Command.start(tmp_path, {"echo": peer("Echo")}, "--no-daemon")
    await command.initialize()
    result = await command.call("call_tool", {"name": "echo.echo", "arguments": {"message": "hello"}})
    assert result["content"][0]["text"] == "hello"
    assert command.process.stdin is not None
    command.process.stdin.close()
    _, err = await command.process.communicate()
    modules = {line.rpartition("|")[2].strip() for line in err.decode().splitlines() if line.startswith("import time:")}
    assert "wicket_mcp.surface.stdio" in modules
    assert not modules & UNUSED
