"""Tokens without a person, at a provider that checks what it is asked for."""

import base64
from dataclasses import dataclass

import pytest
from aiohttp import web

from tests.conftest import OpenGateway
from tests.peers.protected import Protected
from wicket_mcp.errors import SignInFailed

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
