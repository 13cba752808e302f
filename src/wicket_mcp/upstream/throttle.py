"""Limits how many unsolicited messages or bytes a server may send: a token bucket that says when to read on.

Answers do not count, because we asked for them. Empty lines and what is no message do, because they cost as much. A
server that sends more is read more slowly, so that its pipe or socket fills and it must wait; one that continues for a
minute is disconnected. Knows no transport and no clock.
"""

RATE = 2_000.0  # messages per second, which costs us a few percent of a CPU
BURST = 2_000.0
CUT_AFTER = 60.0  # seconds of uninterrupted throttling

FLOODS = "Server '{}' floods Wicket with messages that nobody asked for."
SLOWED = "server '%s' sends more messages than it is asked for; it is read more slowly"


SAID_A_MINUTE = 60
"""Log messages per minute, not tied to a call, that a server may pass on to the gateway's owner."""


class Throttle:
    """The bucket of one connection, for messages unless told otherwise."""

    def __init__(self, now: float, rate: float = 0.0, burst: float = 0.0) -> None:
        self._rate, self._burst = rate or RATE, burst or BURST
        self._left = self._burst
        self._at = now
        self._slowed_at: float | None = None

    def spend(self, count: int, now: float) -> float:
        """Account for what was read; returns the seconds to wait before reading on."""
        self._left = min(self._burst, self._left + (now - self._at) * self._rate) - count
        self._at = now
        if self._left >= self._burst / 2:
            self._slowed_at = None
        elif self._left < 0 and self._slowed_at is None:
            self._slowed_at = now
        return max(0.0, -self._left / self._rate)

    @property
    def slowed(self) -> bool:
        return self._slowed_at is not None

    @property
    def exceeded(self) -> bool:
        """Whether the limit was exceeded for too long."""
        return self._slowed_at is not None and self._at - self._slowed_at > CUT_AFTER


class Quota:
    """A fixed number per minute; the rest is dropped."""

    def __init__(self, most: int = SAID_A_MINUTE) -> None:
        self._most = most
        self._since = float("-inf")
        self.count = 0
        """How many there were in the current minute."""

    def take(self, now: float) -> bool:
        """Whether one more is within the quota."""
        if now - self._since >= 60:
            self._since, self.count = now, 0
        self.count += 1
        return self.count <= self._most
