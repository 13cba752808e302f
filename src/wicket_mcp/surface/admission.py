"""Decides which requests this process works on now. Load beyond what it can handle is rejected at once, at little cost.

The limit on concurrent requests follows the lag of the event loop. While the loop keeps up there is no limit: a
thousand calls that wait for slow servers cost nothing. While the loop is late the limit shrinks to what it can handle,
and it grows again once the loop is on time. While memory is short, only a few requests run at once. Each principal also
has its own limit, which always applies. A rejected client is told when to come back. These times are spread out,
because rejecting a request also costs something, though less than answering it.
"""

import time
from collections import Counter
from collections.abc import Callable

from wicket_mcp.surface.intake import Returns
from wicket_mcp.telemetry.loop_lag import LoopLag

LATE = 0.08
"""Seconds of lag at which the loop counts as late."""
LEAST = 256
"""Concurrent requests that are admitted however late the loop is. Some of them wait for servers, so a lower limit would
leave the loop idle.
"""
MEMORY_SHORT = 0.95
"""The share of memory in use above which only a few requests are admitted."""
FEW = 4
MOST_PER_PRINCIPAL = 2000
_SHRINK, _GROW = 0.5, 1.2
RETURNING = 0.1
"""How many rejected requests may come back per second, as a share of the requests answered per second."""


class Admission:
    """See the module's docstring."""

    def __init__(
        self, lag: LoopLag, *, most_per_principal: int | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._lag = lag
        self._most_per_principal = MOST_PER_PRINCIPAL if most_per_principal is None else most_per_principal
        self._ticks = lag.ticks
        self._limit: float | None = None
        self._running: Counter[str] = Counter()
        self._total = 0
        self._clock = clock
        self._adjusted_at = clock()
        self._left = 0
        self._returns = Returns(RETURNING)
        self.rejected = 0

    def __repr__(self) -> str:
        limit = "" if self._limit is None else f" of {self._limit:.0f}"
        return f"<Admission {self._total}{limit} at work, {self.rejected} rejected>"

    def enter(self, principal: str) -> int:
        """0 when the request is admitted (it must then `leave` once), else the seconds after which to try again."""
        if self._ticks != self._lag.ticks:
            self._adjust()
        limit = self._limit
        if (limit is not None and self._total >= limit) or self._running[principal] >= self._most_per_principal:
            self.rejected += 1
            return self._returns.wait(self._clock())
        self._total += 1
        self._running[principal] += 1
        return 0

    def leave(self, principal: str) -> None:
        self._total -= 1
        self._left += 1
        self._running[principal] -= 1
        if not self._running[principal]:
            del self._running[principal]

    def _adjust(self) -> None:
        """Called once for each measurement of the loop."""
        self._ticks = self._lag.ticks
        if self._lag.memory > MEMORY_SHORT:
            self._limit = FEW
        elif self._lag.latest > LATE:
            self._limit = max(LEAST, self._total * _SHRINK)
        elif self._limit is not None:
            self._limit *= _GROW
            if self._limit > self._total * 4 + 4 * LEAST:
                self._limit = None
        now = self._clock()
        answered = self._left / max(now - self._adjusted_at, 0.01)
        self._adjusted_at, self._left = now, 0
        self._returns.follow(answered)
