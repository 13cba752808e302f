"""What the client of a request declares is what a legacy server knows of it, though a connection declares only once."""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.conftest import PEERS, OpenGateway, Server
from tests.gateway.extensions_document import shows
from tests.gateway.serving import META, Raw, raw_client, serve_http
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


async def told(client: Raw, declared: Declared | None) -> Any:
    """The extensions that the server was told of on the connection over which a call of this client came."""
    tool = "x__echo" if "x__echo" in await names(client) else "x__seen"
    able = {"extensions": declared} if declared is not None else {}
    params = {"name": tool, "arguments": {"message": "x"}, "_meta": {**META, CAPABILITIES: able}}
    routing = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool}
    _, _, body = await client.post({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, routing)
    seen = body["result"]["structuredContent"]
    return (seen.get("capabilities") or seen["handshake"]["capabilities"]).get("extensions")


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
        tool = next(name for name in await names(client) if name in ("x__echo", "x__seen"))
        for depth in (1, 2):
            hello: Declared = {"protocolVersion": "2025-11-25", "clientInfo": {"name": "t", "version": "1"}}
            hello["capabilities"] = {"extensions": {TALLY: {"depth": depth}}}
            _, headers, _ = await client.post({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
            call = {"name": tool, "arguments": {"message": "x"}}
            message = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}
            _, _, body = await client.post(message, {"Mcp-Session-Id": headers["Mcp-Session-Id"]})
            seen = body["result"]["structuredContent"]
            handshake = seen.get("capabilities") or seen["handshake"]["capabilities"]
            assert handshake["extensions"] == {TALLY: {"depth": depth}}


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


async def test_a_server_that_uses_no_extension_has_one_connection_for_all(open_gateway: OpenGateway) -> None:
    async with (
        open_gateway({"x": {"command": sys.executable, "args": [str(PEERS / "legacy_tasks.py")]}}) as gateway,
        serve_http(gateway, "flat") as address,
        raw_client(address) as client,
    ):
        await gateway.tools()
        several: list[Declared] = [{TALLY: {}}, {TALLY: {"depth": 1}}]
        for declared in several:
            meta = {**META, CAPABILITIES: {"extensions": declared}}
            params: Declared = {"name": "x__job", "arguments": {}, "_meta": meta}
            routing = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "x__job"}
            message: Declared = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            _, _, body = await client.post(message, routing)
            assert body["result"]["content"][0]["text"] == "done"
        assert len(gateway.pool) == 1
