"""The watchdog of the event loop: it measures how late the loop is, and names what holds it (F27)."""

import asyncio
import logging
import threading

import pytest

from wicket_mcp.telemetry.loop_lag import LoopLag


def hold_the_loop(lag: LoopLag, times: int) -> None:
    """Block the thread of the loop until the watchdog has seen it."""
    tired = threading.Event()
    while lag.held_times < times:
        tired.wait(0.001)


async def measured(lag: LoopLag) -> None:
    """Until the loop's timer has come once more."""
    ticks = lag.ticks
    while lag.ticks == ticks:
        await asyncio.sleep(0)


@pytest.mark.promise("F27", "A watchdog measures the event loop's lag and logs what blocked it.")
async def test_f27_what_holds_the_loop_is_named(caplog: pytest.LogCaptureFixture) -> None:
    lag = LoopLag(tick=0.01, held=0.05)
    lag.start()
    with caplog.at_level(logging.WARNING, "wicket_mcp"):
        await measured(lag)
        hold_the_loop(lag, 1)
        await measured(lag)
        first = lag.take()
        hold_the_loop(lag, 2)
    lag.stop()
    assert first >= 0.05
    assert "hold_the_loop (test_loop_lag.py:" in lag.held_by
    assert ["held for over 50 ms by" in record.message for record in caplog.records] == [True], "once in a while only"
    assert "held 2 times" in repr(lag)


async def test_f27_a_delay_is_told_once() -> None:
    lag = LoopLag(tick=0.01, held=0.05)
    lag.start()
    hold_the_loop(lag, 1)
    await measured(lag)
    lag.stop()
    longest = lag.take()
    assert longest >= 0.05
    assert lag.take() < longest
