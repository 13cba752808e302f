"""How many requests begin in one turn of the event loop, and what becomes of the others.

Were all of a thousand requests at work at once, each would cost more than it does among a few: their memory does not
fit the processor's caches, and the garbage collector looks through all of it. So they begin a few at a time, in the
order in which they came. What waits is neither parsed nor authenticated; who would have to wait long is turned away at
once. Asked by `http_connection.py` with the first bytes of a request, where a crowd is at work already.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sized
from typing import Protocol

STARTS = 64
"""Requests that begin in one turn of the loop, and requests at work beyond which fewer begin than have ended."""
FEWEST_STARTS = 4
"""Requests that begin in a turn however many are at work: those may all wait for their servers, and turns be short."""
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
    """See the module's docstring. `at_work` holds the requests that have begun and not ended."""

    def __init__(
        self,
        at_work: Sized,
        starts: int = STARTS,
        fewest_waiting: int = FEWEST_WAITING,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._at_work, self._starts, self._clock = at_work, starts, clock
        self.crowd = starts // 2
        """While fewer are at work, a request may begin without being asked about."""
        self._left = starts
        """How many more may begin in this turn."""
        self._before = 0
        """How many were at work when this turn had begun its share."""
        self._loop: asyncio.AbstractEventLoop | None = None
        """Where the next turn is scheduled; None while none is."""
        self._waiting: deque[tuple[Waiting, bytes]] = deque()
        self._fewest_waiting = self.most_waiting = fewest_waiting
        """How many may wait: by what was begun lately, as many as begin in `LONGEST_WAIT`."""
        self._measured = clock(), 0
        """Since when it is counted how many begin, and how many those are."""
        self.rejected = 0

    def __repr__(self) -> str:
        return f"<Intake {len(self._at_work)} at work, {len(self._waiting)} waiting, {self.rejected} rejected>"

    def admit(self, connection: Waiting, data: bytes) -> bool:
        """Whether the request that begins with `data` may begin now; else its connection is called when it may."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._loop.call_soon(self._turn)
        if self._left > 0 and not self._waiting:
            self._left -= 1
            return True
        if len(self._waiting) < self.most_waiting:
            self._waiting.append((connection, data))
        else:
            self.rejected += 1
            connection.turn_away(2 + self.rejected % 8)  # not all of them at once
        return False

    def _turn(self) -> None:
        at_work = len(self._at_work)
        ended = self._before - at_work
        room = self._starts - at_work
        self._left = room if room > FEWEST_STARTS else min(self._starts, max(FEWEST_STARTS, ended // 2))
        if not self._waiting or self._loop is None:
            self._loop, self._before = None, at_work
            return
        self._loop.call_soon(self._turn)
        begun = 0
        while self._waiting and self._left > 0:
            connection, data = self._waiting.popleft()
            self._left -= 1
            begun += 1
            connection.begin(data)
        self._before = len(self._at_work)
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
