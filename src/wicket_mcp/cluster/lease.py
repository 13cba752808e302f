"""How long what we own is certainly ours: as long as we have seen recently that we still hold our locks.

Whoever wants to act on what it owns asks `valid` first. A process that stood still (stopped, or on a machine that was)
may find its lease over before it has noticed anything else: others may own by then what it owned. The length is counted
from before the question whose answer confirmed the locks, so that those who see in the engine when we last asked know
when our lease is over. Reads the loop's clock only. Belongs to the members (`store/postgres/members.py`).
"""

import asyncio
from collections.abc import Callable

LEASE = 4.0
"""Seconds."""
MARGIN = 1.0
"""Seconds more after which others may act: the two clocks run at slightly different speeds."""


class Lease:
    """See the module's docstring. Belongs to an event loop."""

    def __init__(self, on_over: Callable[[], None]) -> None:
        """`on_over` is called once each time that the lease ends."""
        self._on_over = on_over
        self._loop = asyncio.get_running_loop()
        self._until = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<Lease {self._until - self._loop.time():.1f} s left>"

    @property
    def valid(self) -> bool:
        """Whether it goes on; if it does not, `on_over` has been called."""
        if self._timer is not None and self._loop.time() >= self._until:
            self._end()
        return self._timer is not None

    def renew(self, asked_at: float) -> None:
        """At `asked_at`, by the loop's clock, or later, we still held our locks."""
        self._until = max(self._until, asked_at + LEASE)
        if self._loop.time() < self._until:
            self.cancel()
            self._timer = self._loop.call_at(self._until, self._end)

    def cancel(self) -> None:
        """End without a word."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self) -> None:
        self.cancel()
        self._on_over()
