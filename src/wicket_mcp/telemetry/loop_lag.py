"""Measures continuously how late the event loop is, and logs what blocked it for long.

A timer of the loop measures its delay four times a second. A separate thread notices when the timer does not fire,
captures what the loop's thread is doing, and logs it at a limited rate; it also checks memory use. Metrics read the
figures; admission (`surface/admission.py`) rejects new work while they are bad. Knows no requests.
"""

import asyncio
import logging
import sys
import threading
import traceback
from types import FrameType

from wicket_mcp.telemetry.memory import share_used

log = logging.getLogger(__name__)

TICK = 0.25
HELD = 0.25
"""Seconds by which the timer must be late before the stack is captured."""
LOG_EVERY = 30.0
_FRAMES = 6


class LoopLag:
    """See the module's docstring. `ticks` counts the measurements, `latest` is the newest of them in seconds."""

    def __init__(self, tick: float = TICK, held: float = HELD) -> None:
        self.latest = 0.0
        self.ticks = 0
        self.held_times = 0
        """How often the loop was blocked long enough to be captured."""
        self.held_by = ""
        """The last captured stack: innermost call first."""
        self.memory = 0.0
        """The share of its memory that the process uses, updated by the thread."""
        self._tick, self._held = tick, held
        self._longest = 0.0
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread_id = 0
        self._ended = threading.Event()
        self._logged_at = float("-inf")

    def __repr__(self) -> str:
        return f"<LoopLag {self.latest * 1000:.0f} ms, held {self.held_times} times>"

    def start(self) -> None:
        """Measure the running loop from now on."""
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        self._ended.clear()
        self._arm(self._loop)
        threading.Thread(target=self._watch, args=(self._loop,), name="loop watchdog", daemon=True).start()

    def stop(self) -> None:
        self._ended.set()
        if self._timer is not None:
            self._timer.cancel()

    def take(self) -> float:
        """The longest delay since the last call, including one that is still going on."""
        longest, self._longest = self._longest, 0.0
        return max(longest, self._late())

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due = loop.time() + self._tick
        self._timer = loop.call_at(self._due, self._look)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        self.latest = max(0.0, loop.time() - self._due)
        self.ticks += 1
        self._longest = max(self._longest, self.latest)
        self._arm(loop)

    def _late(self) -> float:
        return max(0.0, self._loop.time() - self._due) if self._loop is not None else 0.0

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """The thread: sleeps until the timer would be too late."""
        sampled = -1
        while not self._ended.wait(max(0.01, self._due + self._held - loop.time())):
            self.memory = share_used()
            ticks = self.ticks
            if ticks == sampled or self._late() < self._held:
                if ticks == sampled:
                    self._ended.wait(self._tick)
                continue
            sampled = ticks
            # Documented for this purpose, despite its name.
            frame = sys._current_frames().get(self._thread_id)  # pyright: ignore[reportPrivateUsage]
            if frame is not None and ticks == self.ticks:
                self._note(frame, loop.time())

    def _note(self, frame: FrameType, now: float) -> None:
        self.held_times += 1
        self.held_by = describe(frame)
        if now - self._logged_at >= LOG_EVERY:
            self._logged_at = now
            log.warning("the event loop has been held for over %.0f ms by %s", self._held * 1000, self.held_by)


def describe(frame: FrameType) -> str:
    """The innermost calls of a stack, as one line."""
    calls = traceback.extract_stack(frame)[-_FRAMES:]
    return " < ".join(f"{call.name} ({call.filename.rpartition('/')[2]}:{call.lineno})" for call in reversed(calls))
