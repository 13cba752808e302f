"""PostgreSQL behind `store/sql/`: a writing thread, a few reading threads, and a task that listens for changes.

Replicas are coordinated by the engine itself: a transaction for each change and, if a change reads first, an advisory
lock for its area until the transaction ends. Implements `store/sql/part.py`'s Connection; owns no tables.
"""

import asyncio
import hashlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import psycopg

from wicket_mcp.errors import ConfigError, Internal
from wicket_mcp.store.postgres.migrations import check_rights, check_server, migrate
from wicket_mcp.store.postgres.notices import Notices
from wicket_mcp.store.postgres.session import PostgresDatabase, Session, describe
from wicket_mcp.tasks import Tasks

T = TypeVar("T")

READERS = 3
HEAR_WITHIN = 10.0
"""Seconds in which a second connection must report changes at start."""


class PostgresConnection:
    """Open it with `PostgresConnection.open(dsn)`."""

    def __init__(self, dsn: str, writer: Session, write_thread: ThreadPoolExecutor, schema: str) -> None:
        self._dsn = dsn
        self._schema = schema
        self._writer = writer
        self._write_thread = write_thread
        self._read_threads = ThreadPoolExecutor(READERS, thread_name_prefix="wicket-postgres-read")
        self._readers = threading.local()
        self._sessions: list[Session] = [writer]
        self._tasks = Tasks()
        self.notices = Notices(dsn, f"wicket_{schema}")
        self._closed = False

    @classmethod
    async def open(cls, dsn: str) -> "PostgresConnection":
        """Raises ConfigError."""
        thread = ThreadPoolExecutor(1, thread_name_prefix="wicket-postgres-write")
        try:
            writer, schema = await asyncio.get_running_loop().run_in_executor(thread, _open, dsn)
        except BaseException:
            thread.shutdown(wait=False)
            raise
        connection = cls(dsn, writer, thread, schema)
        connection._tasks.start(connection.notices.listen(), "hear of changes in PostgreSQL")
        try:
            async with asyncio.timeout(HEAR_WITHIN):
                await connection.notices.ready.wait()
        except TimeoutError:
            await connection.close()
            raise ConfigError(
                f"PostgreSQL at {describe(dsn)} cannot be listened to: {connection.notices.problem or 'no answer'}",
                key="store",
                hint="Every replica needs six connections; raise max_connections, or the limit of the user.",
            ) from None
        except BaseException:
            await connection.close()
            raise
        return connection

    async def write(self, area: str, work: Callable[[PostgresDatabase], T]) -> T:
        def job() -> tuple[T, int]:
            def change(db: PostgresDatabase) -> tuple[T, int]:
                number = self.notices.tell(db, area)
                return work(db), number

            return self._writer.write(advisory_lock(self._schema, area) if area else None, change)

        result, number = await self._run(self._write_thread, job)
        self.notices.changes.publish(area, number)
        return result

    async def read(self, work: Callable[[PostgresDatabase], T], *, long: bool = False) -> T:
        return await self._run(self._read_threads, lambda: self._reader().read(work))

    def listen(self, hear: Callable[[str], object]) -> Callable[[], None]:
        return self.notices.changes.listen(hear)

    base = 0

    def version(self, *areas: str) -> int | None:
        return self.notices.version(*areas)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await self._tasks.close()
        loop = asyncio.get_running_loop()
        for threads in (self._write_thread, self._read_threads):
            await loop.run_in_executor(None, lambda threads=threads: threads.shutdown(wait=True, cancel_futures=True))
        for session in self._sessions:
            session.close()

    def _reader(self) -> Session:
        """This thread's connection."""
        session: Session | None = getattr(self._readers, "session", None)
        if session is None:
            session = self._readers.session = Session(self._dsn)
            self._sessions.append(session)
        return session

    async def _run(self, threads: ThreadPoolExecutor, job: Callable[[], T]) -> T:
        try:
            if self._closed:
                raise psycopg.OperationalError("it is being closed")
            return await asyncio.get_running_loop().run_in_executor(threads, job)
        except psycopg.Error as problem:
            raise Internal(
                f"The database {describe(self._dsn)} could not be used: {_first_line(problem)}.",
                hint="Check that PostgreSQL runs, can be reached, and has free space.",
            ) from None


def advisory_lock(schema: str, name: str) -> int:
    """The number of a lock: locks belong to a database, which several schemas may share."""
    digest = hashlib.blake2b(f"wicket/{schema}/{name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def _open(dsn: str) -> tuple[Session, str]:
    """A connection to a database in this version's format, and its schema. Raises ConfigError."""
    session: Session | None = None
    try:
        session = Session(dsn)
        return session, _prepare(session, dsn)
    except BaseException as problem:
        if session is not None:
            session.close()
        if isinstance(problem, psycopg.Error):
            raise _explain(problem, dsn) from None
        raise


def _prepare(session: Session, dsn: str) -> str:
    """Bring the database to this version's format; returns its schema."""
    db = session.connect()
    check_server(db, dsn)
    (schema,) = db.execute("SELECT current_schema()").fetchone()
    if schema is None:
        raise ConfigError(
            f"{describe(dsn)} has no schema to keep tables in",
            key="store",
            hint="Create the schema that its search_path names.",
        )
    migrate(session, dsn, advisory_lock(schema, "format"))
    check_rights(db, dsn)
    return schema


def _explain(problem: psycopg.Error, dsn: str) -> ConfigError:
    hint = "Check host, port, user and password, and that the server runs."
    if isinstance(problem, psycopg.ProgrammingError):
        hint = "It is written as postgresql://user@host:port/database."
    return ConfigError(f"PostgreSQL at {describe(dsn)} cannot be used: {_first_line(problem)}", key="store", hint=hint)


def _first_line(problem: Exception) -> str:
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0].rstrip(".")
