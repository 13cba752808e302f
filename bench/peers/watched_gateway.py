"""A gateway whose event loop is watched: `python watched_gateway.py REPORT ARGUMENTS…`, as after `wicket`.

A timer of a millisecond says how late the loop is, whoever keeps it, be it a thread with the interpreter's lock; how
much of that time this process was at work, on all its threads, so that a busy machine can be told from a held loop; and
each callback is timed on the processor's clock, which nothing else on the machine changes. On SIGUSR1 it writes a line
of JSON to REPORT: the worst of these since the last one, and which callback it was.
"""

import asyncio
import json
import runpy
import signal
import sys
import time
from asyncio import events
from pathlib import Path
from typing import Any

TICK = 0.001


class Watch:
    """What was worst so far."""

    def __init__(self, report: Path) -> None:
        self._report = report
        self._ticking = False
        self.reset()

    def reset(self) -> None:
        self._late = self._own = self._longest = 0.0
        self._callback = ""

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._ticking:
            self._ticking = True
            self._arm(loop)

    def note(self, seconds: float, callback: Any) -> None:
        if seconds > self._longest:
            self._longest = seconds
            owner: Any = getattr(callback, "__self__", None)
            self._callback = owner.get_name() if isinstance(owner, asyncio.Task) else repr(callback)

    def write(self, *_: Any) -> None:
        worst = {"late": self._late, "own": self._own, "longest": self._longest, "callback": self._callback}
        with self._report.open("a") as report:
            report.write(json.dumps(worst) + "\n")
        self.reset()

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        due = loop.time() + TICK
        loop.call_at(due, self._look, loop, due, time.process_time())

    def _look(self, loop: asyncio.AbstractEventLoop, due: float, worked: float) -> None:
        late = loop.time() - due
        self._late = max(self._late, late)
        self._own = max(self._own, min(late, time.process_time() - worked))
        self._arm(loop)


def main() -> None:
    watch = Watch(Path(sys.argv[1]))
    run: Any = events.Handle._run  # pyright: ignore[reportPrivateUsage]

    def timed(handle: Any) -> None:
        callback, begun = handle._callback, time.thread_time()
        run(handle)
        watch.note(time.thread_time() - begun, callback)
        watch.begin(handle._loop)

    events.Handle._run = timed  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
    signal.signal(signal.SIGUSR1, watch.write)
    sys.argv = ["wicket", *sys.argv[2:]]
    runpy.run_module("wicket_mcp", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
