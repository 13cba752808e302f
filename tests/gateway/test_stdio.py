"""Serving over stdio: the installed command, spoken to over real pipes."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import peer
from tests.gateway.serving import META, Command
from tests.gateway.test_faults import gone


async def test_a_legacy_session_from_handshake_to_goodbye(tmp_path: Path) -> None:
    command = await Command.start(tmp_path, {"echo": peer("Echo")})
    hello = await command.initialize()
    assert hello["serverInfo"]["name"] == "wicket"
    assert hello["protocolVersion"] == "2025-11-25"
    assert "echo" in hello["instructions"]
    tools = (await command.ask("tools/list"))["result"]["tools"]
    assert [tool["name"] for tool in tools] == [
        "find_tools",
        "describe_tools",
        "call_tool",
        "run_script",
        "read_result",
    ]
    result = await command.call("call_tool", {"name": "echo.echo", "arguments": {"message": "hello"}})
    assert result == {"content": [{"type": "text", "text": "hello"}]}
    assert (await command.ask("ping"))["result"] == {}
    assert await command.finish() == 0


async def test_a_modern_client_needs_no_handshake(tmp_path: Path) -> None:
    command = await Command.start(tmp_path, {"echo": peer("Echo")})
    found = (await command.ask("server/discover", {"_meta": META}))["result"]
    assert found["supportedVersions"] == ["2026-07-28"]
    assert found["resultType"] == "complete"
    listed = (await command.ask("tools/list", {"_meta": META}))["result"]
    assert listed["cacheScope"] == "private"
    assert listed["ttlMs"] > 0
    call = {"name": "call_tool", "arguments": {"name": "echo", "arguments": {"message": "hi"}}, "_meta": META}
    result = (await command.ask("tools/call", call))["result"]
    assert result["content"] == [{"type": "text", "text": "hi"}]
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "wicket"
    await command.finish()


async def test_an_unsupported_modern_version_is_told_what_is_supported(tmp_path: Path) -> None:
    command = await Command.start(tmp_path, {})
    meta = {**META, "io.modelcontextprotocol/protocolVersion": "2099-01-01"}
    error = (await command.ask("tools/list", {"_meta": meta}))["error"]
    assert error["code"] == -32022
    assert error["data"] == {"supported": ["2026-07-28"], "requested": "2099-01-01"}
    await command.finish()


async def test_methods_of_the_other_era_do_not_exist(tmp_path: Path) -> None:
    command = await Command.start(tmp_path, {})
    assert (await command.ask("ping", {"_meta": META}))["error"]["code"] == -32601
    assert (await command.ask("server/discover"))["error"]["code"] == -32601
    assert (await command.ask("no/such"))["error"]["code"] == -32601
    await command.finish()


async def test_a_message_that_is_none_gets_an_error_and_the_connection_lives(tmp_path: Path) -> None:
    command = await Command.start(tmp_path, {})
    for wrong, code in ((b"{not json", -32700), (b"[1, 2]", -32600), (b'{"id": 1}', -32600)):
        command.send(wrong)
        assert (await command.receive())["error"]["code"] == code
    assert (await command.ask("ping"))["result"] == {}
    await command.finish()


async def test_answers_come_as_they_are_ready_not_in_order(tmp_path: Path) -> None:
    command = await Command.start(tmp_path, {"echo": peer("Echo")})
    await command.initialize()
    slow = {"name": "call_tool", "arguments": {"name": "echo.slow"}}
    command.send({"jsonrpc": "2.0", "id": "slow", "method": "tools/call", "params": slow})
    assert (await command.call("call_tool", {"name": "echo.echo", "arguments": {"message": "fast"}}))["content"]
    command.send(
        {
            "jsonrpc": "2.0",
            "id": "release",
            "method": "tools/call",
            "params": {"name": "call_tool", "arguments": {"name": "echo.release"}},
        }
    )
    assert {(await command.receive())["id"] for _ in range(2)} == {"slow", "release"}
    await command.finish()


@pytest.mark.promise("V3", "While a large message of a stdio client is decoded, nothing after it is read.")
async def test_v3_what_follows_a_large_message_waits_for_it(tmp_path: Path) -> None:
    command = await Command.start(tmp_path, {})
    await command.initialize()
    for number in range(3):
        large = {"padding": "x" * 1_000_000}
        command.send({"jsonrpc": "2.0", "id": f"large {number}", "method": "ping", "params": large})
        command.send({"jsonrpc": "2.0", "id": f"small {number}", "method": "ping"})
    order = [(await command.receive())["id"] for _ in range(6)]
    assert order == ["large 0", "small 0", "large 1", "small 1", "large 2", "small 2"]
    await command.finish()


async def test_an_id_that_is_in_use_is_refused_and_the_first_request_is_answered(tmp_path: Path) -> None:
    command = await Command.start(tmp_path, {"echo": peer("Echo")})
    await command.initialize()
    slow = {"name": "call_tool", "arguments": {"name": "echo.slow"}}
    command.send({"jsonrpc": "2.0", "id": "same", "method": "tools/call", "params": slow})
    command.send({"jsonrpc": "2.0", "id": "same", "method": "ping"})
    refused = await command.receive()
    assert (refused["id"], refused["error"]["code"]) == ("same", -32600)
    while not (await command.call("call_tool", {"name": "echo.calls"}))["structuredContent"]["waiting"]:
        pass
    release = {"name": "call_tool", "arguments": {"name": "echo.release"}}
    command.send({"jsonrpc": "2.0", "id": "release", "method": "tools/call", "params": release})
    answers = [await command.receive() for _ in range(2)]
    assert {answer["id"] for answer in answers if "result" in answer} == {"same", "release"}
    await command.finish()


@pytest.mark.promise("F14", "A cancelled request is cancelled at the server and not answered.")
async def test_f14_a_cancelled_request_is_cancelled_upstream_and_not_answered(tmp_path: Path) -> None:
    command = await Command.start(tmp_path, {"echo": peer("Echo")})
    await command.initialize()
    slow = {"name": "call_tool", "arguments": {"name": "echo.slow"}}
    command.send({"jsonrpc": "2.0", "id": "s", "method": "tools/call", "params": slow})
    while not (await command.call("call_tool", {"name": "echo.calls"}))["structuredContent"]["waiting"]:
        pass
    command.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "s"}})
    counted = (await command.call("call_tool", {"name": "echo.calls"}))["structuredContent"]
    assert (counted["cancelled"], counted["waiting"]) == (1, 0)
    await command.finish()


async def test_progress_is_forwarded_under_the_clients_token(tmp_path: Path) -> None:
    command = await Command.start(tmp_path, {"echo": peer("Echo")})
    await command.initialize()
    params = {"name": "call_tool", "arguments": {"name": "echo.steps"}, "_meta": {"progressToken": "p7"}}
    command.send({"jsonrpc": "2.0", "id": "s", "method": "tools/call", "params": params})
    seen = [await command.receive() for _ in range(4)]
    assert [m["params"]["progress"] for m in seen[:3]] == [1, 2, 3]
    assert {m["params"]["progressToken"] for m in seen[:3]} == {"p7"}
    assert seen[3]["id"] == "s"
    await command.finish()


async def test_calls_in_flight_are_answered_after_the_client_closed_its_end(tmp_path: Path) -> None:
    command = await Command.start(tmp_path, {"echo": peer("Echo")})
    await command.initialize()
    await command.call("find_tools", {"query": "echo"})
    call = {"name": "call_tool", "arguments": {"name": "echo.echo", "arguments": {"message": "last words"}}}
    command.send({"jsonrpc": "2.0", "id": "last", "method": "tools/call", "params": call})
    assert command.process.stdin is not None
    command.process.stdin.close()
    output, _ = await command.process.communicate()
    assert json.loads(output)["result"]["content"][0]["text"] == "last words"
    assert command.process.returncode == 0


@pytest.mark.promise("F13", "A gateway for one client over stdio ends with its client, and so do its servers.")
async def test_f13_a_client_that_vanishes_mid_call_ends_the_gateway_and_its_children(tmp_path: Path) -> None:
    command = await Command.start(tmp_path, {"echo": peer("Echo")})
    await command.initialize()
    child = int((await command.call("call_tool", {"name": "echo.pid"}))["content"][0]["text"])
    slow = {"name": "call_tool", "arguments": {"name": "echo.slow"}}
    command.send({"jsonrpc": "2.0", "id": "s", "method": "tools/call", "params": slow})
    pipes: Any = vars(command.process)["_transport"]  # both at once, as when a client crashes
    for fd in (0, 1):
        pipes.get_pipe_transport(fd).close()
    assert await command.process.wait() == 0
    await gone(child)


@pytest.mark.promise("F23", "The same over stdio, and no process is left behind.")
async def test_f23_sigterm_lets_calls_finish_and_leaves_no_orphan(tmp_path: Path) -> None:
    command = await Command.start(tmp_path, {"echo": peer("Echo")})
    await command.initialize()
    child = int((await command.call("call_tool", {"name": "echo.pid"}))["content"][0]["text"])
    slow = {"name": "call_tool", "arguments": {"name": "echo.slow"}}
    command.send({"jsonrpc": "2.0", "id": "s", "method": "tools/call", "params": slow})
    while not (await command.call("call_tool", {"name": "echo.calls"}))["structuredContent"]["waiting"]:
        pass
    command.process.send_signal(signal.SIGTERM)
    assert command.process.stderr is not None
    while b"SIGTERM" not in await command.process.stderr.readline():
        pass
    os.kill(child, signal.SIGUSR1)
    answer = await command.receive()
    assert (answer["id"], answer["result"]["content"][0]["text"]) == ("s", "released")
    output = await command.process.communicate()
    assert (command.process.returncode, output[0]) == (0, b"")
    await gone(child)


async def test_nothing_but_protocol_reaches_stdout(tmp_path: Path) -> None:
    command = await Command.start(tmp_path, {"broken": peer("ExitsAtOnce"), "noisy": peer("WritesGarbage")})
    await command.initialize()
    found = await command.call("find_tools", {"query": "echo with broken"})
    assert "noisy.echo" in found["content"][0]["text"]
    assert "[unavailable: broken (" in found["content"][0]["text"]
    assert command.process.stdin is not None
    command.process.stdin.close()
    output, log = await command.process.communicate()
    assert output == b""
    assert b"broken" in log


def test_files_and_devices_are_as_good_as_pipes(tmp_path: Path) -> None:
    (tmp_path / "wicket.toml").write_text('state_dir = "state"\n')
    about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    greeting = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
    (tmp_path / "asked").write_text(json.dumps(greeting) + "\n")
    (tmp_path / "nothing").touch()
    command = [sys.executable, "-m", "wicket_mcp", "serve", "--config", str(tmp_path / "wicket.toml")]
    for source in ("asked", "nothing", os.devnull):
        for sink in ("answered", os.devnull):
            with (tmp_path / source).open("rb") as stdin, (tmp_path / sink).open("wb") as stdout:
                done = subprocess.run(
                    command, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, timeout=60, check=False
                )
            assert (done.returncode, b"Traceback" in done.stderr, b"failed" in done.stderr) == (0, False, False)
        answered = (tmp_path / "answered").read_text()
        assert (json.loads(answered)["result"]["serverInfo"]["name"] == "wicket") if source == "asked" else not answered
