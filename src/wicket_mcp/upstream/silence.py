"""Notices that a peer which owes answers says nothing at all, and has it looked at.

A slow tool is silent too, so silence alone means nothing: `doubt` finds out whether the peer still works. Used by
`owner.py`; knows no connection.
"""

import asyncio
from collections.abc import Awaitable, Callable

from wicket_mcp.tasks import Tasks

PATIENCE = 3.0
"""Seconds of silence after which a peer that owes something is looked at."""


class Silence:
    """Counts from the last word of the peer, while `owes` says that it owes an answer."""

    def __init__(
        self, owes: Callable[[], bool], doubt: Callable[[], Awaitable[bool]], on_dead: Callable[[], None]
    ) -> None:
        """`doubt` returns whether the peer will certainly never answer; then `on_dead` is called."""
        self._owes = owes
        self._doubt = doubt
        self._on_dead = on_dead
        self._loop = asyncio.get_running_loop()
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._tasks = Tasks()

    def watch(self) -> None:
        """The peer owes something from now on."""
        if self._timer is None and not self._tasks:
            self._since = self._loop.time()
            self._timer = self._loop.call_later(PATIENCE, self._look)

    def hear(self) -> None:
        """The peer has said something."""
        self._since = self._loop.time()

    async def close(self) -> None:
        self._stop()
        await self._tasks.close()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._stop()
        left = self._since + PATIENCE - self._loop.time()
        if not self._owes():
            return
        if left > 0:
            self._timer = self._loop.call_later(left, self._look)
        else:
            self._tasks.start(self._find_out(), "ask a silent owner")

    async def _find_out(self) -> None:
        if await self._doubt():
            self._on_dead()
        else:
            self._since = self._loop.time()
            self._timer = self._loop.call_later(PATIENCE, self._look)
