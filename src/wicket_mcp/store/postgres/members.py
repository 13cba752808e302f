"""Which replicas are running, and what each of them owns: advisory locks on connections that the replicas keep open.

Each replica holds a lock, which the engine releases when the connection ends, so that a dead replica is noticed at
once, without any clock. A row has its address. The same connection holds what the replica owns (`claim`), each time
with a higher epoch. A lost connection is opened again, and what was owned is claimed again (`on_back`). A replica whose
lease is over (`cluster/lease.py`) gives up what it owned (`on_lost`), before the server can release the locks of a cut
connection. One that stands still keeps its connection and its locks: another one ends them (`depose`). Implements
`cluster/claims.py`.
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
from wicket_mcp.cluster.heartbeat import Heartbeat
from wicket_mcp.cluster.lease import LEASE, MARGIN
from wicket_mcp.cluster.members import Member
from wicket_mcp.store.postgres.connection import advisory_lock
from wicket_mcp.store.postgres.session import connection_text

log = logging.getLogger(__name__)

ANSWER_WITHIN = 5.0
BUSY = 2.0
"""Seconds since a replica's last look at the database in which it does not count as standing still."""
END_EVERY = 0.05
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
_SESSION = """SELECT a.pid, coalesce(extract(epoch FROM clock_timestamp() - a.state_change)::float8, 1e9), r.id
           FROM wicket_replica r JOIN pg_locks l ON (l.classid::bigint << 32) | l.objid::bigint = r.lock
           JOIN pg_stat_activity a ON a.pid = l.pid
           WHERE r.address = %s AND r.id <> %s AND l.locktype = 'advisory' AND l.granted
           AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"""
"""The session of another replica, and for how many seconds it has asked nothing."""
_ROWS = f"SELECT id, address, {_IS_LIVE} AS live FROM wicket_replica"  # noqa: S608  (constants)
_FORGET = f"DELETE FROM wicket_replica WHERE id = %s AND NOT {_IS_LIVE}"  # noqa: S608


