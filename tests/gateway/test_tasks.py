"""Tasks between clients and servers of both eras, with and without them: made, followed, asked, cancelled, sealed."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import pytest

from tests.conftest import PEERS, ROOT, OpenGateway, Server, peer
from tests.eras.child import serving
from tests.gateway.extensions_document import shows
from tests.gateway.serving import META, Raw, raw_client, serve_http
from tests.peers.counting_servers import UNKNOWN, KeepsTasks
from tests.peers.mirror_server import KEPT, MIRROR, SAY
from wicket_mcp.app import Gateway
from wicket_mcp.extensions import TASKS
from wicket_mcp.model import LOCAL
from wicket_mcp.model import META_SUBSCRIPTION as SUBSCRIPTION
from wicket_mcp.surface.problems import RpcProblem
from wicket_mcp.surface.protocol import Request, modern_caller
from wicket_mcp.tasks import Tasks

CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
RELATED = "io.modelcontextprotocol/related-task"
ABLE: dict[str, Any] = {"elicitation": {"form": {}}, "extensions": {TASKS: {}}}

TASK_SERVER = ("-m", "tests.conformance.task_server")
MODERN: Server = {"command": sys.executable, "args": [*TASK_SERVER, "--stdio"], "cwd": str(ROOT)}
LEGACY: Server = {"command": sys.executable, "args": [str(PEERS / "legacy_tasks.py")]}


@dataclass
class House:
    gateway: Gateway
    client: Raw

    async def ask(self, method: str, params: dict[str, Any], able: dict[str, Any] = ABLE, **more: Any) -> Any:
        """A modern request; its result, or its error."""
        meta = {**META, CAPABILITIES: able}
        routing = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
        named = params.get("name") or params.get("taskId")
        routing |= {"Mcp-Name": named} if named else {}
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        _, _, body = await self.client.post(message, routing, **more)
        last: dict[str, Any] = cast("list[Any]", body)[-1] if isinstance(body, list) else body
        return last.get("result", last.get("error"))

    async def call(self, tool: str, able: dict[str, Any] = ABLE, /, **arguments: Any) -> Any:
        return await self.ask("tools/call", {"name": tool, "arguments": arguments}, able)

    async def settle(self, number: str, *statuses: str) -> Any:
        """The task once it has one of these statuses; the test's own time limit is the deadline."""
        while (task := await self.ask("tasks/get", {"taskId": number}))["status"] not in statuses:
            assert task["status"] in ("working", "input_required"), str(task)
        return task


@asynccontextmanager
async def house(
    open_gateway: OpenGateway, servers: dict[str, Server], *dialects: str, promote_after: float = 60.0
) -> AsyncGenerator[House]:
    async with (
        open_gateway(servers) as gateway,
        serve_http(gateway, *dialects) as address,
        raw_client(address) as client,
    ):
        gateway.local_tasks.promote_after = promote_after
        yield House(gateway, client)


# A modern server with tasks


@shows("tasks", "create, poll", clients="modern", servers="modern with tasks")
async def test_a_task_found_and_called_through_the_menu_is_followed_to_its_end(open_gateway: OpenGateway) -> None:
    async with house(open_gateway, {"x": MODERN}) as at:
        created = await at.call("call_tool", name="x.slow_compute", arguments={"seconds": 0, "label": "b"})
        assert created["resultType"] == "task"
        assert created["vendorField"] == {"kept": True}
        task = await at.settle(created["taskId"], "completed")
        assert task["taskId"] == created["taskId"]
        assert task["result"]["content"][0]["text"] == "computed b"
        assert task["result"]["_meta"]["com.example/kept"] is True


