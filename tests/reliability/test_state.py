"""State that cannot be used: searching, greeting and calling go on, and no answer is lost for it."""

import asyncio
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import needs
from tests.conftest import OpenGateway, peer
from tests.gateway.serving import Command, raw_client, serve_http, toml_of
from tests.gateway.test_faults import echo
from tests.store.test_sqlite import HOLDS_THE_WRITE_LOCK, answer, child
from wicket_mcp.store.model import CallRecord
from wicket_mcp.store.sql.health import MOST_OBSERVATIONS


def state_file(folder: Path) -> Path:
    [path] = folder.rglob("wicket.db")
    return path


@pytest.mark.promise(
    "F18", "With a locked state, Wicket starts, searches, calls, keeps large results, ends on SIGTERM."
)
@pytest.mark.promise("D5", "With a locked state, searches, handshakes, results and keys work.")
async def test_f18_d5_everything_goes_on_while_another_program_holds_the_state(tmp_path: Path) -> None:
    servers = {"echo": peer("Echo")}
    first = await Command.start(tmp_path, servers)
    await first.initialize()
    assert await first.finish() == 0
    async with child("-c", HOLDS_THE_WRITE_LOCK, str(state_file(tmp_path / "state"))) as holder:
        assert await answer(holder) == "held"
        command = await Command.start(tmp_path, servers)
        await command.initialize()
        found = await command.call("find_tools", {"query": "echo the message"})
        assert "echo.echo" in found["content"][0]["text"]
        big = await command.call("call_tool", {"name": "echo.big", "arguments": {"rows": 3000}})
        text = big["content"][0]["text"]
        assert "in memory only" in big["content"][-1]["text"]
        [handle] = re.findall(r"stored as id (\S+) ", text)
        part = await command.call("read_result", {"id": handle, "path": "items[2999].name"})
        assert "row 2999" in part["content"][0]["text"]
        command.process.send_signal(signal.SIGTERM)
        _, log = await command.process.communicate()
        assert command.process.returncode == 0, log.decode()
        assert holder.returncode is None, "it was locked to the end"


@pytest.mark.promise("F17", "A call's answer is returned even if it cannot be stored.")
async def test_f17_a_large_answer_is_given_though_its_state_is_gone(open_gateway: OpenGateway, state: Path) -> None:
    async with open_gateway({"echo": peer("Echo")}) as gateway:
        await gateway.tools()
        for file in state.iterdir():
            file.unlink()
        state.rmdir()
        state.write_text("a file where the folder was: nothing can be written there")
        assert await echo(gateway, "echo") == "still here"
        hits = await gateway.search("echo the message")
        assert hits[0].tool.key == "echo.echo"
        async with serve_http(gateway) as address, raw_client(address) as client:
            arguments = {"name": "echo.big", "arguments": {"rows": 3000}}
            status, body = await client.modern("tools/call", {"name": "call_tool", "arguments": arguments})
        assert status == 200
        assert "in memory only" in body["result"]["content"][-1]["text"]


@pytest.mark.promise("F17", "If nothing reads the log, its lines are dropped, and nothing is blocked.")
@pytest.mark.promise("D7", "If nobody reads the log, its lines are dropped.")
async def test_f17_d7_an_unread_log_freezes_nothing(tmp_path: Path) -> None:
    config = tmp_path / "wicket.toml"
    config.write_text(toml_of({"echo": peer("Echo"), "dies": peer("DiesMidCall")}))
    unread, full = os.pipe()
    os.set_blocking(full, False)
    with contextlib.suppress(BlockingIOError):
        while os.write(full, b"x" * 4096):
            pass
    os.set_blocking(full, True)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "wicket_mcp", "serve", "--config", str(config)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=full,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state"), "WICKET_LOG": "debug"},
    )
    command = Command(process)
    await command.initialize()
    for _ in range(3):
        assert (await command.call("call_tool", {"name": "dies.slow", "arguments": {}}))["isError"]
        said = await command.call("call_tool", {"name": "echo.echo", "arguments": {"message": "hello"}})
        assert said["content"][0]["text"] == "hello"
    assert command.process.stdin is not None
    command.process.stdin.close()
    assert await command.process.wait() == 0
    for descriptor in (unread, full):
        os.close(descriptor)


@pytest.mark.promise("F27", "The health of a server with a million calls uses its newest ten thousand.")
@pytest.mark.promise("D16", "The health of a server does not need the whole audit.")
async def test_f27_d16_an_audit_of_a_million_rows_is_not_read_whole(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo")}) as gateway:
        now = time.time()
        for batch in range(3):
            for number in range(5000):
                at = now - 15_000 + batch * 5000 + number
                gateway.store.record_call(
                    CallRecord(at, "local", "echo", "echo", "", "ok", 1.0, 0, method="tools/call")
                )
            await gateway.store.observed_servers(now)
        seen = await gateway.store.observations("echo", 0.0)
        assert len(seen) == MOST_OBSERVATIONS
        assert seen[0].at == pytest.approx(now - MOST_OBSERVATIONS), "the newest"
        assert [one.at for one in seen] == sorted(one.at for one in seen)


@pytest.mark.promise("F19", "If the state cannot be written at start, the error says what to do, without a traceback.")
def test_f19_a_start_on_a_read_only_folder_says_so(tmp_path: Path) -> None:
    """Also as root: the folder is mounted read-only for this one command."""
    (tmp_path / "wicket.toml").write_text(f'state_dir = "{tmp_path / "state"}"\n')
    (tmp_path / "state").mkdir()
    mounting = f"mount --bind {tmp_path} {tmp_path} && mount -o remount,ro,bind {tmp_path}"
    unshare = shutil.which("unshare") or "unshare"
    tried = subprocess.run(f"{unshare} -m sh -c '{mounting}'", shell=True, check=False, capture_output=True)  # noqa: S602
    if tried.returncode:
        pytest.skip(needs.MOUNTS)
    start = f"{mounting} && exec {sys.executable} -m wicket_mcp serve --config {tmp_path}/wicket.toml"
    command = [unshare, "-m", "sh", "-c", start]
    done = subprocess.run(command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
    assert done.returncode != 0
    assert "state" in done.stderr
    assert "Make the folder writable or set 'state_dir'" in done.stderr
    assert "Traceback" not in done.stderr
