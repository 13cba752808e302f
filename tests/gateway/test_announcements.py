"""What a server says by an unknown extension outside any call reaches the clients that declare it, and nobody else."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.conftest import OpenGateway, Server
from tests.gateway.extensions_document import shows
from tests.gateway.serving import META, TOKEN, Command, Raw, raw_client, serve_http
from tests.gateway.test_extensions import CAPABILITIES, ERAS, TALLY, extended
from tests.peers.counting_servers import Announces
from wicket_mcp.upstream.announcements import address_to, is_addressed, read_announcement

TICK = "notifications/com.example/tick"
SAID: dict[str, Any] = {"deep": [{"uri": "x:y"}, None], "_meta": {"com.example/mark": 1}}
LISTENER = "io.modelcontextprotocol/subscriptionId"
MODERN: dict[str, Any] = {**META, CAPABILITIES: {"extensions": {TALLY: {}}}}


async def greet(command: Command, era: str) -> None:
    """Declare the extension and, in the modern era, listen."""
    if era == "legacy":
        hello = {"protocolVersion": "2025-11-25", "clientInfo": {"name": "t", "version": "1"}}
        await command.ask("initialize", {**hello, "capabilities": {"extensions": {TALLY: {}}}})
        command.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        await command.ask("resources/list")
    else:
        await command.ask("resources/list", {"_meta": MODERN})
        params: dict[str, Any] = {"notifications": {}, "_meta": MODERN}
        command.send({"jsonrpc": "2.0", "id": "l", "method": "subscriptions/listen", "params": params})
        assert (await command.receive())["method"] == "notifications/subscriptions/acknowledged"


def poke(era: str) -> dict[str, Any]:
    params = {"say": SAID, **({"_meta": MODERN} if era == "modern" else {})}
    return {"jsonrpc": "2.0", "method": "com.example/poke", "params": params}


@shows("any", "notifications outside calls", clients="both", servers="both")
@pytest.mark.parametrize("server", ERAS)
@pytest.mark.parametrize("client", ERAS)
async def test_what_a_server_announces_reaches_a_client_that_declares_the_extension(
    tmp_path: Path, client: str, server: str
) -> None:
    command = await Command.start(tmp_path, {"one": extended(server, "one")}, "--dialect", "flat", "--no-daemon")
    await greet(command, client)
    command.send(poke(client))
    told = await command.receive()
    tag = {LISTENER: "l"} if client == "modern" else {}
    assert (told["method"], told["params"]) == (TICK, {**SAID, "_meta": {**SAID["_meta"], **tag}})
    call = {"name": "one__seen", "arguments": {}, **({"_meta": MODERN} if client == "modern" else {})}
    seen = (await command.ask("tools/call", call))["result"]["structuredContent"]
    if server == "modern":
        assert seen["listening"] == {"extensions": {TALLY: {}}}
    assert await command.finish() == 0


async def read(stream: aiohttp.ClientResponse) -> Any:
    """The next message of a stream."""
    while not (line := await stream.content.readline()).startswith(b"data: "):
        assert line, "the stream has ended"
    return json.loads(line[6:])


@asynccontextmanager
async def legacy_stream(
    client: Raw, extensions: dict[str, Any], token: str = TOKEN
) -> AsyncGenerator[aiohttp.ClientResponse]:
    """The stream of unsolicited messages of a client that declares these extensions."""
    hello = {"protocolVersion": "2025-11-25", "clientInfo": {"name": "t", "version": "1"}}
    params = {**hello, "capabilities": {"extensions": extensions}}
    _, headers, _ = await client.post(
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}, token=token
    )
    said = {"Authorization": f"Bearer {token}", "Mcp-Session-Id": headers["Mcp-Session-Id"]}
    async with client.session.get(client.address, headers={**said, "Accept": "text/event-stream"}) as stream:
        yield stream


@asynccontextmanager
async def house(open_gateway: OpenGateway, servers: dict[str, Server], *keys: str) -> AsyncGenerator[list[Any]]:
    """A gateway that has seen its servers, a client, and a key for each of these names."""
    async with (
        open_gateway(servers) as gateway,
        serve_http(gateway, "flat") as address,
        raw_client(address) as client,
    ):
        await client.modern("resources/list")
        made = [(await gateway.registry.keys.create(name, ["discover", "invoke"]))[0] for name in keys]
        yield [gateway, client, *made]


ROUTE = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "com.example/poke"}


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_that_does_not_declare_it_is_not_told(open_gateway: OpenGateway, era: str) -> None:
    async with (
        house(open_gateway, {"one": extended(era, "one")}) as (gateway, client),
        legacy_stream(client, {TALLY: {}}) as declares,
        legacy_stream(client, {"com.example/other": {}}) as other,
    ):
        await client.post(poke("modern"), ROUTE)
        assert (await read(declares))["params"] == SAID
        gateway.feed.publish(["resources"])
        assert (await read(other))["method"].endswith("/list_changed"), "nothing came before"


async def test_a_modern_server_over_http_announces_in_its_subscription(open_gateway: OpenGateway) -> None:
    async with Announces() as server:
        async with (
            house(open_gateway, {"one": {"url": server.url}}) as (_, client),
            legacy_stream(client, {TALLY: {}}) as stream,
        ):
            while not server.listeners:
                await client.modern("resources/list")
            await client.post(poke("modern"), ROUTE)
            told = await read(stream)
            assert (told["method"], told["params"]) == (TICK, SAID)
            declared = server.listeners[0][0].body["params"]["_meta"][CAPABILITIES]
            assert declared == {"extensions": {TALLY: {}}}


async def test_one_users_announcement_is_told_to_no_other_and_that_of_several_to_none(
    open_gateway: OpenGateway,
) -> None:
    async with (
        house(open_gateway, {"one": extended("modern", "one")}, "ann", "bob") as (gateway, client, ann, bob),
        legacy_stream(client, {TALLY: {}}) as owner,
        legacy_stream(client, {TALLY: {}}, token=ann) as hers,
    ):
        await client.post(poke("modern"), ROUTE, token=ann)
        assert (await read(hers))["method"] == TICK
        call = {"name": "one__seen", "arguments": {}, "_meta": META}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        route = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "one__seen"}
        await client.post(poke("modern"), ROUTE, token=bob)
        while len((await client.post(message, route, token=bob))[2]["result"]["structuredContent"]["notified"]) < 2:
            pass  # it is on its way
        gateway.feed.publish(["resources"])
        for stream in (owner, hers):
            assert (await read(stream))["method"].endswith("/list_changed"), "nothing of bob's came before"


def test_another_gateway_is_told_who_may_hear_it() -> None:
    tagged = {**SAID, "_meta": {**SAID["_meta"], LISTENER: 7}}
    assert read_announcement(tagged, {"ann"}, from_gateway=False) == ("ann", SAID)
    assert read_announcement({}, (), from_gateway=False) == ("", {})
    assert read_announcement(tagged, {"ann", "bob"}, from_gateway=False)[0] is None
    sent = address_to("ann", SAID)
    assert is_addressed(sent)
    assert read_announcement(sent, (), from_gateway=True) == ("ann", SAID)
    assert read_announcement(SAID, (), from_gateway=True)[0] is None, "one that says nothing is not believed"
    assert read_announcement(sent, (), from_gateway=False) == ("", sent), "a server cannot choose its audience"


@shows("any", "methods, over pipes", clients="legacy", servers="both")
@pytest.mark.parametrize("server", ERAS)
async def test_a_legacy_client_uses_a_method_of_an_unknown_extension(tmp_path: Path, server: str) -> None:
    servers = {name: extended(server, name) for name in ("one", "two")}
    command = await Command.start(tmp_path, servers, "--no-daemon")
    await greet(command, "legacy")
    params = {"name": "two.seen", "amount": {"deep": [1, None]}, "_meta": {"com.example/mark": 1}}
    result = (await command.ask("com.example/tally/add", params))["result"]
    assert (result["server"], result["method"], result["vendor"]) == ("two", "com.example/tally/add", {"kept": 1})
    assert (result["params"]["name"], result["params"]["amount"]) == ("seen", params["amount"])
    assert result["params"]["_meta"]["com.example/mark"] == 1
    assert "resultType" not in result
    assert (await command.ask("com.example/tally/add", {}))["error"]["code"] == -32601
    assert await command.finish() == 0
