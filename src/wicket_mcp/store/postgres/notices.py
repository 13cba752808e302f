"""Notifications of changes by other replicas, for the areas that replicas cache in memory (`store/sql/changes.py`).

Every change notifies the channel with its area and number. Missed notifications are found by reading the table every
few seconds. While the database is unreachable the last known
versions stay valid for `GRACE` seconds, so that a restart costs no request; after that they are unknown.
"""

import asyncio
import logging
import time
from contextlib import aclosing

import psycopg

from wicket_mcp.store.postgres.session import PostgresDatabase, connection_text
from wicket_mcp.store.sql.changes import NUMBERS, Changes, count_change, number_of

log = logging.getLogger(__name__)

LOOK_EVERY = 3.0
GRACE = 15.0
TRY_AGAIN = 0.5


class Notices:
    """Belongs to an event loop; `tell` may be called by any thread."""

    def __init__(self, dsn: str, channel: str) -> None:
        self.channel = channel
        self.ready = asyncio.Event()
        """Set once changes are received."""
        self.changes = Changes()
        self.problem = ""
        """Why changes cannot be heard of at the moment."""
        self._text = connection_text(dsn)
        self._generation = 0
        """How many times the connection was opened again."""
        self._heard_at = time.monotonic()

    def version(self, *areas: str) -> int | None:
        if time.monotonic() - self._heard_at > GRACE:
            return None
        return (self._generation << 40) + self.changes.number(areas)

    def tell(self, db: PostgresDatabase, area: str) -> int:
        """Announce, as the beginning of a transaction, that an area changes; the number of the change, 0 if nobody
        watches it.
        """
        if not count_change(db, area):
            return 0
        number = number_of(db, area)
        db.execute("SELECT pg_notify(?, ?)", (self.channel, f"{area} {number}"))
        return number

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
            rows = await (await connection.execute(NUMBERS.encode())).fetchall()
            self._heard_at, self.problem = time.monotonic(), ""
            for area, number in rows:
                self.changes.publish(str(area), int(str(number)))
            self.ready.set()
            async with aclosing(connection.notifies(timeout=LOOK_EVERY)) as notices:
                async for notice in notices:
                    self._heard_at = time.monotonic()
                    area, _, number = notice.payload.partition(" ")
                    self.changes.publish(area, int(number))
