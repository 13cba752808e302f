"""How many messages of its own a server may send: a token bucket that says when to read on.

Answers are not counted, for we asked for them. A server that sends more is read more slowly, so that its pipe or socket
fills and it has to wait itself; one that goes on for a minute is to be cut. Knows no transport and no clock.
"""

RATE = 2_000.0  # messages a second, which costs us some hundredths of a processor
BURST = 10_000.0
CUT_AFTER = 60.0  # seconds of being slowed without a break

FLOODS = "Server '{}' floods Wicket with messages that nobody asked for."
SLOWED = "server '%s' sends more messages than it is asked for; it is read more slowly"


SAID_A_MINUTE = 60
"""Log messages of a server, of nobody's call, that are passed on to the owner."""


class Throttle:
    """The account of one connection."""

    def __init__(self, now: float) -> None:
        self._left = BURST
        self._at = now
        self._slowed_at: float | None = None

    def spend(self, messages: int, now: float) -> float:
        """Account for messages that were read; the seconds to wait before reading on."""
        self._left = min(BURST, self._left + (now - self._at) * RATE) - messages
        self._at = now
        if self._left >= BURST / 2:
            self._slowed_at = None
        elif self._left < 0 and self._slowed_at is None:
            self._slowed_at = now
        return max(0.0, -self._left / RATE)

    @property
    def slowed(self) -> bool:
        return self._slowed_at is not None

    @property
    def exceeded(self) -> bool:
        """Whether it has been too much for too long."""
        return self._slowed_at is not None and self._at - self._slowed_at > CUT_AFTER


class Quota:
    """So many in a minute; the others do not count."""

    def __init__(self, most: int = SAID_A_MINUTE) -> None:
        self._most = most
        self._since = float("-inf")
        self.count = 0
        """How many there were in this minute."""

    def take(self, now: float) -> bool:
        """Whether one more is within it."""
        if now - self._since >= 60:
            self._since, self.count = now, 0
        self.count += 1
        return self.count <= self._most