@shows("tasks", "input, cancel", clients="modern", servers="modern with tasks")
async def test_input_reaches_a_servers_task_and_cancelling_ends_it(open_gateway: OpenGateway) -> None:
    async with house(open_gateway, {"x": MODERN}, "flat") as at:
        number = (await at.call("x__confirm_delete", filename="a"))["taskId"]
        asked = (await at.settle(number, "input_required"))["inputRequests"]
        replies = {key: {"action": "accept", "content": {"confirm": True}} for key in asked}
        assert (await at.ask("tasks/update", {"taskId": number, "inputResponses": replies}))["resultType"] == "complete"
        assert (await at.settle(number, "completed"))["result"]["content"][0]["text"] == "deleted: True"
        number = (await at.call("x__slow_compute", seconds=3600))["taskId"]
        await at.ask("tasks/cancel", {"taskId": number})
        assert (await at.settle(number, "cancelled"))["status"] == "cancelled"
        counted = (await at.call("x__executions"))["structuredContent"]
        assert len(counted["cancelled"]) == 1


@shows("tasks", "a client without tasks waits", clients="modern", servers="modern with tasks")
async def test_a_client_without_tasks_waits_and_gets_a_plain_answer(open_gateway: OpenGateway) -> None:
    async with house(open_gateway, {"x": MODERN}) as at:
        plain: dict[str, Any] = {"elicitation": {"form": {}}}
        answer = await at.call("call_tool", plain, name="x.slow_compute", arguments={"seconds": 0, "label": "plain"})
        assert answer["content"][0]["text"] == "computed plain"
        required = await at.call("call_tool", plain, name="x.failing_job", arguments={})
        assert required["isError"] is True
        assert required["content"][0]["text"] == "it went wrong"
        assert "taskId" not in required


@shows("tasks", "only the principal can use an id", clients="modern", servers="both")
async def test_an_id_is_its_principals_alone(open_gateway: OpenGateway) -> None:
    async with house(open_gateway, {"x": MODERN, "echo": peer("Echo")}, "flat", promote_after=0.0) as at:
        ann, _ = await at.gateway.registry.keys.create("ann", ["discover", "invoke"])
        of_server = (await at.call("x__slow_compute", seconds=3600))["taskId"]
        of_wicket = (await at.call("echo__slow"))["taskId"]
        for number in (of_server, of_wicket, "made.up"):
            for method in ("tasks/get", "tasks/cancel"):
                assert (await at.ask(method, {"taskId": number}, token=ann))["code"] == -32602
        assert (await at.ask("tasks/get", {"taskId": of_server}))["status"] == "working"
        assert (await at.ask("tasks/get", {"taskId": of_wicket}))["status"] == "working"


@shows("tasks", "after a restart of Wicket", clients="modern", servers="modern with tasks")
async def test_a_servers_task_survives_a_restart_of_ours(open_gateway: OpenGateway) -> None:
    async with serving([sys.executable, *TASK_SERVER, "--http", "0"]) as url:
        async with house(open_gateway, {"x": {"url": url}}, "flat") as at:
            number = (await at.call("x__slow_compute", seconds=0, label="later"))["taskId"]
        async with house(open_gateway, {"x": {"url": url}}, "flat") as at:
            assert (await at.settle(number, "completed"))["result"]["content"][0]["text"] == "computed later"


async def test_so_does_one_that_wicket_had_made_its_own_before_the_server_named_it(open_gateway: OpenGateway) -> None:
    async with serving([sys.executable, *TASK_SERVER, "--http", "0"]) as url:
        async with house(open_gateway, {"x": {"url": url}}, "flat", promote_after=0.0) as at:
            number = (await at.call("x__confirm_delete", filename="a"))["taskId"]
            await at.settle(number, "input_required")
        async with house(open_gateway, {"x": {"url": url}}, "flat") as at:
            asked = (await at.settle(number, "input_required"))["inputRequests"]
            replies = {key: {"action": "accept", "content": {"confirm": True}} for key in asked}
            await at.ask("tasks/update", {"taskId": number, "inputResponses": replies})
            assert (await at.settle(number, "completed"))["result"]["content"][0]["text"] == "deleted: True"
            counted = (await at.call("x__executions"))["structuredContent"]
            assert (counted["executed"], counted["cancelled"]) == (["confirm_delete"], [])


