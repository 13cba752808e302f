"""The machine's clock jumps: what is stored stays."""

import asyncio
import os
import re
import sqlite3
import sys
from pathlib import Path

import pytest

from tests import needs
from tests.conftest import peer
from tests.gateway.serving import Command, toml_of
from tests.reliability.test_state import state_file
from wicket_mcp.store.clock import SLACK, TRUSTED_AFTER, SteadyClock

DAY = 86400.0


def faketime() -> str:
    library = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
    if library is None:
        pytest.skip(needs.FAKETIME)
    return str(library)


async def start(folder: Path, offset: Path) -> Command:
    """A gateway whose clock is off by what the file `offset` says, at every moment."""
    config = folder / "wicket.toml"
    config.write_text(toml_of({"echo": peer("Echo")}))
    clock = {
        "LD_PRELOAD": faketime(),
        "FAKETIME_TIMESTAMP_FILE": str(offset),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "wicket_mcp", "serve", "--no-daemon", "--config", str(config)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "XDG_STATE_HOME": str(folder / "state"), **clock},
        limit=2**24,
    )
    command = Command(process)
    Command.started.append(command)
    await command.initialize()
    return command


async def keep_result(command: Command) -> str:
    large = await command.call("call_tool", {"name": "echo.big", "arguments": {"rows": 3000}})
    [handle] = re.findall(r"stored as id (\S+) ", large["content"][0]["text"])
    return handle


@pytest.mark.promise("F22", "A clock that jumps ahead while Wicket runs deletes no stored result and no record.")
async def test_f22_a_clock_that_jumps_ahead_deletes_nothing(tmp_path: Path) -> None:
    offset = tmp_path / "offset"
    offset.write_text("+0")
    command = await start(tmp_path, offset)
    first = await keep_result(command)
    offset.write_text("+3650d")
    second = await keep_result(command)
    for handle in (first, second):
        part = await command.call("read_result", {"id": handle, "path": "items[2999].name"})
        assert "row 2999" in part["content"][0]["text"], "while the clock is wrong"
    offset.write_text("+0")
    third = await keep_result(command)
    for handle in (first, second, third):
        part = await command.call("read_result", {"id": handle, "path": "items[2999].name"})
        assert "row 2999" in part["content"][0]["text"], "when it is right again"
    assert await command.finish() == 0
    with sqlite3.connect(state_file(tmp_path / "state")) as db:
        (calls,) = db.execute("SELECT count(*) FROM audit WHERE server = 'echo' AND method = 'tools/call'").fetchone()
        expiries = [at for (at,) in db.execute("SELECT expires_at FROM result")]
    db.close()
    assert calls == 3
    assert max(expiries) - min(expiries) < DAY, "what was stored under the wrong clock expires like the rest"


class Readings:
    """A wall clock that can be set, over an uptime that cannot."""

    def __init__(self) -> None:
        self.uptime, self.offset = 100.0, 1_700_000_000.0
        self.clock = SteadyClock(lambda: self.uptime + self.offset, lambda: self.uptime)

    @property
    def error(self) -> float:
        """How far the clock is from the time that the machine has really run."""
        return self.clock() - 1_700_000_000.0 - self.uptime


def test_f22_a_jump_ahead_counts_when_it_has_lasted_for_a_day() -> None:
    readings = Readings()
    readings.offset += 10 * DAY
    assert readings.error == 0
    readings.uptime += TRUSTED_AFTER - 1
    assert readings.error == 0
    readings.uptime += 1
    assert readings.error == 10 * DAY


def test_f22_a_jump_ahead_that_is_corrected_never_counts() -> None:
    readings = Readings()
    readings.offset += 10 * DAY
    assert readings.error == 0
    readings.offset -= 10 * DAY
    assert readings.error == 0
    readings.uptime += TRUSTED_AFTER
    assert readings.error == 0


def test_f22_small_corrections_and_a_clock_that_goes_back_are_followed() -> None:
    readings = Readings()
    for _ in range(3):
        readings.offset += SLACK
        readings.uptime += 1
        readings.clock()
    assert readings.error == 3 * SLACK
    readings.offset -= 10 * DAY
    assert readings.error == 3 * SLACK - 10 * DAY
