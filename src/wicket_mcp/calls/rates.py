"""How often each server may be called: a bucket that holds a minute's calls and fills steadily.

Decides at once and never waits: who is over the limit is told when to come again.
"""

import time
from collections.abc import Callable

from wicket_mcp.config.model.config import ServerConfig
from wicket_mcp.errors import RateLimited


class Rates:
    """One bucket for each server that has a limit. `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}
        """Calls left, and when that was so."""

    def admit(self, server: ServerConfig) -> None:
        """Take one call. Raises RateLimited."""
        most = server.calls_per_minute
        if not most:
            return
        now = self._clock()
        left, at = self._buckets.get(server.name, (float(most), now))
        left = min(float(most), left + (now - at) * most / 60)
        if left < 1:
            self._buckets[server.name] = (left, now)
            raise RateLimited(
                f"Server '{server.name}' takes {most} calls a minute.", retry_after=(1 - left) * 60 / most
            )
        self._buckets[server.name] = (left - 1, now)