@shows("tasks", "after a restart of Wicket", clients="legacy", servers="modern with tasks")
async def test_a_task_that_a_legacy_client_has_of_such_a_server_survives_a_restart_too(
    open_gateway: OpenGateway,
) -> None:
    async with serving([sys.executable, *TASK_SERVER, "--http", "0"]) as url:
        async with house(open_gateway, {"x": {"url": url}}, "flat") as at:
            client, _ = await shake_hands(at, {"elicitation": {}})
            call: dict[str, Any] = {"name": "x__confirm_delete", "arguments": {"filename": "a"}, "task": {}}
            number = (await client.ask("tools/call", call))["task"]["taskId"]
            while (seen := await client.ask("tasks/get", {"taskId": number}))["status"] != "input_required":
                assert seen["status"] == "working"  # the test's own time limit is the deadline
        async with house(open_gateway, {"x": {"url": url}}, "flat") as at:
            asked = (await at.settle(number, "input_required"))["inputRequests"]
            client, _ = await shake_hands(at)
            assert (await client.ask("tasks/get", {"taskId": number}))["status"] == "input_required"
            replies = {key: {"action": "accept", "content": {"confirm": True}} for key in asked}
            await at.ask("tasks/update", {"taskId": number, "inputResponses": replies})
            assert (await at.settle(number, "completed"))["result"]["content"][0]["text"] == "deleted: True"
            counted = (await at.call("x__executions"))["structuredContent"]
            assert (counted["executed"], counted["cancelled"]) == (["confirm_delete"], [])


@shows("tasks", "after a restart of Wicket", clients="modern", servers="legacy with tasks, over HTTP")
async def test_a_task_that_a_modern_client_has_of_a_legacy_server_survives_a_restart_too(
    open_gateway: OpenGateway,
) -> None:
    async with KeepsTasks() as server:
        async with house(open_gateway, {"x": {"url": server.url}}, "flat", promote_after=0.0) as at:
            number = (await at.call("x__job"))["taskId"]
            while not any(request.rpc_method == "tasks/get" for request in server.received):
                await asyncio.sleep(0)  # the server's task is known, and followed
        async with house(open_gateway, {"x": {"url": server.url}}, "flat") as at:
            assert (await at.ask("tasks/get", {"taskId": number}))["status"] == "working"
            server.finish.set()
            assert (await at.settle(number, "completed"))["result"]["content"][0]["text"] == "done"
        assert (server.executed, server.cancelled) == (["job"], [])


@shows("tasks", "after a restart of Wicket", clients="legacy", servers="legacy with tasks, over HTTP")
async def test_a_task_that_a_legacy_client_has_of_a_legacy_server_survives_a_restart_too(
    open_gateway: OpenGateway,
) -> None:
    async with KeepsTasks() as server:
        async with house(open_gateway, {"x": {"url": server.url}}, "flat") as at:
            await at.gateway.tools()
            client, _ = await shake_hands(at)
            number = (await client.ask("tools/call", {"name": "x__job", "task": {}}))["task"]["taskId"]
            while not any(request.rpc_method == "tasks/get" for request in server.received):
                await asyncio.sleep(0)  # the server's task is known, and followed
        async with house(open_gateway, {"x": {"url": server.url}}, "flat") as at:
            client, _ = await shake_hands(at)
            assert (await client.ask("tasks/get", {"taskId": number}))["status"] == "working"
            server.finish.set()
            result = await client.ask("tasks/result", {"taskId": number})
            assert result["content"][0]["text"] == "done"
        assert (server.executed, server.cancelled) == (["job"], [])


@shows("any", "unknown fields of tasks and their results", clients="both", servers="legacy with tasks")
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_unknown_fields_of_a_legacy_servers_task_pass(open_gateway: OpenGateway, era: str) -> None:
    async with (
        KeepsTasks() as server,
        house(open_gateway, {"x": {"url": server.url}}, "flat", promote_after=0.0) as at,
    ):
        await at.gateway.tools()
        client, _ = await shake_hands(at)
        ask = client.ask if era == "legacy" else at.ask
        call: dict[str, Any] = {"name": "x__job", "arguments": {}, **({"task": {}} if era == "legacy" else {})}
        created = await ask("tools/call", call)
        about = {"taskId": created.get("task", created)["taskId"]}
        while "com.example/kept" not in (task := await ask("tasks/get", about)):
            pass  # the server has not named its task yet
        assert task["com.example/kept"] == UNKNOWN["com.example/kept"]
        assert task["_meta"]["com.example/mark"] == 2
        server.finish.set()
        if era == "legacy":
            result = await ask("tasks/result", about)
        else:
            result = (await at.settle(about["taskId"], "completed"))["result"]
        assert result["com.example/kept"] == UNKNOWN["com.example/kept"]
        assert result["_meta"]["com.example/mark"] == 2


