"""Which replicas are running, and what each of them owns: advisory locks on connections that the replicas keep open.

Each replica holds a lock, which the engine releases when the connection ends, so that a dead replica is noticed at
once, without any clock. A row has its address. The same connection holds what the replica owns (`claim`), each time
with a higher epoch. A lost connection is opened again, and what was owned is claimed again (`on_back`). A replica that
cannot reach the database for `LOST_AFTER` seconds gives up what it owned (`on_lost`), before the server can release the
locks of a cut connection. Implements `cluster/members.py`.
"""

import asyncio
import logging
import os
import socket
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import psycopg

from wicket_mcp.cluster.claims import ClaimsAway, Holder, Taken
from wicket_mcp.cluster.members import AWAY, Member
from wicket_mcp.store.postgres.connection import advisory_lock
from wicket_mcp.store.postgres.session import connection_text
from wicket_mcp.tasks import Tasks

log = logging.getLogger(__name__)

LOOK_EVERY = 0.5
ANSWER_WITHIN = 5.0
LOST_AFTER = 5.0
TRY_AGAIN = 0.3
SKEW = 60.0  # seconds that a clock may differ before it is logged
# The server drops a cut connection after 6 + 3 × 2 seconds: later than we give up.
_KEEPALIVE = (
    "SET tcp_keepalives_idle = 6; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3; "
    "SET tcp_user_timeout = '12s'; SET statement_timeout = '10s'"
)
_IS_LIVE = """lock IN (
           SELECT (classid::bigint << 32) | objid::bigint FROM pg_locks
           WHERE locktype = 'advisory' AND granted
           AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))"""
_ROWS = f"SELECT id, address, {_IS_LIVE} AS live FROM wicket_replica"  # noqa: S608  (constants)
_FORGET = f"DELETE FROM wicket_replica WHERE id = %s AND NOT {_IS_LIVE}"  # noqa: S608


