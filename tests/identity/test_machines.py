"""Tokens without a person, at a provider that checks what it is asked for."""

import base64
from dataclasses import dataclass

import pytest
from aiohttp import web

from tests.conftest import OpenGateway
from tests.identity.test_bound_tokens import BoundToKey, claims_of
from tests.peers.protected import Moves, Protected
from wicket_mcp.codec import decode
from wicket_mcp.errors import SignInFailed, WicketError
from wicket_mcp.model import as_object

EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"


@dataclass
class ForMachines(Protected):
    """Gives tokens to the client `robot` alone."""

    async def token(self, request: web.Request) -> web.Response:
        form = await request.post()
        kind = str(form["grant_type"])
        secret = base64.b64encode(b"robot:beep%2Fboop").decode()
        if request.headers.get("Authorization") != f"Basic {secret}":
            return web.json_response({"error": "invalid_client"}, status=401)
        if kind == EXCHANGE:
            assert form["subject_token_type"] == "urn:ietf:params:oauth:token-type:access_token"
            return web.json_response(self.issue(str(form["subject_token"]), ""))
        assert (kind, form["resource"]) == ("client_credentials", self.url)
        return web.json_response(self.issue("robot", ""))

    def metadata(self) -> dict[str, object]:
        return {**super().metadata(), "token_endpoint_auth_methods_supported": ["client_secret_basic"]}


async def test_a_client_signs_in_by_itself_and_again_when_its_token_ends(open_gateway: OpenGateway) -> None:
    auth = {"kind": "client_credentials", "client_id": "robot", "client_secret": "beep/boop"}
    async with ForMachines() as remote, open_gateway({"x": {"url": remote.url, "auth": auth}}) as gateway:
        assert (await gateway.call("x.whoami"))["content"][0]["text"] == "robot"
        remote.tokens.clear()
        assert (await gateway.call("x.whoami"))["content"][0]["text"] == "robot"


@dataclass
class Forbids(ForMachines):
    """Its tokens are fine, but nobody may call a tool."""

    async def mcp(self, request: web.Request) -> web.Response:
        allowed = as_object(decode(await request.read())).get("method") != "tools/call"
        return await super().mcp(request) if allowed else web.Response(status=403)


async def test_a_call_that_is_forbidden_is_not_sent_again_with_another_token(open_gateway: OpenGateway) -> None:
    auth = {"kind": "client_credentials", "client_id": "robot", "client_secret": "beep/boop"}
    async with Forbids() as remote, open_gateway({"x": {"url": remote.url, "auth": auth}}) as gateway:
        await gateway.catalogue.load()
        with pytest.raises(WicketError, match="403"):
            await gateway.call("x.whoami")
        calls = [one for one in remote.seen("/mcp") if "tools/call" in one.body and one.token]
        assert (len(calls), len(remote.seen("/token"))) == (1, 1)


@dataclass
class BoundForMachines(BoundToKey, ForMachines):
    """Gives the client `robot` tokens that are bound to its key."""


async def test_a_machines_token_is_bound_to_its_key_where_the_server_asks_for_that(open_gateway: OpenGateway) -> None:
    auth = {"kind": "client_credentials", "client_id": "robot", "client_secret": "beep/boop"}
    async with BoundForMachines() as remote, open_gateway({"x": {"url": remote.url, "auth": auth}}) as gateway:
        assert (await gateway.call("x.whoami"))["content"][0]["text"] == "robot"
        assert remote.proofs >= 2
        assert claims_of(remote.seen("/token")[0].headers["DPoP"])["htu"] == f"{remote.origin}/token"


async def test_a_token_is_exchanged_for_one_of_the_servers(
    open_gateway: OpenGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUBJECT", "workload-7")
    auth = {
        "kind": "token_exchange",
        "client_id": "robot",
        "client_secret": "beep/boop",
        "subject_token": "${env:SUBJECT}",
    }
    async with ForMachines() as remote, open_gateway({"x": {"url": remote.url, "auth": auth}}) as gateway:
        assert (await gateway.call("x.whoami"))["content"][0]["text"] == "workload-7"


async def test_a_wrong_secret_is_said_and_shown_nowhere(open_gateway: OpenGateway) -> None:
    auth = {"kind": "client_credentials", "client_id": "robot", "client_secret": "wrong-secret"}
    async with ForMachines() as remote, open_gateway({"x": {"url": remote.url, "auth": auth}}) as gateway:
        [status] = await gateway.servers()
        assert "invalid_client" in status.problem
        assert "wrong-secret" not in str(status)
        with pytest.raises(Exception, match="invalid_client") as problem:
            await gateway.pool.start("x")
        assert isinstance(problem.value, SignInFailed)


@dataclass
class MovesForMachines(Moves, ForMachines):
    """Gives tokens to the client `robot`, until it names another authorization server."""


@pytest.mark.parametrize(
    "auth",
    [
        {"kind": "client_credentials", "client_id": "robot", "client_secret": "beep/boop"},
        {"kind": "token_exchange", "client_id": "robot", "client_secret": "beep/boop", "subject_token": "canary"},
    ],
)
async def test_a_machines_secrets_are_shown_to_one_authorization_server_alone(
    open_gateway: OpenGateway, auth: dict[str, str]
) -> None:
    async with MovesForMachines() as remote, Protected() as other:
        servers = {"x": {"url": remote.url, "auth": auth}}
        async with open_gateway(servers) as gateway:
            await gateway.call("x.whoami")
        remote.other = other
        async with open_gateway(servers) as gateway:
            with pytest.raises(SignInFailed, match="names another authorization server.*set auth.issuer"):
                await gateway.call("x.whoami")
        assert not other.seen("/token")