@shows("any", "unknown fields of tasks", clients="legacy", servers="modern")
async def test_unknown_fields_of_a_modern_servers_task_reach_a_legacy_client(open_gateway: OpenGateway) -> None:
    async with house(open_gateway, {"x": MIRROR("modern")}, "flat") as at:
        await at.gateway.tools()
        client, _ = await shake_hands(at)
        say = {SAY: {"task": True, "inner": KEPT}}
        created = await client.ask("tools/call", {"name": "x__mirror", "arguments": {}, "task": {}, **say})
        about = {"taskId": created["task"]["taskId"]}
        ((key, value),) = KEPT.items()
        while (task := await client.ask("tasks/get", about)).get(key) != value:
            assert task["status"] == "working"  # its server has not named it yet
        assert (await client.ask("tasks/cancel", about))["status"] == "cancelled"


# Servers without tasks, which Wicket keeps for them


@shows("tasks", "after a restart of Wicket", clients="modern", servers="legacy without tasks")
async def test_what_wicket_kept_is_there_after_a_restart_and_what_it_lost_is_said(open_gateway: OpenGateway) -> None:
    async with house(open_gateway, {"x": peer("Echo")}, "flat", promote_after=0.0) as at:
        ended = (await at.call("x__slow"))["taskId"]
        await at.gateway.call("x.release")
        await at.settle(ended, "completed")
        running = (await at.call("x__slow"))["taskId"]
        cancelled = (await at.call("x__slow"))["taskId"]
        await at.ask("tasks/cancel", {"taskId": cancelled})
        ann, _ = await at.gateway.registry.keys.create("ann", ["discover", "invoke"])
    async with house(open_gateway, {"x": peer("Echo")}, "flat") as at:
        task = await at.ask("tasks/get", {"taskId": ended})
        assert task["result"]["content"][0]["text"] == "released"
        lost = await at.ask("tasks/get", {"taskId": running})
        assert lost["status"] == "failed"
        assert "restarted while this task ran" in lost["error"]["message"]
        assert (await at.ask("tasks/get", {"taskId": cancelled}))["status"] == "cancelled"
        assert (await at.ask("tasks/get", {"taskId": ended}, token=ann))["code"] == -32602


@shows("tasks", "list in pages", clients="legacy", servers="legacy without tasks")
async def test_the_list_of_tasks_comes_in_pages(open_gateway: OpenGateway) -> None:
    async with house(open_gateway, {"x": peer("Echo")}, "flat") as at:
        client, _ = await shake_hands(at)
        call: dict[str, Any] = {"name": "x__echo", "arguments": {"message": "a"}, "task": {}}
        made = [(await client.ask("tools/call", call))["task"]["taskId"] for _ in range(60)]
        first = await client.ask("tasks/list", {})
        second = await client.ask("tasks/list", {"cursor": first["nextCursor"]})
        assert [task["taskId"] for task in (*first["tasks"], *second["tasks"])] == made
        assert (len(second["tasks"]), "nextCursor" in second) == (10, False)
        assert (await client.ask("tasks/list", {"cursor": "made up"}))["code"] == -32602


