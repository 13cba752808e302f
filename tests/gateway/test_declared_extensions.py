"""What the client of a request declares is what a legacy server knows of it, though a connection declares only once."""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.conftest import PEERS, OpenGateway, Server
from tests.gateway.extensions_document import shows
from tests.gateway.serving import META, Raw, raw_client, serve_http
from tests.peers.counting_servers import CountingServer
from tests.peers.declared_server import TALLY, DeclaredServer
from wicket_mcp.extensions import APP_TYPE, SKILLS, TASKS, UI
from wicket_mcp.upstream.declarations import MOST

CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
Declared = dict[str, Any]
USED = {"stdio": {TALLY, SKILLS, UI}, "http": {TALLY}}
"""The extensions that each kind of server uses."""
HOST: Declared = {UI: {"mimeTypes": [APP_TYPE]}}


def extended(name: str) -> Server:
    return {"command": sys.executable, "args": [str(PEERS / "extended_server.py"), "legacy", name]}


@asynccontextmanager
async def house(open_gateway: OpenGateway, kind: str) -> AsyncGenerator[tuple[Raw, Any]]:
    """A client, and the gateway in front of the legacy server `x` of this kind."""
    async with DeclaredServer() as server:
        servers: dict[str, Server] = {"x": {"url": server.url} if kind == "http" else extended("x")}
        async with (
            open_gateway(servers) as gateway,
            serve_http(gateway, "flat") as address,
            raw_client(address) as client,
        ):
            await gateway.tools()
            yield client, gateway


async def call(client: Raw, able: Declared | None, session: str = "") -> Any:
    """The answer to a call of a modern client with these capabilities, or of a legacy one in its session."""
    tool = "x__echo" if "x__echo" in await names(client) else "x__seen"
    params: Declared = {"name": tool, "arguments": {"message": "x"}}
    routing = {"Mcp-Session-Id": session}
    if able is not None:
        params["_meta"] = {**META, CAPABILITIES: able}
        routing = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool}
    _, _, body = await client.post({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, routing)
    return body


async def shake_hands(client: Raw, able: Declared) -> str:
    """The session of a legacy client with these capabilities."""
    hello = {"protocolVersion": "2025-11-25", "clientInfo": {"name": "t", "version": "1"}, "capabilities": able}
    _, headers, _ = await client.post({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
    return headers["Mcp-Session-Id"]


def connected_with(body: Any) -> Any:
    """The extensions that the server was told of on the connection over which a call came."""
    seen = body["result"]["structuredContent"]
    return (seen.get("capabilities") or seen["handshake"]["capabilities"]).get("extensions")


async def told(client: Raw, declared: Declared | None) -> Any:
    return connected_with(await call(client, {"extensions": declared} if declared is not None else {}))


async def names(client: Raw) -> list[str]:
    _, body = await client.modern("tools/list")
    return [tool["name"] for tool in body["result"]["tools"]]


@shows("any", "declared by a client, passed to servers", clients="modern", servers="legacy, over pipes and HTTP")
@pytest.mark.parametrize("kind", ["stdio", "http"])
async def test_a_legacy_server_is_told_of_the_extensions_of_each_request_and_no_others(
    open_gateway: OpenGateway, kind: str
) -> None:
    async with house(open_gateway, kind) as (client, gateway):
        for _ in range(2):  # the second time over the connections that are there
            assert await told(client, {TALLY: {"depth": 3}}) == {TALLY: {"depth": 3}}
            assert not USED[kind] & (await told(client, None) or {}).keys()
            assert await told(client, {TALLY: {"depth": 4}, TASKS: {}}) == {TALLY: {"depth": 4}}
        connections = len(gateway.pool)
        assert await told(client, {TALLY: {"depth": 3}, "com.example/unspoken": {}}) == {TALLY: {"depth": 3}}
        assert len(gateway.pool) == connections, "what the server does not use makes no difference"


@shows("any", "declared by a client, passed to servers", clients="legacy", servers="legacy, over pipes and HTTP")
@pytest.mark.parametrize("kind", ["stdio", "http"])
async def test_what_a_legacy_client_declared_for_its_session_reaches_a_legacy_server(
    open_gateway: OpenGateway, kind: str
) -> None:
    async with house(open_gateway, kind) as (client, _):
        for depth in (1, 2):
            session = await shake_hands(client, {"extensions": {TALLY: {"depth": depth}}})
            assert connected_with(await call(client, None, session)) == {TALLY: {"depth": depth}}


async def test_a_client_that_declares_what_we_do_shares_our_connection(open_gateway: OpenGateway) -> None:
    async with house(open_gateway, "stdio") as (client, gateway):
        assert await told(client, {**HOST, SKILLS: {}}) == {**HOST, SKILLS: {}}
        assert len(gateway.pool) == 1


async def test_a_client_that_declares_something_else_each_time_is_given_few_connections(
    open_gateway: OpenGateway,
) -> None:
    async with house(open_gateway, "http") as (client, gateway):
        for depth in range(MOST * 2):
            assert await told(client, {TALLY: {"depth": depth}}) == {TALLY: {"depth": depth}}
        assert len(gateway.pool) <= MOST + 1


@shows("any", "declared by a client, passed to servers", clients="both", servers="legacy, without a sign of extensions")
@pytest.mark.parametrize("kind", ["stdio", "http"])
async def test_a_server_that_gives_no_sign_of_extensions_hears_of_them_with_each_request(
    open_gateway: OpenGateway, kind: str
) -> None:
    async with CountingServer() as server:
        servers: dict[str, Server] = {"x": {"url": server.url} if kind == "http" else extended("bare")}
        async with (
            open_gateway(servers) as gateway,
            serve_http(gateway, "flat") as address,
            raw_client(address) as client,
        ):
            await gateway.tools()

            async def heard(body: Any) -> Any:
                if kind == "http":
                    meta = server.received[-1].body["params"].get("_meta", {})
                else:
                    meta = body["result"]["structuredContent"]["meta"]
                return meta.get(CAPABILITIES)

            several: list[Declared] = [{TALLY: {}}, {}, {TALLY: {"depth": 1}, **HOST, TASKS: {}}]
            for declared in several:
                told = {name: value for name, value in declared.items() if name != TASKS}
                expected = {"extensions": told} if told else None
                assert await heard(await call(client, {"extensions": declared})) == expected
                session = await shake_hands(client, {"extensions": declared})
                assert await heard(await call(client, None, session)) == expected
            assert len(gateway.pool) == 1
