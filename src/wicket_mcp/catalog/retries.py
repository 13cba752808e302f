"""Servers whose listing failed are listed again later, by themselves: a few times, with growing pauses."""

import asyncio
from collections.abc import Callable

RETRY_AFTER = 2.0  # seconds until a failed listing is first tried again
LISTING_RETRIES = 2


class Retries:
    def __init__(self, schedule: Callable[[str], None]) -> None:
        self._schedule = schedule
        self._made: dict[str, tuple[int, asyncio.TimerHandle]] = {}
        """How many retries a server has had, and when the next one is."""

    def try_again(self, server: str) -> None:
        tries, timer = self._made.get(server, (0, None))
        if timer is not None:
            timer.cancel()
        if tries < LISTING_RETRIES:
            loop = asyncio.get_running_loop()
            self._made[server] = tries + 1, loop.call_later(RETRY_AFTER * 4**tries, self._schedule, server)

    def forget(self, server: str) -> None:
        _, timer = self._made.pop(server, (0, None))
        if timer is not None:
            timer.cancel()

    def close(self) -> None:
        for _, timer in self._made.values():
            timer.cancel()