@shows("tasks", "expiry", clients="legacy", servers="legacy without tasks")
async def test_a_task_ends_and_is_forgotten_when_its_time_is_over(open_gateway: OpenGateway) -> None:
    async with house(open_gateway, {"x": peer("Echo")}, "flat") as at:
        client, _ = await shake_hands(at)
        task = (await client.ask("tools/call", {"name": "x__slow", "task": {"ttl": 1000}}))["task"]
        assert (task["status"], task["ttl"]) == ("working", 1000)
        while (seen := await client.ask("tasks/get", {"taskId": task["taskId"]})).get("status") == "working":
            pass  # the test's own time limit is the deadline
        assert seen["code"] == -32602
        assert (await client.ask("tasks/result", {"taskId": task["taskId"]}))["code"] == -32602
        assert (await client.ask("tasks/list", {}))["tasks"] == []
        while (await at.gateway.call("x.calls"))["structuredContent"]["cancelled"] < 1:
            await asyncio.sleep(0)
    async with house(open_gateway, {"x": peer("Echo")}, "flat") as at:
        assert (await at.ask("tasks/get", {"taskId": task["taskId"]}))["code"] == -32602


@shows("tasks", "a slow call becomes a task; cancel", clients="modern", servers="legacy without tasks")
async def test_a_slow_call_of_a_server_without_tasks_becomes_one(open_gateway: OpenGateway) -> None:
    async with house(open_gateway, {"x": peer("Echo")}, "flat", promote_after=0.0) as at:
        created = await at.call("x__slow")
        assert (created["resultType"], created["status"]) == ("task", "working")
        await at.gateway.call("x.release")
        task = await at.settle(created["taskId"], "completed")
        assert task["result"]["content"][0]["text"] == "released"
        failed = await at.settle((await at.call("x__refuses"))["taskId"], "failed")
        assert isinstance(failed["error"]["code"], int)
        cancelled = (await at.call("x__slow"))["taskId"]
        assert (await at.ask("tasks/cancel", {"taskId": cancelled}))["resultType"] == "complete"
        assert (await at.settle(cancelled, "cancelled"))["status"] == "cancelled"
        while (await at.gateway.call("x.calls"))["structuredContent"]["cancelled"] < 1:
            await asyncio.sleep(0)


@shows("tasks", "expiry", clients="modern", servers="legacy without tasks")
async def test_a_slow_call_that_became_a_task_is_cancelled_when_its_time_is_over(open_gateway: OpenGateway) -> None:
    async with house(open_gateway, {"x": peer("Echo")}, "flat", promote_after=0.0) as at:
        at.gateway.local_tasks.ttl = 1.0
        number = (await at.call("x__slow"))["taskId"]
        while (seen := await at.ask("tasks/get", {"taskId": number})).get("status") == "working":
            pass  # the test's own time limit is the deadline
        assert seen["code"] == -32602
        while (await at.gateway.call("x.calls"))["structuredContent"]["cancelled"] < 1:
            await asyncio.sleep(0)
    async with house(open_gateway, {"x": peer("Echo")}, "flat") as at:
        assert (await at.ask("tasks/get", {"taskId": number}))["code"] == -32602


async def test_a_call_that_wants_to_hear_of_progress_stays_a_call(open_gateway: OpenGateway) -> None:
    async with house(open_gateway, {"x": peer("Echo")}, "flat", promote_after=0.0) as at:
        meta = {**META, CAPABILITIES: ABLE, "progressToken": "t"}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x__steps", "_meta": meta}}
        headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "x__steps"}
        _, _, events = await at.client.post(message, headers)
        assert events[0]["method"] == "notifications/progress"
        assert events[-1]["result"]["resultType"] == "complete"


@shows("tasks", "input", clients="modern", servers="legacy without tasks")
async def test_what_such_a_task_asks_is_answered_by_updating_it(open_gateway: OpenGateway) -> None:
    async with house(open_gateway, {"x": peer("TellsWhileItAsks")}, "flat", promote_after=0.0) as at:
        number = (await at.call("x__slow"))["taskId"]
        asked = (await at.settle(number, "input_required"))["inputRequests"]
        (key,) = asked
        assert asked[key]["method"] == "elicitation/create"
        await at.ask("tasks/update", {"taskId": number, "inputResponses": {key: {"action": "decline"}}})
        assert (await at.settle(number, "completed"))["result"]["content"][0]["text"] == "the client says decline"


