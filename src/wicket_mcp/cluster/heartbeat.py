"""Keeps a member in touch with the engine that holds its locks: looks at it twice a second, and connects again.

Tells when the engine is away (`on_away`), when we cannot be sure of our locks any more (`on_lost`), and when a new
connection is open, on which they must be taken again (`on_back`). Knows no engine: `Line` is one's connection.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from wicket_mcp.cluster.claims import ClaimsAway
from wicket_mcp.cluster.lease import Lease
from wicket_mcp.cluster.members import AWAY
from wicket_mcp.tasks import Tasks

log = logging.getLogger(__name__)

LOOK_EVERY = 0.5
AWAY_AFTER = 1.5
"""Seconds without an answer after which the engine counts as away."""
TRY_AGAIN = 0.3


class Line(Protocol):
    """The connection to an engine. Its coroutines raise ClaimsAway."""

    @property
    def is_open(self) -> bool: ...

    async def connect(self) -> None: ...

    async def ask(self) -> None:
        """Ask who the members are."""
        ...

    def hang_up(self) -> None:
        """End the connection, and all locks with it, at once."""
        ...


class Heartbeat:
    """See the module's docstring. Belongs to an event loop."""

    def __init__(self, line: Line) -> None:
        self.problem = "not joined yet"
        """Why we are no member at the moment; empty if we are."""
        self.on_away: list[Callable[[], None]] = []
        self.on_lost: list[Callable[[], None]] = []
        self.on_back: list[Callable[[], None]] = []
        self._line = line
        self._loop = asyncio.get_running_loop()
        self._lease = Lease(self._lose)
        self._late: asyncio.TimerHandle | None = None
        self._reason = ""
        """Why the last attempt failed."""
        self._tasks = Tasks()

    @property
    def certain(self) -> bool:
        return self._lease.valid

    def trust(self, asked_at: float) -> None:
        """See `ClaimingMembers`."""
        if self._lease.valid:
            self._lease.renew(asked_at)

    async def start(self) -> None:
        """Raises ClaimsAway if the first look fails."""
        await self._line.connect()
        await self._look()
        self._tasks.start(self._go_on(), "stay a replica")

    async def close(self) -> None:
        await self._tasks.close()
        self._lease.cancel()
        if self._late is not None:
            self._late.cancel()

    async def _go_on(self) -> None:
        while True:
            try:
                if not self._line.is_open:
                    await self._line.connect()
                    _tell(self.on_back)
                await self._look()
                await asyncio.sleep(LOOK_EVERY)
            except ClaimsAway as problem:
                self._reason = str(problem)
                self._line.hang_up()
                await asyncio.sleep(TRY_AGAIN)

    async def _look(self) -> None:
        """From then on, what we own is ours for another while."""
        asked_at = self._loop.time()
        await self._line.ask()
        self.problem = self._reason = ""
        self._lease.renew(asked_at)
        if self._late is not None:
            self._late.cancel()
        self._late = self._loop.call_later(AWAY_AFTER, self._be_away)

    def _be_away(self) -> None:
        self.problem = f"{AWAY}: {self._reason or 'it does not answer'}"
        log.warning("this replica cannot reach the database: %s", self._reason or "it does not answer")
        _tell(self.on_away)

    def _lose(self) -> None:
        """Let others have at once what we owned."""
        self._line.hang_up()
        _tell(self.on_lost)


def _tell(listeners: list[Callable[[], None]]) -> None:
    for hear in listeners:
        hear()
