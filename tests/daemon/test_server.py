"""What a daemon does on each of the occasions of its life, one at a time; `test_faults.py` has whole processes."""

import asyncio
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import peer
from tests.daemon.inside import Inside, Shim, listen, run_inside
from tests.gateway.serving import META
from wicket_mcp.daemon import server
from wicket_mcp.model import LOCAL, META_CAPABILITIES, JsonObject
from wicket_mcp.surface.local_tasks import LocalTask
from wicket_mcp.surface.neighbours import Question

ASKED: JsonObject = {
    "name": "call_tool",
    "arguments": {"name": "asks.slow"},
    "_meta": {**META, META_CAPABILITIES: {"elicitation": {"form": {}}}},
}


@pytest.fixture
async def inside(monkeypatch: pytest.MonkeyPatch, state: Path) -> AsyncGenerator[Inside]:
    servers = {"a": peer("Echo"), "b": peer("Echo"), "asks": peer("TellsWhileItAsks")}
    async with run_inside(monkeypatch, state, servers) as inside:
        yield inside


async def lines_after_look(inside: Inside, client: Shim, number: int) -> list[bytes]:
    """What the shim is sent while the daemon looks around."""
    inside.daemon.look()
    _, lines = await client.ask(number, "ping")
    return lines


def question(inside: Inside, server: str, *scopes: str, stop: bool = False) -> Question:
    return Question(str(inside.gateway.config.state_path), LOCAL.name, scopes, server, stop)


# Its end


@pytest.mark.parametrize("reason", ["upgrade", "idle"])
async def test_shims_that_had_connected_when_it_retires_are_served(inside: Inside, reason: str) -> None:
    """One that nobody uses does not end although a client came in the last moment."""
    await inside.control("status")
    sock = inside.connect()
    if reason == "idle":
        inside.now += server.IDLE
        inside.daemon.look()
    else:
        inside.installed = "2"
        inside.daemon.look()
        inside.daemon.look()
    assert inside.daemon.status()["retired"]
    shim = await inside.shim(sock)
    await shim.hear("ready")
    answer, _ = await shim.ask(1, "ping")
    assert answer["result"] == {}
    assert not inside.stop.is_set()
    await shim.leave()


async def test_it_ends_when_it_was_idle_long_enough_and_not_before(inside: Inside) -> None:
    client = await inside.client()
    inside.now += 2 * server.IDLE
    inside.daemon.look()
    assert not inside.stop.is_set(), "it has a client"
    await client.leave()
    while inside.daemon.status()["clients"]:
        await asyncio.sleep(0)
    inside.now += server.IDLE - 1
    inside.daemon.look()
    assert not inside.stop.is_set()
    inside.now += 1
    inside.daemon.look()
    assert inside.stop.is_set()


async def test_a_retired_daemon_releases_its_lock_and_socket_and_ends_with_its_last_client(inside: Inside) -> None:
    client = await inside.client()
    assert inside.is_locked()
    inside.installed = "2"
    inside.daemon.look()
    inside.daemon.look()
    assert not inside.is_locked()
    assert not inside.path.exists()
    inside.daemon.look()
    assert not inside.stop.is_set()
    await client.leave()
    while inside.daemon.status()["clients"]:
        await asyncio.sleep(0)
    inside.daemon.look()
    assert inside.stop.is_set()


async def test_a_retiring_daemon_leaves_the_socket_of_its_successor(inside: Inside) -> None:
    inside.path.unlink()
    with listen(inside.path) as successor:
        inside.daemon.look()
        assert inside.daemon.status()["retired"]
        assert not inside.is_locked()
        inside.connect().close()
        successor.accept()[0].close()


# Another installation


async def test_a_half_written_installation_retires_nothing(inside: Inside) -> None:
    client = await inside.client()
    for installed in ("2, the first half", "2, the second half", "", "1"):
        inside.installed = installed
        assert await lines_after_look(inside, client, 1) == []
        assert not inside.daemon.status()["retired"], installed
    for count, installed in enumerate(("2", "2")):
        assert not inside.daemon.status()["retired"]
        inside.installed = installed
        assert await lines_after_look(inside, client, 1) == [b"!move \n"] * count
    assert inside.daemon.status()["retired"]