@shows("tasks", "`run_script`", clients="modern", servers="Wicket")
async def test_a_script_can_be_a_task(open_gateway: OpenGateway) -> None:
    async with house(open_gateway, {"x": peer("Echo")}, promote_after=0.0) as at:
        created = await at.call("run_script", code="return 123456 * 789")
        assert created["resultType"] == "task"
        assert "97406784" in (await at.settle(created["taskId"], "completed"))["result"]["content"][0]["text"]


# Legacy servers whose tools are tasks only


@shows("tasks", "tools that run only as tasks", clients="modern", servers="legacy with tasks")
async def test_a_legacy_servers_task_is_waited_for_and_its_question_asked(open_gateway: OpenGateway) -> None:
    async with house(open_gateway, {"x": LEGACY}, "flat") as at:
        done = await at.call("x__job")
        assert done["content"][0]["text"] == "done"
        assert RELATED not in done["_meta"]
        assert done["_meta"]["com.example/kept"] is True
        params: dict[str, Any] = {"name": "x__ask_job", "arguments": {}}
        asked = await at.ask("tools/call", params)
        replies = {key: {"action": "accept"} for key in asked["inputRequests"]}
        again = {**params, "inputResponses": replies, "requestState": asked["requestState"]}
        assert (await at.ask("tools/call", again))["content"][0]["text"] == "the client says accept"


# Legacy clients


@dataclass
class Legacy:
    at: House
    session: dict[str, str]
    number: int = 1

    async def ask(self, method: str, params: dict[str, Any]) -> Any:
        self.number += 1
        message = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}
        _, _, body = await self.at.client.post(message, self.session)
        last: dict[str, Any] = cast("list[Any]", body)[-1] if isinstance(body, list) else body
        return last.get("result", last.get("error"))