class PostgresMembers:
    """Open it with `PostgresMembers.join(...)`."""

    def __init__(self, dsn: str, me: str, locate: Callable[[str], str]) -> None:
        """`locate` turns the address at which the database sees us into our address."""
        self.me = me
        self.all: Mapping[str, Member] = {}
        self.suspects: Mapping[str, Member] = {}
        self.problem = "not joined yet"
        self.on_change: list[Callable[[], None]] = []
        self.on_lost: list[Callable[[], None]] = []
        """Called when the database was unreachable for too long: others may own by now what we owned."""
        self.on_back: list[Callable[[], None]] = []
        """Called when the connection is back: what we own must be claimed again."""
        self.clock_offset = 0.0
        """How far the database's clock is ahead of ours."""
        self.address = ""
        self._text = connection_text(dsn)
        self._locate = locate
        self._connection: psycopg.AsyncConnection[tuple[Any, ...]] | None = None
        self._schema = ""
        self._lock = asyncio.Lock()
        self._generation = 0
        self._leaving = False
        self._skewed = False
        self._tasks = Tasks()

    @classmethod
    async def join(cls, dsn: str, me: str, locate: Callable[[str], str]) -> "PostgresMembers":
        """Raises psycopg.Error."""
        members = cls(dsn, me, locate)
        await members._connect()
        await members._look()
        members.problem = ""
        members._tasks.start(members._stay(), "stay a replica")
        return members

    def clock(self) -> float:
        """The time that all replicas share: the database's."""
        return time.time() + self.clock_offset

    async def claim(self, name: str) -> Taken | None:
        """Own `name` from now on; None if another replica owns it. Raises ClaimsAway."""
        async with self._asking():
            if self._leaving:
                return None
            lock = advisory_lock(self._schema, f"owner {name}")
            (acquired,) = await self._fetch("SELECT pg_try_advisory_lock(%s)", lock)
            if not acquired:
                return None
            before = await self._fetch("SELECT replica, address FROM wicket_owner WHERE name = %s", name)
            text = """INSERT INTO wicket_owner VALUES (%s, %s, %s, 1) ON CONFLICT (name) DO UPDATE SET
                      replica = excluded.replica, address = excluded.address, epoch = wicket_owner.epoch
                      + CASE WHEN wicket_owner.replica = excluded.replica THEN 0 ELSE 1 END RETURNING epoch"""
            try:
                (epoch,) = await self._fetch(text, name, self.me, self.address)
            except psycopg.Error:  # a full disk, say: nobody may know us as the owner
                with suppress(psycopg.Error):
                    await self._fetch("SELECT pg_advisory_unlock(%s)", lock)
                raise
        earlier = Member(*before) if before and before[0] not in ("", self.me) else None
        return Taken(epoch, earlier)

    async def release(self, name: str) -> None:
        """Release `name` after stopping what it stands for: the next owner need not ask us."""
        with suppress(psycopg.Error, TimeoutError):
            async with self._lock:
                text = "UPDATE wicket_owner SET replica = '' WHERE name = %s AND replica = %s RETURNING name"
                await self._fetch(text, name, self.me)
                await self._fetch("SELECT pg_advisory_unlock(%s)", advisory_lock(self._schema, f"owner {name}"))

    async def holder(self, name: str) -> Holder | None:
        """The owner of `name` and its epoch; None if there is none. Raises ClaimsAway."""
        async with self._asking():
            row = await self._fetch("SELECT replica, address, epoch FROM wicket_owner WHERE name = %s", name)
        return Holder(Member(row[0], row[1]), row[2]) if row and row[0] else None

    async def forget(self, member: Member) -> None:
        """A suspect is dead: stop looking for it, unless it is back since we looked."""
        with suppress(psycopg.Error, TimeoutError):
            async with self._lock:
                await self._run(_FORGET, (member.id,))
        self.suspects = {number: suspect for number, suspect in self.suspects.items() if number != member.id}

    async def leave(self) -> None:
        self._leaving = True
        with suppress(psycopg.Error, TimeoutError):
            async with self._lock:
                await self._fetch("DELETE FROM wicket_replica WHERE id = %s RETURNING id", self.me)

    async def close(self) -> None:
        await self.leave()
        await self._tasks.close()
        if self._connection is not None:
            await self._connection.close()

    @asynccontextmanager
    async def _asking(self) -> AsyncGenerator[None]:
        try:
            async with self._lock:
                yield
        except (psycopg.Error, TimeoutError) as problem:
            raise ClaimsAway(f"PostgreSQL does not answer ({str(problem).strip() or 'no answer'})") from None

    async def _stay(self) -> None:
        seen = time.monotonic()
        while True:
            try:
                if self._connection is None or self._connection.closed:
                    await self._connect()
                    for hear in self.on_back:
                        hear()
                await self._look()
                seen, self.problem = time.monotonic(), ""
                await asyncio.sleep(LOOK_EVERY)
            except (psycopg.Error, TimeoutError, OSError) as problem:
                self._drop_connection()
                if time.monotonic() - seen > LOST_AFTER:
                    self._lose(str(problem).strip() or "it does not answer")
                await asyncio.sleep(TRY_AGAIN)

    def _lose(self, problem: str) -> None:
        if not self.problem:
            log.warning("this replica cannot reach PostgreSQL: %s", problem)
            self.problem = f"{AWAY}: {problem}"
            for hear in self.on_lost:
                hear()

    def _drop_connection(self) -> None:
        if self._connection is not None:
            self._connection.pgconn.finish()
            self._connection = None

    async def _connect(self) -> None:
        async with asyncio.timeout(ANSWER_WITHIN):
            self._connection = await psycopg.AsyncConnection.connect(self._text, autocommit=True)
        self._generation += 1
        async with self._lock:
            await self._run(_KEEPALIVE, ())
            self._schema, host = await self._fetch("SELECT current_schema(), host(inet_client_addr())")
            self.address = self._locate(host or "127.0.0.1")
            if self._leaving:
                return
            # A separate lock for each connection: the server may not yet have noticed the end of the last one.
            lock = advisory_lock(self._schema, f"replica {self.me} {self._generation}")
            await self._fetch("SELECT pg_advisory_lock(%s)", lock)
            text = """INSERT INTO wicket_replica VALUES (%s, %s, %s, now()) ON CONFLICT (id) DO UPDATE
                      SET address = excluded.address, lock = excluded.lock RETURNING id"""
            await self._fetch(text, self.me, self.address, lock)

    async def look(self) -> bool:
        """Check the members at once, because one did not answer or is unknown; False if that is not possible."""
        try:
            await self._look()
        except (psycopg.Error, TimeoutError):
            return False
        return True

    async def _look(self) -> None:
        async with self._lock:
            before = time.time()
            rows = await self._rows(_ROWS)
            (now,) = await self._fetch("SELECT extract(epoch FROM clock_timestamp())::float8")
            self.clock_offset = now - (before + time.time()) / 2
        self._watch_clock()
        members = {str(number): Member(str(number), str(address)) for number, address, live in rows if live}
        self.suspects = {str(number): Member(str(number), str(address)) for number, address, live in rows if not live}
        if members != self.all:
            self.all = members
            for hear in self.on_change:
                hear()

    def _watch_clock(self) -> None:
        skewed = abs(self.clock_offset) > SKEW
        if skewed and not self._skewed:
            log.warning("this machine's clock differs from the database's by %d s: correct it", self.clock_offset)
        self._skewed = skewed

    async def _fetch(self, text: str, *values: Any) -> Any:
        return await (await self._run(text, values)).fetchone()

    async def _rows(self, text: str) -> list[tuple[Any, ...]]:
        return await (await self._run(text, ())).fetchall()

    async def _run(self, text: str, values: tuple[Any, ...]) -> "psycopg.AsyncCursor[tuple[Any, ...]]":
        connection = self._connection
        if connection is None:
            raise psycopg.OperationalError("not connected")
        too_late = asyncio.get_running_loop().call_later(ANSWER_WITHIN, _hang_up, connection)
        try:
            return await connection.execute(text.encode(), values or None)
        finally:
            too_late.cancel()


def _hang_up(connection: "psycopg.AsyncConnection[Any]") -> None:
    """End a connection whose server does not answer, at once: what it holds ends with it. To cancel the statement, as
    psycopg does when time is over, takes twice as long if the network is cut, and others may own by then what we own.
    """
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as same:
        same.shutdown(socket.SHUT_RDWR)
