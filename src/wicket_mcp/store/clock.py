"""The time by which stored data is old: a wall clock that jumps forward by mistake must not delete it.

`steady_time` follows the wall clock, but a jump forward counts only once it has lasted for a day: until then time goes
on as it went before. Whoever decides whether something is still valid (a key, a token) asks the wall clock.
"""

import time
from collections.abc import Callable

SLACK = 60.0  # seconds by which the wall clock may gain between two readings: it is corrected all the time
TRUSTED_AFTER = 86400.0  # seconds after which a clock that jumped is right: the one before was wrong


def _uptime() -> float:
    """Seconds that no one can set, with the time that the machine slept where the system counts it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class SteadyClock:
    """See the module's docstring."""

    def __init__(self, wall: Callable[[], float] = time.time, uptime: Callable[[], float] = _uptime) -> None:
        self._wall, self._uptime = wall, uptime
        self._start = wall() - uptime()
        """The wall clock's time at uptime 0, as far as we trust it."""
        self._jumped_at: float | None = None
        """The uptime at which the wall clock was first seen to be too far ahead."""

    def __call__(self) -> float:
        wall, uptime = self._wall(), self._uptime()
        if wall > self._start + uptime + SLACK:
            self._jumped_at = uptime if self._jumped_at is None else self._jumped_at
            if uptime < self._jumped_at + TRUSTED_AFTER:
                return self._start + uptime
        self._start, self._jumped_at = wall - uptime, None
        return wall


steady_time = SteadyClock()
"""The one clock of this process."""
