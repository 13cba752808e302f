"""How many requests start in one turn of the event loop, and what happens to the others.

When many requests arrive at once, a few start in each turn, in the order of arrival, so that turns stay short and
answers go out in between. Once many are running, another one starts when one has ended: a waiting request is a few
bytes, but a running one is many objects, which are no longer in the processor's cache when its answer comes. While the
loop has time, more may run, because they wait for their servers. Waiting requests are neither parsed nor authenticated.
A burst may wait for some time; if the waiting lasts, the load is more than can be served, and only few may wait until
none had to for a moment, or until the clients that were told to come back are so few that they can be served too.
Called by `http_connection.py` with the first bytes of a request when many requests are already running.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sized
from typing import Protocol

STARTS = 16
"""Requests that start in one turn of the loop."""
MANY = 64
"""Running requests from which on another one starts when one has ended."""
LONGEST_WAIT = 2.0
"""The longest time in seconds that a request of a burst may wait to start. One that would wait longer is rejected."""
LASTING_WAIT = 0.03
"""Once requests have waited longer than this for `LASTING` seconds, the load is more than can be served."""
LASTING = 1.0
OVERLOADED_WAIT = 0.004
"""The longest wait from then on. The fewer clients take turns, the more of what is kept for them is still in the
processor's cache when their turn comes.
"""
FEWEST_WAITING = 128
MORE_AFTER, MORE = 0.002, 8
"""The seconds after which more may run if none has ended, and how many more if the loop has time; otherwise one."""
RETURNING = 0.02
"""How many rejected requests may come back per second, as a share of the requests that start per second."""
_ON_TIME = 0.001  # seconds by which a timer may be late in a loop that has time
_MEASURED_FOR = 0.25  # seconds over which starts are counted
CALM = 2 * _MEASURED_FOR  # seconds in which no request had to wait
_FEWEST_RETURNING = 20.0
_LONGEST_RETURN = 30


class Returns:
    """Spreads the return of rejected clients, because rejecting them again costs something too."""

    def __init__(self, share: float = RETURNING) -> None:
        self._share = share
        self._per_second = _FEWEST_RETURNING
        self._next = 0.0

    def follow(self, served: float) -> None:
        """So many requests are served per second at the moment."""
        self._per_second = max(_FEWEST_RETURNING, (self._per_second + self._share * served) / 2)

    def count_away(self, now: float) -> float:
        """About how many clients were told to come back and have not come yet."""
        return max(0.0, self._next - now) * self._per_second

    def wait(self, now: float) -> int:
        """The seconds after which one more client may come back."""
        self._next = max(self._next, now + 1) + 1 / self._per_second
        wait = min(_LONGEST_RETURN, int(self._next - now))
        if wait == _LONGEST_RETURN:  # later clients share the last second
            self._next = now + _LONGEST_RETURN
        return wait


class Waiting(Protocol):
    """A connection whose request has not started."""

    def begin(self, data: bytes) -> None:
        """Process the first bytes of the request."""
        ...

    def turn_away(self, data: bytes, seconds: int) -> None:
        """Tell the client, which sent `data`, to come back later."""
        ...


class Intake:
    """See the module's docstring."""

    def __init__(
        self,
        starts: int = STARTS,
        fewest_waiting: int = FEWEST_WAITING,
        clock: Callable[[], float] = time.monotonic,
        many: int = MANY,
        more_after: float = MORE_AFTER,
    ) -> None:
        self._starts, self._clock, self._many, self._more_after = starts, clock, many, more_after
        self.crowd = min(starts, many) // 2
        """While fewer requests are running, a request may start without calling `admit`."""
        self._running: Sized = ()
        self._level = many
        """How many may run: as many as after the last turn, if those are many."""
        self._left = starts
        """How many more may start in this turn."""
        self._loop: asyncio.AbstractEventLoop | None = None
        """The loop in which the next turn is scheduled; None while none is."""
        self.paused = False
        """Whether no more may start until a request has ended (see `resume`), or the loop proves to have time."""
        self._pause: asyncio.TimerHandle | None = None
        self._waiting: deque[tuple[Waiting, bytes, float]] = deque()
        self._now = 0.0
        """When the last turn was."""
        self._short_at = 0.0
        """When the wait was last short."""
        self._lasting = False
        """Whether the wait has been long for a while, and some have waited ever since."""
        self._rate = 0.0
        """Requests that started in a second lately."""
        self._fewest_waiting = self.most_waiting = fewest_waiting
        """How many may wait: as many as start within the longest wait at the recent rate."""
        self._measured = clock(), 0
        """When counting began, and how many have started since."""
        self._returns = Returns()
        self.rejected = 0

    def __repr__(self) -> str:
        return f"<Intake {len(self._waiting)} waiting, {self.rejected} rejected>"

    def follow(self, running: Sized) -> None:
        """Start requests by how many of them are running."""
        self._running = running

    def admit(self, connection: Waiting, data: bytes) -> bool:
        """Whether the request that begins with `data` may start now; if not, its connection is called later."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._loop.call_soon(self._turn)
            self._now = self._short_at = self._clock()
            if self._lasting and self._now - self._measured[0] > CALM:
                self._lasting = False
                self._bound_waiting()
        if self._left and not self._waiting:
            self._left -= 1
            return True
        if len(self._waiting) < self.most_waiting:
            self._waiting.append((connection, data, self._now))
        else:
            self.rejected += 1
            connection.turn_away(data, self._returns.wait(self._now))
        return False

    def resume(self) -> None:
        """A request has ended: another one may start."""
        if self._pause is not None and self._loop is not None:
            self._pause.cancel()
            self._pause, self.paused = None, False
            self._loop.call_soon(self._turn)

    def _turn(self, more: int = 0) -> None:
        self._left = self._starts
        if not self._waiting or self._loop is None:
            self._loop = None
            return
        now = self._now = self._clock()
        if now - self._waiting[0][2] < LASTING_WAIT:
            self._short_at = now
        room = min(self._starts, self._level - len(self._running) + more)
        begun = 0
        while self._waiting and begun < room:
            connection, data, _ = self._waiting.popleft()
            begun += 1
            connection.begin(data)
        self._left -= begun
        self._level = max(self._many, len(self._running))
        self._measure(begun, now)
        if room > 0:
            self._loop.call_soon(self._turn)
        else:
            due = self._loop.time() + self._more_after
            self._pause, self.paused = self._loop.call_at(due, self._allow_more, due), True

    def _allow_more(self, due: float) -> None:
        self._pause, self.paused = None, False
        if self._loop is not None:
            self._turn(MORE if self._loop.time() - due < _ON_TIME else 1)

    def _measure(self, begun: int, now: float) -> None:
        since, count = self._measured
        count += begun
        passed = now - since
        if passed >= _MEASURED_FOR:
            if passed < CALM:  # otherwise no request had to wait for a while, so the count means nothing
                self._rate = (self._rate + count / passed) / 2
                self._lasting = self._is_too_much(now)
                self._bound_waiting()
                self._returns.follow(self._rate)
            since, count = now, 0
        self._measured = since, count

    def _is_too_much(self, now: float) -> bool:
        if not self._lasting:
            return now - self._short_at > LASTING
        # Everybody could wait for a short time only.
        self._short_at = now
        return self._returns.count_away(now) + len(self._waiting) > LASTING_WAIT * self._rate

    def _bound_waiting(self) -> None:
        longest, fewest = LONGEST_WAIT, self._fewest_waiting
        if self._lasting:
            longest, fewest = OVERLOADED_WAIT, min(fewest, 2 * self._starts)
        self.most_waiting = max(fewest, int(longest * self._rate))
