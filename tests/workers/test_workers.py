"""Workers on one listening socket: who dies is replaced, and all are replaced under load without a call lost."""

import asyncio
import itertools
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import PEERS, peer
from tests.gateway.serving import META, Raw, raw_client
from tests.gateway.test_faults import gone
from tests.peers.counting_servers import CountingServer
from tests.workers.conftest import Served, Start
from wicket_mcp.codec import decode, encode
from wicket_mcp.surface.server import DRAIN, LAST_CALL
from wicket_mcp.workers import leave_within

HELLO = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}

SYSTEMD = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Starts a command as systemd does: the socket is its descriptor 3, and its process id is in LISTEN_PID."""


@pytest.mark.promise("F24", "All workers are replaced under load: no call is lost, and none is made twice.")
async def test_f24_all_workers_are_replaced_under_load_and_no_call_is_lost_or_made_twice(start: Start) -> None:
    async with CountingServer() as upstream, start({"x": {"url": upstream.url}}, workers=1) as served:
        await served.call("x.echo", message="first")
        numbers = itertools.count()
        answered: list[str] = ["first"]
        seen = {*served.workers()}
        done = asyncio.Event()

        async def call_on() -> None:
            """A client that keeps its connection open."""
            async with raw_client(served.address) as client:
                own = Served(served.process, served.address, client)
                while not done.is_set():
                    message = str(next(numbers))
                    result = await own.call("x.echo", message=message)
                    answered.append(result["content"][0]["text"])

        async def replace() -> None:
            for _ in range(3):
                [before] = served.workers()
                served.process.send_signal(signal.SIGHUP)
                while (now := await asyncio.to_thread(served.workers)) == [before] or len(now) > 1:
                    pass
                seen.update(now)
            done.set()

        await asyncio.gather(replace(), *(call_on() for _ in range(8)))
        assert len(seen) == 4
        assert sorted(upstream.executed) == sorted(answered)


async def test_a_legacy_session_goes_on_at_every_worker_and_when_one_dies(start: Start) -> None:
    async with CountingServer() as upstream, start({"x": {"url": upstream.url}}, workers=2) as served:
        status, headers, _ = await served.client.post(HELLO, token=None)
        assert status == 200
        session = {"Mcp-Session-Id": headers["Mcp-Session-Id"]}
        for number in range(30):
            if number == 15:
                before = served.workers()
                os.kill(before[0], signal.SIGKILL)
                while len(now := await asyncio.to_thread(served.workers)) < 2 or before[0] in now:
                    pass
            async with raw_client(served.address) as client:  # another connection, accepted by whoever is quicker
                arguments = {"name": "x.echo", "arguments": {"message": str(number)}}
                params = {"name": "call_tool", "arguments": arguments}
                message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
                status, _, body = await client.post(message, session, token=None)
                assert status == 200, body
                assert body.get("result", body) == {"content": [{"type": "text", "text": str(number)}]}
        assert upstream.executed == [str(number) for number in range(30)]


async def test_a_session_that_its_client_ended_has_ended_at_every_worker(start: Start) -> None:
    async with start({}, workers=2) as served:
        _, headers, _ = await served.client.post(HELLO, token=None)
        session = {"Mcp-Session-Id": headers["Mcp-Session-Id"]}
        async with served.client.session.delete(served.address, headers=session) as answer:
            assert answer.status == 200
        for _ in range(12):
            async with raw_client(served.address) as client:
                ping: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {}}
                assert (await client.post(ping, session, token=None))[0] == 404


async def test_a_command_runs_once_for_all_workers_and_moves_when_its_owner_dies(start: Start) -> None:
    async with start({"a": peer("Echo")}, workers=2) as served:
        [server] = await _ask_everybody(served)
        [owner] = [worker for worker in served.workers() if _children(worker, "stdio_peer")]
        os.kill(owner, signal.SIGKILL)
        await gone(int(server))
        while len(now := await asyncio.to_thread(served.workers)) < 2 or owner in now:
            pass
        [another] = await _ask_everybody(served)
        assert another != server


async def _ask_everybody(served: Served) -> set[str]:
    """The process that answers, asked over many connections so that every worker has accepted some."""
    found: set[str] = set()
    for _ in range(30):
        async with raw_client(served.address) as client:
            result = await Served(served.process, served.address, client).call("a.pid")
            found.add(result["content"][0]["text"])
    return found


def _children(pid: int, name: str) -> list[int]:
    listed = subprocess.run(
        ("ps", "-ww", "-o", "pid=,args=", "--ppid", str(pid)), capture_output=True, text=True, check=False
    )
    return [int(line.split()[0]) for line in listed.stdout.splitlines() if name in line]


async def test_a_legacy_command_runs_once_for_each_set_of_extensions_of_all_workers_clients(start: Start) -> None:
    extended = {"command": sys.executable, "args": [str(PEERS / "extended_server.py"), "legacy", "a"]}
    counted = {1: 0, 2: 0}
    async with start({"a": extended}, workers=2) as served:
        for depth in [1, 2] * 12:
            declared: dict[str, Any] = {"com.example/tally": {"depth": depth}}
            meta = {**META, "io.modelcontextprotocol/clientCapabilities": {"extensions": declared}}
            arguments: dict[str, Any] = {"name": "a.seen", "arguments": {}}
            call = {"name": "call_tool", "arguments": arguments, "_meta": meta}
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
            routing = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "call_tool"}
            async with raw_client(served.address) as client:  # accepted by whoever is quicker
                _, _, body = await client.post(message, routing, token=None)
            seen = body["result"]["structuredContent"]
            counted[depth] += 1
            assert seen["handshake"]["capabilities"]["extensions"] == declared
            assert len(seen["called"]) == counted[depth], "one process for all who declare this"


async def test_progress_and_questions_reach_the_client_through_the_owner(start: Start) -> None:
    async with start({"a": peer("TellsWhileItAsks"), "b": peer("Echo")}, workers=2) as served:
        for _ in range(24):
            async with raw_client(served.address) as client:
                able: dict[str, Any] = {"elicitation": {"form": {}}}
                meta = {**META, "io.modelcontextprotocol/clientCapabilities": able}
                asked = {"name": "call_tool", "arguments": {"name": "a.slow"}}
                first = await _modern(client, {**asked, "_meta": meta})
                [(key, question)] = first["inputRequests"].items()
                assert question["method"] == "elicitation/create"
                answers = {key: {"action": "accept"}}
                state = {"requestState": first["requestState"], "inputResponses": answers}
                async with raw_client(served.address) as another:  # accepted by whichever worker is quicker
                    last = await _modern(another, {**asked, **state, "_meta": meta})
                assert last["content"][0]["text"] == "the client says accept"
                told = {"name": "call_tool", "arguments": {"name": "b.steps"}, "_meta": {**META, "progressToken": "t"}}
                messages = await _stream(client, told)
                assert [message.get("params", {}).get("progress") for message in messages] == [1, 2, 3, None]


async def _modern(client: Raw, params: dict[str, Any]) -> Any:
    body = await _stream(client, params)
    return body["result"]


async def _stream(client: Raw, params: dict[str, Any]) -> Any:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": params["name"]}
    status, _, body = await client.post(message, headers, token=None)
    assert status == 200, body
    return body


async def test_a_change_is_read_once_for_all_workers(start: Start, tmp_path: Path) -> None:
    """B15: each worker listed the server again, reviewed, pinned and stored the same."""
    listing = tmp_path / "listing.json"
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("tell", "calls")]
    listing.write_bytes(encode({"tools": tools}))
    async with start({"x": peer("TellsOfChanges", env={"LISTING": str(listing)})}, workers=2) as served:

        async def everybody(name: str) -> list[str]:
            """The answers over many connections, so that every worker has accepted some."""
            answers: list[str] = []
            for _ in range(12):
                async with raw_client(served.address) as client:
                    result = await Served(served.process, served.address, client).call(name)
                    answers.append(result["content"][0]["text"])
            return answers

        before = decode((await everybody("x.calls"))[-1])["lists"]
        listing.write_bytes(encode({"tools": [*tools, {"name": "send", "inputSchema": {"type": "object"}}]}))
        await served.call("x.tell")
        async with asyncio.timeout(30):
            while set(await everybody("x.send")) != {"it ran"}:
                pass
        assert decode((await everybody("x.calls"))[-1])["lists"] == before + 1


async def test_a_servers_limit_holds_for_all_workers_together(start: Start) -> None:
    async with start({"a": peer("Echo", calls_per_minute=40, start="eager")}, workers=2) as served:

        async def is_allowed() -> bool:
            async with raw_client(served.address) as client:
                result = await Served(served.process, served.address, client).call("a.pid")
                return not result.get("isError", False)

        allowed = sum(await asyncio.gather(*(is_allowed() for _ in range(120))))
        assert 20 <= allowed < 70  # 80 without a share for each; some are granted while we ask
        owners = [worker for worker in served.workers() if _children(worker, "stdio_peer")]
        assert len(owners) == 1


async def test_a_profiles_budgets_hold_for_all_workers_together(start: Start) -> None:
    budgets = (
        '[profiles.few]\nservers = ["a"]\ncalls_per_hour = 6\n[profiles.short]\nservers = ["a"]\ntokens_per_hour = 40\n'
    )
    async with start({"a": peer("Echo")}, workers=2, options=budgets) as served:

        async def ask(profile: str) -> str:
            async with raw_client(f"{served.address}/p/{profile}") as client:
                result = await Served(served.process, served.address, client).call("a.echo", message="x" * 40)
                return result["content"][0]["text"]

        said = await asyncio.gather(*(ask("few") for _ in range(30)))  # one each 10 minutes is granted meanwhile
        assert sum(text.startswith("xxx") for text in said) == 6
        assert sum("has used its 6 calls an hour" in text for text in said) == 24
        said = [await ask("short") for _ in range(30)]
        granted = sum(text.startswith("xxx") for text in said)
        assert 1 <= granted <= 4  # of some ten tokens each; a budget for each worker would grant twice as many
        assert "has used its 40 tokens an hour" in said[-1]


async def test_a_worker_that_dies_is_replaced(start: Start) -> None:
    async with start({"a": peer("Echo")}, workers=1) as served:
        [worker] = served.workers()
        server = int((await served.call("a.pid"))["content"][0]["text"])
        os.kill(worker, signal.SIGKILL)
        await gone(server)
        async with raw_client(served.address) as client:  # waits in the queue of the socket until there is another
            again = Served(served.process, served.address, client)
            assert (await again.call("a.echo", message="hi"))["content"][0]["text"] == "hi"
        assert served.workers() != [worker]


async def test_the_master_ends_with_its_workers_and_their_servers(start: Start) -> None:
    async with start({"a": peer("Echo")}, workers=1) as served:
        server = int((await served.call("a.pid"))["content"][0]["text"])
        workers = served.workers()
    assert served.process.returncode == 0
    for process in (*workers, server):
        await gone(process)


def test_a_worker_that_listens_on_for_a_balancer_has_time_to_end_its_calls() -> None:
    assert leave_within(90.0) > 90 + LAST_CALL + DRAIN


async def test_a_socket_that_systemd_listens_on_is_used(tmp_path: Path) -> None:
    config = tmp_path / "wicket.toml"
    config.write_text("")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        command = (sys.executable, "-m", "wicket_mcp", "serve", "--http", ":", "--no-auth", "--config", str(config))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", SYSTEMD, str(listener.fileno()), *command),
            pass_fds=(listener.fileno(),),
            stdin=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")},
        )
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        async with raw_client(address) as client:
            assert (await client.modern("server/discover"))[0] == 200
        process.terminate()
        await process.communicate()
        assert process.returncode == 0
