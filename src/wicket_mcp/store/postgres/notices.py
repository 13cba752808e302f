"""Notifications of changes by other replicas: the versions of the areas that replicas cache in memory.

The number of an area's last change is in the table `wicket_change`, and every change notifies the channel. Missed
notifications are found by reading the table every few seconds. While the database is unreachable the last known
versions stay valid for `GRACE` seconds, so that a restart costs no request; after that they are unknown.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import aclosing

import psycopg

from wicket_mcp.store.postgres.session import PostgresDatabase, connection_text

log = logging.getLogger(__name__)

LOOK_EVERY = 3.0
GRACE = 15.0
TRY_AGAIN = 0.5
WATCHED = frozenset({"api_key", "listing", "managed_server", "pin", "standing_approval"})
"""The areas that are cached in memory."""


class Notices:
    """Belongs to an event loop; `note` may be called by any thread."""

    def __init__(self, dsn: str, channel: str) -> None:
        self.channel = channel
        self.ready = asyncio.Event()
        """Set once changes are received."""
        self.listeners: list[Callable[[str], None]] = []
        """Called with the area of each change, on the event loop."""
        self.problem = ""
        """Why changes cannot be heard of at the moment."""
        self._text = connection_text(dsn)
        self._numbers: dict[str, int] = {}
        self._generation = 0
        """How many times the connection was opened again."""
        self._heard_at = time.monotonic()

    def version(self, area: str) -> int | None:
        if time.monotonic() - self._heard_at > GRACE:
            return None
        return (self._generation << 40) + self._numbers.get(area, 0)

    def tell(self, db: PostgresDatabase, area: str) -> int:
        """Announce, as part of a transaction, that an area changes; returns the number of the change."""
        text = """INSERT INTO wicket_change VALUES (?, 1)
                  ON CONFLICT (area) DO UPDATE SET number = wicket_change.number + 1 RETURNING number"""
        (number,) = db.execute(text, (area,)).fetchone()
        db.execute("SELECT pg_notify(?, ?)", (self.channel, f"{area} {number}"))
        return number

    def note(self, area: str, number: int) -> bool:
        """Whether this change was not known yet."""
        if number <= self._numbers.get(area, 0):
            return False
        self._numbers[area] = number
        return True

    async def listen(self) -> None:
        """Listen for changes until cancelled, reconnecting as often as needed."""
        while True:
            try:
                async with await psycopg.AsyncConnection.connect(self._text, autocommit=True) as connection:
                    await self._hear(connection)
            except psycopg.Error as problem:
                text = str(problem).strip()
                if text != self.problem:
                    log.warning("changes in PostgreSQL cannot be heard of, it is tried again: %s", text)
                self.problem = text
                await asyncio.sleep(TRY_AGAIN)

    async def _hear(self, connection: "psycopg.AsyncConnection[tuple[object, ...]]") -> None:
        await connection.execute(f'LISTEN "{self.channel}"'.encode())
        self._generation += 1
        while True:
            rows = await (await connection.execute("SELECT area, number FROM wicket_change")).fetchall()
            self._heard_at, self.problem = time.monotonic(), ""
            for area, number in rows:
                self._publish(str(area), int(str(number)))
            self.ready.set()
            async with aclosing(connection.notifies(timeout=LOOK_EVERY)) as notices:
                async for notice in notices:
                    self._heard_at = time.monotonic()
                    area, _, number = notice.payload.partition(" ")
                    self._publish(area, int(number))

    def _publish(self, area: str, number: int) -> None:
        if self.note(area, number):
            for listener in self.listeners:
                listener(area)
