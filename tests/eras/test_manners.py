"""Small print of both eras that a client or an upstream may rely on."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import mcp_types as types

from tests.conftest import ROOT, OpenGateway, peer
from tests.eras.cells import text
from tests.eras.chair import SERVER, seated
from tests.eras.house import upstream
from tests.eras.table import Link
from tests.eras.witness import witness
from tests.gateway.serving import META, Command, raw_client, serve_http
from wicket_mcp.config.model.config import Config
from wicket_mcp.model import META_CAPABILITIES, JsonObject
from wicket_mcp.store.model import CallRecord
from wicket_mcp.surface.stdio import DRAIN
from wicket_mcp.tasks import Tasks

LEGACY = Link("legacy", "legacy", "http", "stdio")


async def test_a_change_that_is_told_while_the_list_is_read_is_not_missed(open_gateway: OpenGateway) -> None:
    fickle = {"command": sys.executable, "args": ["-m", "tests.eras.fickle"], "cwd": str(ROOT)}
    async with open_gateway({SERVER: fickle}, unprefixed=True) as gateway:
        async with serve_http(gateway, "flat", token=None) as address, seated(address, "legacy") as chair:
            names: list[str] = []
            while names != ["new"]:
                names = [tool.name for tool in (await chair.client.list_tools()).tools]
                if names == ["old"]:
                    await chair.hears(types.ToolListChangedNotification)


async def test_clients_that_share_an_upstream_each_hear_the_log_they_want(open_gateway: OpenGateway) -> None:
    records: list[CallRecord] = []
    async with upstream(LEGACY) as server, open_gateway({SERVER: server}, unprefixed=True) as gateway:
        gateway.audit.listen(records.extend)
        async with (
            serve_http(gateway, "flat", token=None) as address,
            seated(address, "legacy") as curious,
            seated(address, "legacy") as calm,
        ):
            await curious.set_level("debug")
            await calm.set_level("error")
            await curious.call("flat", "log")
            await calm.call("flat", "log")
            assert [log.level for log in curious.logs] == ["debug", "info", "error"]
            assert [log.level for log in calm.logs] == ["error"]
            gateway.audit.flush()
            passed = [(record.principal, record.tool) for record in records if record.method == "logging/setLevel"]
            assert passed == [("local", "debug")], "what its servers are sent is a request of a client, once"


async def test_a_log_level_that_does_not_exist_is_refused(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo")}) as gateway, serve_http(gateway) as address:
        async with raw_client(address) as client:
            start: dict[str, Any] = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}
            _, headers, _ = await client.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": start})
            level = {"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": {"level": "loud"}}
            _, _, body = await client.post(level, {"Mcp-Session-Id": headers["Mcp-Session-Id"]})
            assert body["error"]["code"] == -32602
            assert "debug, info" in body["error"]["message"]


async def test_a_page_is_not_put_to_a_client_that_only_knows_forms(open_gateway: OpenGateway) -> None:
    able: JsonObject = {**META, META_CAPABILITIES: {"elicitation": {}}}
    async with upstream(LEGACY) as server, open_gateway({SERVER: server}, unprefixed=True) as gateway:
        async with serve_http(gateway, "flat") as address, raw_client(address) as client:
            params = {"name": "ask_url", "arguments": {"url": "https://pages.example/"}, "_meta": able}
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            routing = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "ask_url"}
            _, _, body = await client.post(message, routing)
            assert "asks for elicitation by url" in body["result"]["content"][0]["text"]


async def test_completion_may_be_the_first_thing_that_a_client_asks(open_gateway: OpenGateway) -> None:
    async with upstream(LEGACY) as server, open_gateway({SERVER: server}, unprefixed=True) as gateway:
        async with serve_http(gateway, "flat") as address, raw_client(address) as client:
            params = {
                "ref": {"type": "ref/resource", "uri": "era://a/{city}"},
                "argument": {"name": "city", "value": "o"},
            }
            _, body = await client.modern("completion/complete", params)
            assert body["result"]["completion"]["values"] == ["oslo"]


async def test_a_list_that_never_changes_is_not_listened_to(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo")}) as gateway:
        async with serve_http(gateway, "native", token=None) as address, seated(address, "modern") as chair:
            async with chair.client.listen(tools_list_changed=True, prompts_list_changed=True) as changes:
                assert changes.honored is not None
                assert not changes.honored.tools_list_changed
                assert changes.honored.prompts_list_changed


async def test_a_resource_that_nobody_watches_any_more_is_given_back(open_gateway: OpenGateway) -> None:
    async with upstream(LEGACY) as server, open_gateway({SERVER: server}, unprefixed=True) as gateway:
        async with (
            serve_http(gateway, "flat", token=None) as address,
            seated(address, "legacy") as ann,
            seated(address, "legacy") as bob,
        ):
            uri = "era://static"
            await ann.subscribe(uri)
            await bob.subscribe(uri)
            assert text(await ann.call("flat", "watched")) == uri
            await ann.unsubscribe(uri)
            assert text(await bob.call("flat", "watched")) == uri, "the other one still watches"
            await bob.unsubscribe(uri)
            assert text(await ann.call("flat", "unwatched", {"uri": uri})) == "given back"


async def test_b7_a_wrong_address_beside_a_right_one_leaves_nothing_watched(open_gateway: OpenGateway) -> None:
    """B7: the first watch was lost when the second address was wrong, and stayed for as long as the gateway."""
    async with upstream(LEGACY) as server, open_gateway({SERVER: server}) as gateway:
        async with serve_http(gateway, "flat") as address, raw_client(address) as client:
            uris = [f"mcp://{SERVER}/era://static", "mcp://nowhere/era://static"]
            wanted: JsonObject = {"notifications": {"resourceSubscriptions": uris}}
            _, answer = await client.modern("subscriptions/listen", wanted)
            assert "nowhere" in answer["error"]["message"]
            call = {"name": f"{SERVER}__unwatched", "arguments": {"uri": "era://static"}}
            _, body = await client.modern("tools/call", call)
            assert text(types.CallToolResult.model_validate(body["result"])) == "given back"


async def test_a_resource_stays_watched_when_its_server_is_reconfigured(open_gateway: OpenGateway) -> None:
    async with upstream(LEGACY) as server, open_gateway({SERVER: server}, unprefixed=True) as gateway:
        async with serve_http(gateway, "flat", token=None) as address, seated(address, "legacy") as ann:
            uri = "era://static"
            await ann.subscribe(uri)
            other = Config.from_dict({"servers": {SERVER: {**server, "env": {"NEW": "1"}}}, "unprefixed": True})
            gateway.apply(other)
            async with asyncio.timeout(30):
                while text(await ann.call("flat", "watched")) != uri:
                    pass
            await ann.call("flat", "touch", {"uri": uri})
            assert str((await ann.hears(types.ResourceUpdatedNotification)).params.uri) == uri


async def test_what_a_clients_own_process_says_of_a_resource_reaches_no_other_client(open_gateway: OpenGateway) -> None:
    """B6: with `isolation = "session"` an update belongs to the client whose process told of it."""
    async with upstream(LEGACY) as server:
        isolated = {SERVER: {**server, "isolation": "session"}}
        async with (
            open_gateway(isolated, unprefixed=True) as gateway,
            serve_http(gateway, "flat", token=None) as address,
            seated(address, "legacy") as ann,
            seated(address, "legacy") as bob,
        ):
            for uri in ("era://anns", "era://bobs"):
                await ann.subscribe(uri)
                await bob.subscribe(uri)
            await ann.call("flat", "touch", {"uri": "era://anns"})
            assert str((await ann.hears(types.ResourceUpdatedNotification)).params.uri) == "era://anns"
            await bob.call("flat", "touch", {"uri": "era://bobs"})
            assert str((await bob.hears(types.ResourceUpdatedNotification)).params.uri) == "era://bobs"


async def test_a_legacy_call_outlives_its_connection_but_not_its_session(open_gateway: OpenGateway) -> None:
    tasks = Tasks()
    async with upstream(LEGACY) as server, open_gateway({SERVER: server}, unprefixed=True) as gateway:
        async with serve_http(gateway, "flat", token=None) as address, raw_client(address) as client, witness() as seen:
            start: JsonObject = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}
            _, headers, _ = await client.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": start})
            session = {"Mcp-Session-Id": headers["Mcp-Session-Id"]}
            params: JsonObject = {"name": "hang", "arguments": {"witness": seen.path}}
            call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            waiting = tasks.start(client.post(call, session), "call")
            await seen.began()
            waiting.cancel()  # which closes the connection
            await tasks.wait()
            for number in range(2, 5):
                params = {"name": "echo", "arguments": {"text": "still here"}}
                echo = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
                assert (await client.post(echo, session))[0] == 200
            assert seen.silent
            async with client.session.delete(address, headers=session) as answer:
                assert answer.status == 200
            assert await seen.ended() == "cancelled"


async def test_a_client_that_closes_the_pipe_and_says_stop_has_its_calls_cancelled(tmp_path: Path) -> None:
    async with upstream(LEGACY) as server, witness() as seen:
        command = await Command.start(tmp_path, {SERVER: server}, "--dialect", "flat")
        await command.initialize()
        params = {"name": f"{SERVER}__hang", "arguments": {"witness": seen.path}}
        command.send({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params})
        await seen.began()
        assert command.process.stdin is not None
        command.process.stdin.close()
        command.process.terminate()
        async with asyncio.timeout(DRAIN / 2):  # it would be cancelled at last in any case
            assert await seen.ended() == "cancelled"
        assert await command.finish() == 0


async def test_a_cancellation_that_makes_no_sense_costs_itself(tmp_path: Path) -> None:
    command = await Command.start(tmp_path, {"echo": peer("Echo")})
    try:
        await command.initialize()
        for number in ([1], {"a": 1}, None, 99):
            command.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}})
        assert (await command.ask("ping"))["result"] == {}
    finally:
        assert await command.finish() == 0


async def test_a_witness_leaves_no_connection_to_the_next_test() -> None:
    """One that was open when the loop ended was found, with a warning, by a test that had nothing to do with it."""
    async with asyncio.timeout(30):
        async with witness() as seen:
            reader, writer = await asyncio.open_unix_connection(seen.path)
            writer.write(b"hanging\n")
            await seen.began()
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