async def test_a_client_with_an_open_question_moves_when_it_is_answered_or_has_waited_too_long(inside: Inside) -> None:
    client = await inside.client()
    answer, _ = await client.ask(1, "tools/call", **ASKED)
    assert answer["result"]["resultType"] == "input_required"
    inside.path.unlink()
    assert await lines_after_look(inside, client, 2) == []
    inside.now += server.LONGEST_HELD
    assert await lines_after_look(inside, client, 3) == []
    inside.now += 1
    assert await lines_after_look(inside, client, 4) == [b"!move \n"]
    inside.now -= 1
    replies = {str(key): {"action": "accept"} for key in answer["result"]["inputRequests"]}
    again: dict[str, Any] = {"requestState": answer["result"]["requestState"], "inputResponses": replies}
    answer, _ = await client.ask(5, "tools/call", **ASKED, **again)
    assert answer["result"]["content"][0]["text"] == "the client says accept"
    await inside.gateway.held.close()  # a result is kept for a moment, for a client that asks again
    assert await lines_after_look(inside, client, 6) == [b"!move \n"]


async def test_a_task_keeps_a_client_only_until_it_has_ended(inside: Inside) -> None:
    """B18."""
    go = asyncio.Event()

    async def work(_: LocalTask) -> JsonObject:
        await go.wait()
        return {}

    client = await inside.client()
    task = await inside.gateway.local_tasks.start(LOCAL, work)
    inside.path.unlink()
    assert await lines_after_look(inside, client, 1) == []
    go.set()
    while not task.ended:
        await task.wait()
    assert await lines_after_look(inside, client, 2) == [b"!move \n"]


# Its shims


async def test_a_shim_that_asks_whether_it_is_there_is_answered(inside: Inside) -> None:
    """Defect 10."""
    client = await inside.client()
    client.send(b"!ping\n")
    assert await client.read() == b"!pong \n"


async def test_a_shim_that_says_goodbye_gets_its_answers_and_then_the_end(inside: Inside) -> None:
    client = await inside.client()
    slow = {"name": "call_tool", "arguments": {"name": "a.slow"}}
    client.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": slow})
    while (await inside.gateway.call("a.calls"))["structuredContent"]["waiting"] == 0:
        pass
    client.send(b"!done\n!ping\n")
    assert await client.read() == b"!pong \n"
    await inside.gateway.call("a.release")
    assert b"released" in await client.read()
    assert await client.read() == b""


async def test_its_lock_says_when_it_serves(inside: Inside) -> None:
    await inside.client()
    assert inside.lock.read_text() == f"{os.getpid()}\n"


# Strangers


async def test_a_connection_without_a_first_line_is_ended(monkeypatch: pytest.MonkeyPatch, inside: Inside) -> None:
    monkeypatch.setattr(server, "HELLO_WITHIN", 0.01)
    assert await (await inside.shim(hello=b"wicket-shim")).read() == b""
    await (await inside.client()).ask(1, "ping")


async def test_a_first_line_without_end_is_not_read_for_ever(monkeypatch: pytest.MonkeyPatch, inside: Inside) -> None:
    monkeypatch.setattr(server, "HELLO_WITHIN", 3600.0)
    shim = await inside.shim(hello=b"x" * (server.LONGEST_HELLO + 1))
    assert await shim.read() == b""


async def test_only_an_administrator_may_stop_a_server_through_the_daemon(inside: Inside) -> None:
    for name in ("a.pid", "b.pid"):
        await inside.gateway.call(name)
    assert await inside.ask_about(question(inside, "a", "discover", "invoke", stop=True)) == {}
    assert await inside.ask_about(question(inside, "b", "admin", stop=True)) == {}
    async with asyncio.timeout(20):
        while inside.states().get("b") == "ready":
            await asyncio.sleep(0)
    assert inside.states()["a"] == "ready", "it would have been stopped before the other one"


async def test_a_gateway_with_another_state_learns_nothing(inside: Inside) -> None:
    await inside.gateway.call("a.pid")
    asked = question(inside, "a", "admin")
    assert await inside.ask_about(asked) != {}
    assert await inside.ask_about(Question("/elsewhere", LOCAL.name, ("admin",), "a")) == {}


# Its log


async def test_a_log_that_has_grown_long_keeps_its_last_lines(inside: Inside) -> None:
    line = b"0123456789" * 9 + b" a line of a log\n"
    log = inside.daemon.log_file
    log.write_bytes(line * (server.LARGEST_LOG // len(line)))
    inside.daemon.look()
    assert log.stat().st_size > server.KEPT_LOG, "as long as it may be"
    with log.open("ab") as file:
        os.write(file.fileno(), line * 2)
        inside.daemon.look()
        os.write(file.fileno(), b"and it goes on\n")
    kept = log.read_bytes().splitlines(keepends=True)
    assert server.KEPT_LOG - len(line) <= sum(map(len, kept[:-1])) <= server.KEPT_LOG
    assert set(kept[:-1]) == {line}
    assert kept[-1] == b"and it goes on\n"
