"""When a server is listed again by itself: soon, but not too often, however often it reports changes."""

import asyncio
from collections import deque
from collections.abc import Callable

RENEW_EVERY = 2.5  # seconds between two listings of one server, however often it reports changes
RENEW_BURST = 4  # but the first few changes are followed at once


class Pace:
    """The next listing of each server. `start` is called with a server when its time has come."""

    def __init__(self, start: Callable[[str], object]) -> None:
        self._start = start
        self._scheduled: dict[str, asyncio.TimerHandle] = {}
        self._started: dict[str, deque[float]] = {}

    def schedule(self, server: str, after: float = 0.0) -> None:
        """Start soon, or `after` these seconds: at once if it was not started often lately, and only once however often
        this is called.
        """
        loop = asyncio.get_running_loop()
        recent = self._started.setdefault(server, deque(maxlen=RENEW_BURST))
        due = recent[0] + RENEW_EVERY * RENEW_BURST if len(recent) == RENEW_BURST else loop.time()
        due = max(due, loop.time() + after)
        if (timer := self._scheduled.get(server)) is not None:
            if timer.when() <= due:
                return
            timer.cancel()
        self._scheduled[server] = loop.call_at(due, self._come_due, server)

    def _come_due(self, server: str) -> None:
        del self._scheduled[server]
        self._started[server].append(asyncio.get_running_loop().time())
        self._start(server)

    def cancel(self, server: str) -> None:
        if timer := self._scheduled.pop(server, None):
            timer.cancel()

    def close(self) -> None:
        for timer in self._scheduled.values():
            timer.cancel()
