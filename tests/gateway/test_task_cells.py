"""Every step of a task in the four cells of eras: made, polled, asked, cancelled, expired; and its errors."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import OpenGateway, Server, peer
from tests.gateway.extensions_document import shows
from tests.gateway.serving import META, Command
from tests.gateway.test_tasks import ABLE, CAPABILITIES, LEGACY, MODERN, RELATED, house, shake_hands
from tests.gateway.test_unknown_fields import Client
from tests.peers.counting_servers import KeepsTasks
from wicket_mcp.app import Gateway
from wicket_mcp.extensions import TASKS
from wicket_mcp.model import LOCAL
from wicket_mcp.surface.protocol import Request, modern_caller

SERVERS: dict[str, Server] = {"modern": MODERN, "legacy": LEGACY}
ASKS = {"modern": "confirm_delete", "legacy": "ask_job"}
ENDLESS: dict[str, tuple[str, dict[str, Any]]] = {
    "modern": ("slow_compute", {"seconds": 3600}),
    "legacy": ("endless", {}),
}
ANSWERED = {"modern": "deleted: None", "legacy": "the client says accept"}
servers = pytest.mark.parametrize("server", sorted(SERVERS))


async def count(gateway: Gateway, server: str, what: str) -> int:
    """How many tasks the server has begun (`executed`), or how many were cancelled."""
    if server == "legacy":
        return (await gateway.call("x.counts"))["structuredContent"][what]
    return len((await gateway.call("x.executions"))["structuredContent"][what])


@shows("tasks", "create, poll, input, cancel", clients="modern", servers="both, with tasks")
@servers
async def test_a_modern_client(open_gateway: OpenGateway, server: str) -> None:
    async with house(open_gateway, {"x": SERVERS[server]}, "flat", promote_after=0.0) as at:
        work = "x__slow_compute" if server == "modern" else "x__job"
        assert "result" in await at.settle((await at.call(work))["taskId"], "completed")
        number = (await at.call(f"x__{ASKS[server]}"))["taskId"]
        asked = (await at.settle(number, "input_required"))["inputRequests"]
        replies: dict[str, dict[str, Any]] = {key: {"action": "accept", "content": {}} for key in asked}
        await at.ask("tasks/update", {"taskId": number, "inputResponses": replies})
        result = (await at.settle(number, "completed"))["result"]
        assert result["content"][0]["text"] == ANSWERED[server]
        name, arguments = ENDLESS[server]
        number = (await at.call(f"x__{name}", **arguments))["taskId"]
        while await count(at.gateway, server, "executed") < 3:
            pass  # the test's own time limit is the deadline
        await at.ask("tasks/cancel", {"taskId": number})
        await at.settle(number, "cancelled")
        while not await count(at.gateway, server, "cancelled"):
            pass


@asynccontextmanager
async def legacy_client(folder: Path, server: Server) -> AsyncGenerator[Client]:
    command = await Command.start(folder, {"x": server}, "--dialect", "flat", "--no-daemon")
    client = Client("legacy", command)
    await client.greet()
    await client.ask("tools/list", {})
    yield client
    assert await command.finish() == 0


@shows(
    "tasks", "create, poll, status notifications, input, cancel, expiry", clients="legacy", servers="both, with tasks"
)
@servers
async def test_a_legacy_client(tmp_path: Path, server: str) -> None:
    async with legacy_client(tmp_path, SERVERS[server]) as client:

        async def begin(name: str, **arguments: Any) -> str:
            call = {"name": f"x__{name}", "arguments": arguments, "task": {"ttl": arguments.pop("ttl", 60_000)}}
            return (await client.ask("tools/call", call))["task"]["taskId"]

        number = await begin("slow_compute" if server == "modern" else "job")
        while (await client.ask("tasks/get", {"taskId": number}))["status"] != "completed":
            pass  # the test's own time limit is the deadline
        told = await client.hear("notifications/tasks/status")
        assert (told["taskId"], told["status"]) == (number, "completed")
        number = await begin(ASKS[server])
        result = await client.ask("tasks/result", {"taskId": number})
        assert result["content"][0]["text"] == ANSWERED[server]
        assert [question["method"] for question in client.asked] == ["elicitation/create"]
        name, arguments = ENDLESS[server]
        number = await begin(name, **arguments)
        assert (await client.ask("tasks/cancel", {"taskId": number}))["status"] == "cancelled"
        number = await begin(name, ttl=500, **arguments)
        while (seen := await client.ask("tasks/get", {"taskId": number})).get("status") == "working":
            pass
        assert seen["code"] == -32602


@shows("tasks", "cancel while the server creates its task", clients="modern", servers="both, with tasks")
@servers
async def test_a_modern_client_cancels_a_task_that_its_server_has_not_named_yet(
    open_gateway: OpenGateway, server: str
) -> None:
    async with house(open_gateway, {"x": SERVERS[server]}, "flat", promote_after=0.0) as at:
        await at.gateway.tools()
        number = (await at.call("x__late"))["taskId"]
        while not await count(at.gateway, server, "executed"):
            pass  # the test's own time limit is the deadline
        await at.ask("tasks/cancel", {"taskId": number})
        await at.settle(number, "cancelled")
        await at.gateway.call("x.release")
        while not await count(at.gateway, server, "cancelled"):
            pass


@shows("tasks", "cancel while the server creates its task", clients="legacy", servers="both, with tasks")
@servers
async def test_a_legacy_client_cancels_a_task_that_its_server_has_not_named_yet(
    open_gateway: OpenGateway, server: str
) -> None:
    async with house(open_gateway, {"x": SERVERS[server]}, "flat") as at:
        await at.gateway.tools()
        client, _ = await shake_hands(at)
        number = (await client.ask("tools/call", {"name": "x__late", "task": {}}))["task"]["taskId"]
        while not await count(at.gateway, server, "executed"):
            pass
        assert (await client.ask("tasks/cancel", {"taskId": number}))["status"] == "cancelled"
        await at.gateway.call("x.release")
        while not await count(at.gateway, server, "cancelled"):
            pass


@shows("tasks", "expiry", clients="modern", servers="both, with tasks")
@servers
async def test_a_task_of_wicket_is_forgotten_when_its_time_is_over(open_gateway: OpenGateway, server: str) -> None:
    async with house(open_gateway, {"x": SERVERS[server]}, "flat", promote_after=0.0) as at:
        at.gateway.local_tasks.ttl = 1.0
        name, arguments = ENDLESS[server]
        created = await at.call(f"x__{name}", **arguments)
        assert (created["status"], created["ttlMs"]) == ("working", 1000)
        about = {"taskId": created["taskId"]}
        while (seen := await at.ask("tasks/get", about)).get("status") == "working":
            pass
        assert seen["code"] == -32602
        assert (await at.ask("tasks/cancel", about))["code"] == -32602
        while not await count(at.gateway, server, "cancelled"):
            pass


@shows("tasks", "expiry at the server", clients="modern", servers="modern with tasks")
async def test_a_task_that_its_server_has_forgotten_is_unknown(open_gateway: OpenGateway) -> None:
    async with house(open_gateway, {"x": MODERN}, "flat") as at:
        number = (await at.call("x__slow_compute", seconds=3600))["taskId"]
        assert (await at.ask("tasks/get", {"taskId": number}))["status"] == "working"
        await at.gateway.pool.stop("x")  # the next request starts it anew
        assert (await at.ask("tasks/get", {"taskId": number}))["code"] == -32602


@shows("tasks", "errors by the book", clients="modern", servers="modern with tasks")
async def test_the_errors_have_the_codes_of_the_extension(open_gateway: OpenGateway) -> None:
    async with house(open_gateway, {"x": MODERN}, "flat") as at:
        number = (await at.call("x__slow_compute", seconds=0))["taskId"]
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            unable = await at.ask(method, {"taskId": number}, {})
            assert unable["code"] == -32021
            assert unable["data"] == {"requiredCapabilities": {"extensions": {TASKS: {}}}}
            assert (await at.ask(method, {"taskId": "made up"}))["code"] == -32602
            meta = {**META, CAPABILITIES: ABLE}
            message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"taskId": number, "_meta": meta}}
            routing = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": "another"}
            status, _, body = await at.client.post(message, routing)
            assert (status, body["error"]["code"]) == (400, -32020)
        required = await at.call("x__failing_job", {})
        assert (required["code"], required["data"]["requiredCapabilities"]) == (-32021, {"extensions": {TASKS: {}}})
        for method in ("tasks/result", "tasks/list"):
            assert (await at.ask(method, {"taskId": number}))["code"] == -32601


@shows("tasks", "what the server says on the way", clients="legacy", servers="legacy with tasks")
async def test_a_legacy_client_is_told_what_the_server_says_about_its_task(tmp_path: Path) -> None:
    async with KeepsTasks() as server, legacy_client(tmp_path, {"url": server.url}) as client:
        number = (await client.ask("tools/call", {"name": "x__job", "task": {}}))["task"]["taskId"]
        while (await client.ask("tasks/get", {"taskId": number})).get("statusMessage") != "begun":
            pass  # its server has not named it yet
        server.message = "halfway"
        while (told := await client.hear("notifications/tasks/status")).get("statusMessage") != "halfway":
            pass
        assert (told["taskId"], told["status"]) == (number, "working")
        server.finish.set()
        assert (await client.ask("tasks/result", {"taskId": number}))["content"][0]["text"] == "done"


@shows("tasks", "what the server says on the way", clients="modern", servers="legacy with tasks")
async def test_a_modern_client_is_told_what_the_server_says_about_its_task(open_gateway: OpenGateway) -> None:
    async with (
        KeepsTasks() as server,
        house(open_gateway, {"x": {"url": server.url}}, "flat", promote_after=0.0) as at,
    ):
        about = {"taskId": (await at.call("x__job"))["taskId"]}
        for message in ("begun", "halfway"):
            server.message = message
            while (task := await at.ask("tasks/get", about)).get("statusMessage") != message:
                assert task["status"] == "working"


@shows("tasks", "tools that may run as tasks", clients="legacy", servers="legacy with tasks")
async def test_a_server_is_asked_for_a_task_if_it_offers_that_and_the_client_wants_one(
    open_gateway: OpenGateway,
) -> None:
    async with KeepsTasks() as server, house(open_gateway, {"x": {"url": server.url}}, "flat") as at:
        await at.gateway.tools()
        server.finish.set()
        client, _ = await shake_hands(at)
        call: dict[str, Any] = {"name": "x__either", "arguments": {}}
        assert (await client.ask("tools/call", call))["content"][0]["text"] == "done"
        number = (await client.ask("tools/call", {**call, "task": {}}))["task"]["taskId"]
        assert (await client.ask("tasks/result", {"taskId": number}))["content"][0]["text"] == "done"
        assert server.executed == ["either, without a task", "either"]


@shows("tasks", "every tool is offered as one, none must be called as one", clients="legacy", servers="all")
async def test_a_legacy_client_sees_that_it_may_call_any_tool_as_a_task(open_gateway: OpenGateway) -> None:
    async with (
        KeepsTasks() as server,
        house(open_gateway, {"x": {"url": server.url}, "y": peer("Echo")}, "native", "flat") as at,
    ):
        await at.gateway.tools()

        def support(listed: Any) -> dict[str, str]:
            return {tool["name"]: tool.get("execution", {}).get("taskSupport") for tool in listed["tools"]}

        client, _ = await shake_hands(at)
        offered = support(await client.ask("tools/list", {}))
        assert offered.keys() >= {"call_tool", "run_script", "x__job", "x__either", "y__echo"}
        assert set(offered.values()) == {"optional"}
        older, _ = await shake_hands(at, version="2025-06-18")
        for listed in (await older.ask("tools/list", {}), await at.ask("tools/list", {})):
            seen = support(listed)
            assert (seen["call_tool"], seen["x__job"], seen["y__echo"]) == (None, "required", None)


@shows("tasks", "progress", clients="legacy", servers="legacy without tasks")
async def test_progress_of_a_task_reaches_the_legacy_client_that_wants_it(tmp_path: Path) -> None:
    async with legacy_client(tmp_path, peer("Echo")) as client:
        call = {"name": "x__steps", "arguments": {}, "task": {}, "_meta": {"progressToken": "t"}}
        number = (await client.ask("tools/call", call))["task"]["taskId"]
        told = await client.hear("notifications/progress")
        assert told["progressToken"] == "t"
        assert told["_meta"] == {RELATED: {"taskId": number}}


@shows("tasks", "questions have new keys", clients="modern", servers="modern without tasks")
async def test_no_key_of_a_question_is_used_twice_in_a_task(open_gateway: OpenGateway) -> None:
    async with house(open_gateway, {"x": MODERN}, "flat", promote_after=0.0) as at:
        number = (await at.call("x__twice"))["taskId"]
        seen: set[str] = set()
        for _ in range(2):
            while seen >= (asked := (await at.settle(number, "input_required"))["inputRequests"]).keys():
                pass  # the answer is on its way
            (key,) = asked
            seen.add(key)
            await at.ask("tasks/update", {"taskId": number, "inputResponses": {key: {"action": "accept"}}})
        assert len(seen) == 2
        result = (await at.settle(number, "completed"))["result"]
        assert (result["resultType"], result["content"][0]["text"]) == ("complete", "asked twice")


@shows("tasks", "the reason of a failure", clients="both", servers="legacy without tasks")
async def test_a_task_that_failed_says_why(open_gateway: OpenGateway) -> None:
    async with house(open_gateway, {"x": peer("Echo")}, "flat", promote_after=0.0) as at:
        failed = await at.settle((await at.call("x__refuses"))["taskId"], "failed")
        assert failed["statusMessage"] == failed["error"]["message"] != ""
        client, _ = await shake_hands(at)
        about = (await client.ask("tools/call", {"name": "x__refuses", "task": {}}))["task"]
        while (task := await client.ask("tasks/get", {"taskId": about["taskId"]}))["status"] == "working":
            pass
        assert (task["status"], task["statusMessage"]) == ("failed", failed["statusMessage"])


@shows("tasks", "a server that cannot be reached for a moment", clients="both", servers="legacy with tasks")
async def test_a_task_outlives_a_connection_to_its_server(open_gateway: OpenGateway) -> None:
    async with (
        KeepsTasks() as server,
        house(open_gateway, {"x": {"url": server.url}}, "flat", promote_after=0.0) as at,
    ):
        await at.gateway.tools()
        server.finish.set()
        client, _ = await shake_hands(at)
        server.lose = 2
        assert (await client.ask("tools/call", {"name": "x__job"}))["content"][0]["text"] == "done"
        number = (await client.ask("tools/call", {"name": "x__job", "task": {}}))["task"]["taskId"]
        server.lose = 2
        assert (await client.ask("tasks/result", {"taskId": number}))["content"][0]["text"] == "done"
        server.lose = 1
        number = (await at.call("x__job"))["taskId"]
        assert (await at.settle(number, "completed"))["result"]["content"][0]["text"] == "done"
        assert server.executed == ["job"] * 3


async def test_who_listens_hears_of_a_task_after_its_server_could_not_be_reached(open_gateway: OpenGateway) -> None:
    async with KeepsTasks() as server, house(open_gateway, {"x": {"url": server.url}}, "flat") as at:
        server.finish.set()
        server.lose = 1
        number = at.gateway.verbs.task_ids.seal("x", "t", LOCAL)
        protocol = at.gateway.protocol("flat")
        heard: asyncio.Queue[Any] = asyncio.Queue()
        meta = {**META, CAPABILITIES: ABLE}
        caller = modern_caller(LOCAL, "s", heard.put_nowait, meta)
        params = {"notifications": {"taskIds": [number]}, "_meta": meta}
        request = Request(7, "subscriptions/listen", params, caller, modern=True)
        listening = asyncio.ensure_future(protocol.answer(request))
        assert (await heard.get())["params"]["notifications"] == {"taskIds": [number]}
        assert (await heard.get())["params"]["status"] == "completed"
        protocol.closing.set()
        await listening


@shows("tasks", "list after a restart of Wicket", clients="legacy", servers="legacy without tasks")
async def test_a_legacy_client_finds_its_tasks_from_before_a_restart_in_the_list(open_gateway: OpenGateway) -> None:
    async with house(open_gateway, {"x": peer("Echo")}, "flat") as at:
        client, _ = await shake_hands(at)
        calls: list[dict[str, Any]] = [{"name": "x__echo", "arguments": {"message": "a"}}, {"name": "x__slow"}]
        made = [(await client.ask("tools/call", {**call, "task": {}}))["task"]["taskId"] for call in calls]
        assert (await client.ask("tasks/result", {"taskId": made[0]}))["content"][0]["text"] == "a"
    async with house(open_gateway, {"x": peer("Echo")}, "flat") as at:
        client, _ = await shake_hands(at)
        made.append((await client.ask("tools/call", {**calls[0], "task": {}}))["task"]["taskId"])
        assert (await client.ask("tasks/result", {"taskId": made[2]}))["content"][0]["text"] == "a"
        listed = (await client.ask("tasks/list", {}))["tasks"]
        assert [task["taskId"] for task in listed] == made
        assert [task["status"] for task in listed] == ["completed", "failed", "completed"]
        assert "restarted while this task ran" in listed[1]["statusMessage"]
        result = await client.ask("tasks/result", {"taskId": listed[0]["taskId"]})
        assert result["content"][0]["text"] == "a"


@shows("tasks", "a question is asked once", clients="legacy", servers="modern with tasks")
async def test_a_question_that_a_server_shows_too_long_is_asked_once(tmp_path: Path) -> None:
    async with legacy_client(tmp_path, MODERN) as client:
        number = (await client.ask("tools/call", {"name": "x__forgetful", "task": {}}))["task"]["taskId"]
        result = await client.ask("tasks/result", {"taskId": number})
        assert result["content"][0]["text"] == "asked once"
        assert len(client.asked) == 1
