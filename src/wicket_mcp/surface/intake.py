"""How many requests start in one turn of the event loop, and what happens to the others.

When many requests arrive at once, a few start in each turn, in the order of arrival, so that turns stay short and
answers go out in between. Waiting requests are neither parsed nor authenticated; those that would wait too long are
rejected at once. Called by `http_connection.py` with the first bytes of a request when many requests are already
running.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

STARTS = 64
"""Requests that start in one turn of the loop."""
LONGEST_WAIT = 2.0
"""The longest time in seconds that a request may wait to start. One that would wait longer is rejected, unread."""
FEWEST_WAITING = 256
_MEASURED_FOR = 0.25  # seconds over which starts are counted


class Waiting(Protocol):
    """A connection whose request has not started."""

    def begin(self, data: bytes) -> None:
        """Process the first bytes of the request."""
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
        """While fewer requests are running, a request may start without calling `admit`."""
        self._left = starts
        """How many more may start in this turn."""
        self._loop: asyncio.AbstractEventLoop | None = None
        """The loop in which the next turn is scheduled; None while none is."""
        self._waiting: deque[tuple[Waiting, bytes]] = deque()
        self._fewest_waiting = self.most_waiting = fewest_waiting
        """How many may wait: as many as start within `LONGEST_WAIT` at the recent rate."""
        self._measured = clock(), 0
        """When counting began, and how many have started since."""
        self.rejected = 0

    def __repr__(self) -> str:
        return f"<Intake {len(self._waiting)} waiting, {self.rejected} rejected>"

    def admit(self, connection: Waiting, data: bytes) -> bool:
        """Whether the request that begins with `data` may start now; if not, its connection is called later."""
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
            connection.turn_away(2 + self.rejected % 8)  # spread out their return
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
            if passed < 2 * _MEASURED_FOR:  # otherwise no request had to wait for a while, so the count means nothing
                lately = int(LONGEST_WAIT * count / passed)
                self.most_waiting = max(self._fewest_waiting, (self.most_waiting + lately) // 2)
            since, count = self._clock(), 0
        self._measured = since, count