async def shake_hands(at: House, able: dict[str, Any] | None = None, version: str = "2025-11-25") -> tuple[Legacy, Any]:
    hello = {"protocolVersion": version, "capabilities": able or {}, "clientInfo": {"name": "t", "version": "1"}}
    _, headers, body = await at.client.post({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
    return Legacy(at, {"Mcp-Session-Id": headers["Mcp-Session-Id"]}), body["result"]


@shows("tasks", "`task` on a call, result, list", clients="legacy", servers="all four kinds")
async def test_a_legacy_client_calls_any_tool_as_a_task(open_gateway: OpenGateway) -> None:
    async with house(open_gateway, {"old": peer("Echo"), "new": MODERN, "tasks": LEGACY}, "flat") as at:
        client, greeting = await shake_hands(at)
        assert greeting["capabilities"]["tasks"]["requests"] == {"tools": {"call": {}}}
        expected = {"old__echo": "hi", "new__slow_compute": "computed x", "tasks__job": "done", "new__failing_job": ""}
        for name, words in expected.items():
            arguments = {"message": "hi", "seconds": 0, "label": "x"}
            call = {"name": name, "arguments": arguments, "task": {"ttl": 60_000}}
            task = (await client.ask("tools/call", call))["task"]
            assert (task["ttl"], set(task) >= {"taskId", "status", "createdAt", "pollInterval"}) == (60_000, True)
            result = await client.ask("tasks/result", {"taskId": task["taskId"]})
            assert result["content"][0]["text"].startswith(words)
            assert result["_meta"][RELATED] == {"taskId": task["taskId"]}
        tasks = (await client.ask("tasks/list", {}))["tasks"]
        assert [task["status"] for task in tasks] == [*["completed"] * 3, "failed"]  # an error is a failure there
        assert tasks[-1]["statusMessage"] == "it went wrong"


@shows("tasks", "declared in the handshake", clients="legacy", servers="modern with tasks")
async def test_a_legacy_client_that_declares_the_modern_extension_gets_results(open_gateway: OpenGateway) -> None:
    async with house(open_gateway, {"x": MODERN}, "flat") as at:
        client, _ = await shake_hands(at, {"extensions": {TASKS: {}}})
        call: dict[str, Any] = {"name": "x__slow_compute", "arguments": {"seconds": 0, "label": "b"}}
        assert (await client.ask("tools/call", call))["content"][0]["text"] == "computed b"
        task = (await client.ask("tools/call", {**call, "task": {}}))["task"]
        result = await client.ask("tasks/result", {"taskId": task["taskId"]})
        assert result["content"][0]["text"] == "computed b"


@shows("tasks", "cancel", clients="legacy", servers="legacy without tasks")
async def test_a_legacy_client_cancels_its_task(open_gateway: OpenGateway) -> None:
    async with house(open_gateway, {"x": peer("Echo")}, "flat") as at:
        client, _ = await shake_hands(at)
        number = (await client.ask("tools/call", {"name": "x__slow", "task": {}}))["task"]["taskId"]
        assert (await client.ask("tasks/cancel", {"taskId": number}))["status"] == "cancelled"
        assert (await client.ask("tasks/cancel", {"taskId": number}))["code"] == -32602
        assert (await client.ask("tasks/result", {"taskId": number}))["code"] == -32602
        assert (await client.ask("tasks/get", {"taskId": "made.up"}))["code"] == -32602


async def test_listening_costs_no_calls_and_a_task_that_is_not_there_is_no_failure(open_gateway: OpenGateway) -> None:
    failed = Tasks.failed
    async with house(open_gateway, {"x": {**MODERN, "calls_per_minute": 1}}, "flat") as at:
        number = (await at.call("x__slow_compute", seconds=0, label="b"))["taskId"]
        protocol = at.gateway.protocol("flat")
        heard: asyncio.Queue[Any] = asyncio.Queue()
        meta = {**META, CAPABILITIES: ABLE}
        caller = modern_caller(LOCAL, "s", heard.put_nowait, meta)

        def listen(*numbers: str) -> Request:
            params = {"notifications": {"taskIds": list(numbers)}, "_meta": meta}
            return Request(7, "subscriptions/listen", params, caller, modern=True)

        gone = at.gateway.verbs.task_ids.seal("x", "forgotten", LOCAL)
        listening = asyncio.ensure_future(protocol.answer(listen("made up", gone, number, number)))
        assert (await heard.get())["params"]["notifications"] == {"taskIds": ["made up", gone, number]}
        told: list[Any] = []
        while not told or told[-1]["status"] != "completed":
            told.append((await heard.get())["params"])
        assert {task["taskId"] for task in told} == {number}
        protocol.closing.set()
        await listening
        with pytest.raises(RpcProblem, match="200 tasks at most"):
            await protocol.answer(listen(*map(str, range(201))))
    assert Tasks.failed == failed


@shows("tasks", "listening by taskIds", clients="modern", servers="both")
async def test_who_listens_hears_of_every_change(open_gateway: OpenGateway) -> None:
    async with house(open_gateway, {"x": peer("TellsWhileItAsks"), "y": MODERN}, "flat") as at:
        of_server = (await at.call("y__confirm_delete", filename="a"))["taskId"]
        at.gateway.local_tasks.promote_after = 0.0
        of_wicket = (await at.call("x__slow"))["taskId"]
        for number in (of_server, of_wicket):
            protocol = at.gateway.protocol("flat")
            heard: asyncio.Queue[Any] = asyncio.Queue()
            meta = {**META, CAPABILITIES: ABLE}
            caller = modern_caller(LOCAL, "s", heard.put_nowait, meta)
            params = {"notifications": {"taskIds": [number]}, "_meta": meta}
            listening = asyncio.ensure_future(
                protocol.answer(Request(7, "subscriptions/listen", params, caller, modern=True))
            )
            assert (await heard.get())["params"]["notifications"] == {"taskIds": [number]}
            asked = (await at.settle(number, "input_required"))["inputRequests"]
            replies = {key: {"action": "accept", "content": {"confirm": True}} for key in asked}
            await at.ask("tasks/update", {"taskId": number, "inputResponses": replies})
            told: dict[str, Any] = {}
            while told.get("status") != "completed":
                told = (await heard.get())["params"]
                assert (told["taskId"], told["_meta"]) == (number, {SUBSCRIPTION: 7})
            assert told["result"]["content"][0]["text"] in ("the client says accept", "deleted: True")
            protocol.closing.set()
            await listening
