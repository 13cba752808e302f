"""How many requests begin in one turn of the event loop, and what becomes of the others.

Requests that come all at once begin a few in each turn, in the order in which they came, so that a turn stays short and
answers go out in between. What waits is neither parsed nor authenticated; who would have to wait long is turned away at
once. Asked by `http_connection.py` with the first bytes of a request, where a crowd is at work already.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

STARTS = 64
"""Requests that begin in one turn of the loop."""
LONGEST_WAIT = 2.0
"""Seconds for which requests may wait until they begin; who would have to wait longer is turned away, unread."""
FEWEST_WAITING = 256
_MEASURED_FOR = 0.25  # seconds over which it is counted how many begin


class Waiting(Protocol):
    """A connection whose request has not begun."""

    def begin(self, data: bytes) -> None:
        """Take the first bytes of the request."""
        ...

    def turn_away(self, seconds: int) -> None:
        """Tell the client to come back later."""
        ...


class Intake:
    """See the module's docstring."""

    def __init__(
        self, starts: int = STARTS, fewest_waiting: int = FEWEST_WAITING, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._starts, self._clock = starts, clock
        self.crowd = starts // 2
        """While fewer are at work, a request may begin without being asked about."""
        self._left = starts
        """How many more may begin in this turn."""
        self._loop: asyncio.AbstractEventLoop | None = None
        """Where the next turn is scheduled; None while none is."""
        self._waiting: deque[tuple[Waiting, bytes]] = deque()
        self._fewest_waiting = self.most_waiting = fewest_waiting
        """How many may wait: by what was begun lately, as many as begin in `LONGEST_WAIT`."""
        self._measured = clock(), 0
        """Since when it is counted how many begin, and how many those are."""
        self.rejected = 0

    def __repr__(self) -> str:
        return f"<Intake {len(self._waiting)} waiting, {self.rejected} rejected>"

    def admit(self, connection: Waiting, data: bytes) -> bool:
        """Whether the request that begins with `data` may begin now; else its connection is called when it may."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._loop.call_soon(self._turn)
        if self._left and not self._waiting:
            self._left -= 1
            return True
        if len(self._waiting) < self.most_waiting:
            self._waiting.append((connection, data))
        else:
            self.rejected += 1
            connection.turn_away(2 + self.rejected % 8)  # not all of them at once
        return False

    def _turn(self) -> None:
        self._left = self._starts
        if not self._waiting or self._loop is None:
            self._loop = None
            return
        self._loop.call_soon(self._turn)
        begun = 0
        while self._waiting and self._left:
            connection, data = self._waiting.popleft()
            self._left -= 1
            begun += 1
            connection.begin(data)
        self._measure(begun)

    def _measure(self, begun: int) -> None:
        since, count = self._measured
        count += begun
        passed = self._clock() - since
        if passed >= _MEASURED_FOR:
            if passed < 2 * _MEASURED_FOR:  # else nobody had to wait for a while, which says nothing
                lately = int(LONGEST_WAIT * count / passed)
                self.most_waiting = max(self._fewest_waiting, (self.most_waiting + lately) // 2)
            since, count = self._clock(), 0
        self._measured = since, count
