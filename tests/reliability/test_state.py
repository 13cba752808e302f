"""State that cannot be used: searching, greeting and calling go on, and no answer is lost for it."""

import re
import signal
from pathlib import Path

import pytest

from tests.conftest import OpenGateway, peer
from tests.gateway.serving import Command, raw_client, serve_http
from tests.gateway.test_faults import echo
from tests.store.test_sqlite import HOLDS_THE_WRITE_LOCK, answer, child


def state_file(folder: Path) -> Path:
    [path] = folder.rglob("wicket.db")
    return path


@pytest.mark.promise("F18", "With its state locked Wicket greets, finds, calls, keeps large results, ends on SIGTERM.")
async def test_everything_goes_on_while_another_program_holds_the_state(tmp_path: Path) -> None:
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


@pytest.mark.promise("F17", "The answer of a call that acted is given also where it cannot be stored.")
async def test_a_large_answer_is_given_though_its_state_is_gone(open_gateway: OpenGateway, state: Path) -> None:
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