class PostgresMembers:
    """Open it with `PostgresMembers.join(...)`."""

    def __init__(self, dsn: str, me: str, locate: Callable[[str], str]) -> None:
        """`locate` turns the address at which the database sees us into our address."""
        self.me = me
        self.all: Mapping[str, Member] = {}
        self.suspects: Mapping[str, Member] = {}
        self.on_change: list[Callable[[], None]] = []
        self.clock_offset = 0.0
        """How far the database's clock is ahead of ours."""
        self.address = ""
        self._text = connection_text(dsn)
        self._locate = locate
        self._connection: psycopg.AsyncConnection[tuple[Any, ...]] | None = None
        self._hung_up = False
        """Whether the connection must not be used any more."""
        self._claimed: set[str] = set()
        """What this connection has locks for: a second lock on the same name would outlive a release."""
        self._schema = ""
        self._lock = asyncio.Lock()
        self._generation = 0
        self._leaving = False
        self._skewed = False
        self._heartbeat = beat = Heartbeat(self)
        self.on_away, self.on_lost, self.on_back = beat.on_away, beat.on_lost, beat.on_back

    @classmethod
    async def join(cls, dsn: str, me: str, locate: Callable[[str], str]) -> "PostgresMembers":
        """Raises ClaimsAway."""
        members = cls(dsn, me, locate)
        await members._heartbeat.start()
        return members

    @property
    def problem(self) -> str:
        return self._heartbeat.problem

    @property
    def certain(self) -> bool:
        return self._heartbeat.certain

    def trust(self, asked_at: float) -> None:
        self._heartbeat.trust(asked_at)

    def clock(self) -> float:
        """The time that all replicas share: the database's."""
        return time.time() + self.clock_offset

    async def claim(self, name: str) -> Taken | None:
        """Own `name` from now on; None if another replica owns it. Raises ClaimsAway."""
        async with self._asking():
            if self._leaving:
                return None
            if name not in self._claimed:
                (acquired,) = await self._fetch("SELECT pg_try_advisory_lock(%s)", self._lock_of(name))
                if not acquired:
                    return None
                self._claimed.add(name)
            try:
                before = await self._fetch("SELECT replica, address, epoch FROM wicket_owner WHERE name = %s", name)
                if before and before[0] not in ("", self.me):
                    return Taken(before[2], Member(before[0], before[1]))
                return Taken(await self._record(name))
            except psycopg.Error:  # a full disk, say: nobody may know us as the owner
                await self._unlock(name)
                raise

    async def record(self, name: str) -> int | None:
        """Record us as the owner of what we have claimed. Raises ClaimsAway."""
        async with self._asking():
            if name not in self._claimed:
                return None
            try:
                return await self._record(name)
            except psycopg.Error:
                await self._unlock(name)
                raise

    async def _record(self, name: str) -> int:
        text = """INSERT INTO wicket_owner VALUES (%s, %s, %s, 1) ON CONFLICT (name) DO UPDATE SET
                  replica = excluded.replica, address = excluded.address, epoch = wicket_owner.epoch
                  + CASE WHEN wicket_owner.replica = excluded.replica THEN 0 ELSE 1 END RETURNING epoch"""
        (epoch,) = await self._fetch(text, name, self.me, self.address)
        return epoch

    async def release(self, name: str) -> None:
        """Release `name` after stopping what it stands for: the next owner need not ask us, if we can tell it."""
        with suppress(psycopg.Error, TimeoutError):
            async with self._lock:
                try:
                    text = "UPDATE wicket_owner SET replica = '' WHERE name = %s AND replica = %s RETURNING name"
                    await self._fetch(text, name, self.me)
                finally:
                    await self._unlock(name)

    async def _unlock(self, name: str) -> None:
        if name not in self._claimed:
            return
        with suppress(psycopg.Error):  # then the connection is gone, and the lock with it
            await self._fetch("SELECT pg_advisory_unlock(%s)", self._lock_of(name))
            self._claimed.discard(name)

    def _lock_of(self, name: str) -> int:
        return advisory_lock(self._schema, f"owner {name}")

    async def depose(self, address: str) -> bool:
        """End the session of the replica at this address, if it stands still. One that has just looked at the database
        does not, whatever it answers to us. Raises ClaimsAway.
        """
        deposed = ""
        while True:
            async with self._asking():
                session = await self._fetch(_SESSION, address, self.me)
                if session is None:
                    if deposed:  # as if it had released all: it has certainly stopped
                        await self._run("UPDATE wicket_owner SET replica = '' WHERE replica = %s", (deposed,))
                    return bool(deposed)
                number, silent_for, member = session
                if silent_for < BUSY:
                    return False
                if silent_for > LEASE + MARGIN:
                    log.warning("the replica at %s stands still: what it owned may be owned by others now", address)
                    await self._fetch("SELECT pg_terminate_backend(%s)", number)
                    deposed = member
            await asyncio.sleep(END_EVERY)

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
        await self._heartbeat.close()
        if self._connection is not None:
            await self._connection.close()

    @asynccontextmanager
    async def _asking(self) -> AsyncGenerator[None]:
        try:
            async with self._lock:
                yield
        except (psycopg.Error, TimeoutError, OSError) as problem:
            raise ClaimsAway(f"PostgreSQL does not answer ({str(problem).strip() or 'no answer'})") from None

    # Called by the heartbeat

    @property
    def is_open(self) -> bool:
        return self._connection is not None and not self._connection.closed and not self._hung_up

    def hang_up(self) -> None:
        self._hung_up = True
        if self._connection is not None:
            _hang_up(self._connection)

    async def connect(self) -> None:
        """Open a connection, and be a member by it."""
        async with self._asking():
            if self._connection is not None:
                self._connection.pgconn.finish()
            self._connection = None
            self._claimed.clear()
            async with asyncio.timeout(ANSWER_WITHIN):
                self._connection = await psycopg.AsyncConnection.connect(self._text, autocommit=True)
            self._generation += 1
            self._hung_up = False
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

    async def ask(self) -> None:
        async with self._asking():
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

    async def look(self) -> bool:
        """Check the members at once, because one did not answer or is unknown; False if that is not possible."""
        try:
            await self.ask()
        except ClaimsAway:
            return False
        return True

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
