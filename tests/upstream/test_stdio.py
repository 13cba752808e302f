"""A child's pipes, with children of a few lines that go wrong in one way each."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.peers.recording_host import Heard, RecordingHost

from wicket_mcp.config.model.config import ResolvedServer, ServerConfig
from wicket_mcp.errors import Crashed, NotSent
from wicket_mcp.model import JsonObject
from wicket_mcp.rpc import MAX_PEER_REQUESTS
from wicket_mcp.upstream import stdio
from wicket_mcp.upstream.keeper import Keeper
from wicket_mcp.upstream.stdio import StdioConnection

BAD_TOKENS = """
import sys
sys.stdin.readline()
sys.stdout.write(
    '{"method": "notifications/progress", "params": {"progressToken": {}}}\\n'
    '{"method": "notifications/progress", "params": {"progressToken": []}}\\n'
    '[1, {"method": "notifications/progress", "params": {"progressToken": "t"}}]\\n'
    '{"id": 1, "result": {"ok": true}}\\n'
)
sys.stdout.flush()
sys.stdin.readline()
"""

DIES_OF = """
import os, sys
sys.stdin.readline()
os.kill(os.getpid(), int(sys.argv[1]))
"""

STOPS_READING = """
import os, sys
os.read(0, 1000)
os.close(0)
os.write(1, b'{"id": 1, "result": {}}\\n')
open(sys.argv[1]).read()
os._exit(3)
"""

TIDIES_UP = """
import pathlib, sys, time
sys.stdin.read()
sys.stdout.close()
time.sleep(0.2)
pathlib.Path(sys.argv[1]).touch()
"""

FLOODS = """
import sys
sys.stdin.readline()
sys.stdout.write("".join('{"id": %d, "method": "ask"}\\n' % number for number in range(1000)))
sys.stdout.write('{"id": 1, "result": {}}\\n')
sys.stdout.flush()
sys.stdin.readline()
"""

FLOODS_ON = """
import os, pathlib, signal, sys
written = 0
def stop(number, frame):
    pathlib.Path(sys.argv[1]).write_text(str(written))
    os._exit(0)
signal.signal(signal.SIGTERM, stop)
while True:
    written += os.write(1, b'{"method": "notifications/x"}\\n' * 1000)
"""


class Ponders(RecordingHost):
    """Never answers what it is asked."""

    async def request(self, method: str, params: JsonObject) -> JsonObject:
        self.asked.append(method)
        await asyncio.Event().wait()
        return {}


@asynccontextmanager
async def child(source: str, *args: str, host: RecordingHost) -> AsyncGenerator[StdioConnection]:
    command = ("-I", "-S", "-c", source, *args)
    server = ResolvedServer(config=ServerConfig(name="x", command=sys.executable), command=sys.executable, args=command)
    keeper = Keeper()
    connection = await StdioConnection.open(server, host, 2**20, keeper)
    try:
        yield connection
    finally:
        await connection.close()
        await keeper.close()


async def test_b9_one_bad_line_does_not_cost_the_rest_of_its_chunk(host: RecordingHost) -> None:
    """B9: an unhashable progress token lost the answer behind it, and the call hung to its deadline."""
    heard = Heard()
    async with child(BAD_TOKENS, host=host) as connection:
        result = await connection.request("x", {"_meta": {"progressToken": "t"}}, heard.callbacks)
    assert result == {"ok": True}
    assert [params["progressToken"] for _, params in heard.all] == ["t"]


@pytest.mark.promise("T22", "The number of open requests of a server is limited.")
@pytest.mark.promise("D15", "A server's own open requests are limited.")
async def test_t22_b11_d15_a_child_cannot_start_more_than_a_few_requests(host: RecordingHost) -> None:
    """B11: each of a stdio upstream's requests started a task, however many there were."""
    ponders = Ponders()
    async with child(FLOODS, host=ponders) as connection:
        await connection.request("x", {})
        await asyncio.sleep(0)
        assert len(ponders.asked) == MAX_PEER_REQUESTS


@pytest.mark.parametrize(
    ("number", "name"),
    [(signal.SIGKILL, "SIGKILL"), (signal.SIGRTMIN + 1, f"signal {signal.SIGRTMIN + 1}")],
    ids=["named", "real-time"],
)
async def test_b25_whatever_signal_kills_it_the_call_fails(number: int, name: str, host: RecordingHost) -> None:
    """B25: a real-time signal has no name in Python; the calls in flight were never failed."""
    async with child(DIES_OF, str(int(number)), host=host) as connection:
        with pytest.raises(Crashed, match=f"killed by {name}"):
            await connection.request("x", {})


async def _notify_until_it_fails(connection: StdioConnection) -> None:
    while True:
        await connection.notify("x")
        await asyncio.sleep(0)


async def test_a_call_to_a_child_that_is_exiting_says_with_which_code(
    host: RecordingHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio, "EXIT_REASON_GRACE", 30.0)
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    async with child(STOPS_READING, str(gate), host=host) as connection:
        await connection.request("x", {})
        with pytest.raises(NotSent, match="Server 'x' ended before it answered"):
            await _notify_until_it_fails(connection)
        request = asyncio.ensure_future(connection.request("x", {}))
        await asyncio.to_thread(gate.write_text, "exit")
        with pytest.raises(NotSent, match="exited with code 3"):
            await request


async def test_a_child_that_is_stopped_has_time_to_tidy_up(
    host: RecordingHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program may have to tidy up after it has closed its output."""
    monkeypatch.setattr(stdio, "EXIT_REASON_GRACE", 0.0)
    monkeypatch.setattr(stdio, "EXIT_GRACE", 60.0)
    async with child(TIDIES_UP, str(tmp_path / "tidy"), host=host):
        pass
    assert (tmp_path / "tidy").exists()


@pytest.mark.promise("V26", "A flood is not read on while its server is stopped.")
async def test_v26_a_flood_is_not_read_on_while_its_server_is_stopped(host: RecordingHost, tmp_path: Path) -> None:
    """It was read at full speed for two seconds, because a server that is stopped may have something to finish."""
    written = tmp_path / "written"
    async with child(FLOODS_ON, str(written), host=host) as connection:
        while not connection.slowed:
            await asyncio.sleep(0)
    assert int(written.read_text()) < 2**20
