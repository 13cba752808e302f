"""One thread's connection to PostgreSQL: opened on demand, opened again after a loss.

Translates the SQL of `store/sql/` for this engine. A transaction that certainly did not happen is tried again; one
whose outcome is unknown is not. Owned by one thread at a time; `connection.py` has the threads.
"""

import re
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeVar

import psycopg
from psycopg import errors
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from wicket_mcp.codec import encode
from wicket_mcp.store.sql.part import Cursor

T = TypeVar("T")

OLDEST = 13
"""The oldest supported version of PostgreSQL."""
CONNECT_TIMEOUT = 5  # seconds for each address of the host
PATIENCE = 5.0  # seconds of retries when connecting: a restart takes less
TRY_AGAIN = 0.1
QUICK = 1.0  # seconds after a failed connection in which the next one fails at once
ATTEMPTS = 5  # of a transaction that conflicts with another
MANY = 8  # rows that are worth a statement of their own
_INSERT = re.compile(r"INSERT INTO (\w+) \(([\w, ]+)\) VALUES \([?, ]+\)")
_PLAIN = frozenset({str, int, float, type(None)})
_NUL = b"\\u0000"

_DEFAULTS = {
    "connect_timeout": CONNECT_TIMEOUT,
    "application_name": "wicket",
    "keepalives_idle": 10,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
# Nothing waits forever: neither we for the server, nor others for a lock of a frozen replica.
_BOUNDS = (
    "SET statement_timeout = '20s'; SET lock_timeout = '10s'; SET idle_in_transaction_session_timeout = '20s'; "
    "SET client_min_messages = warning"
)
_CONFLICTS = (errors.SerializationFailure, errors.DeadlockDetected)


class _Number(Loader):
    """Sums come as `numeric`, which psycopg turns into Decimal: we use integers and floats."""

    def load(self, data: Buffer) -> int | float:
        text = bytes(data).decode()
        return float(text) if "." in text else int(text)


def connection_text(dsn: str) -> str:
    """The address, with our defaults for what it does not set. Raises psycopg.ProgrammingError."""
    return make_conninfo(dsn, **{key: value for key, value in _DEFAULTS.items() if key not in conninfo_to_dict(dsn)})


def describe(dsn: str) -> str:
    """The address for people: without a password."""
    try:
        parts: Mapping[str, Any] = conninfo_to_dict(dsn)
    except psycopg.Error:
        return "postgresql://…"
    host, port = parts.get("host", "localhost"), parts.get("port", 5432)
    return f"postgresql://{parts.get('user', '')}@{host}:{port}/{parts.get('dbname', '')}"


@lru_cache(maxsize=512)
def _translate(text: str) -> str:
    return text.replace("%", "%%").replace("?", "%s")


def _value(value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str) and "\0" in value:
        return value.replace("\0", "\N{REPLACEMENT CHARACTER}")  # this engine's texts cannot contain it
    return value


class PostgresDatabase:
    """A psycopg connection with the interface of `store/sql/part.py`."""

    def __init__(self, connection: "psycopg.Connection[tuple[Any, ...]]") -> None:
        self.connection = connection

    def execute(self, text: str, values: Sequence[Any] = ()) -> Cursor:
        return self.connection.execute(_translate(text), [_value(value) for value in values])  # type: ignore[arg-type]

    def executemany(self, text: str, rows: Sequence[Sequence[Any]]) -> None:
        if len(rows) >= MANY and (plain := _INSERT.fullmatch(text)) and self._insert_all(plain[1], plain[2], rows):
            return
        with self.connection.cursor() as cursor:
            cursor.executemany(_translate(text), [[_value(value) for value in row] for row in rows])  # type: ignore[arg-type]

    def _insert_all(self, table: str, columns: str, rows: Sequence[Sequence[Any]]) -> bool:
        """Insert many rows with one statement and one value, which costs a tenth of a value for each field; False if a
        field cannot be written so.
        """
        if not all(type(value) in _PLAIN for row in rows for value in row):
            return False
        names = [name.strip() for name in columns.split(",")]
        body = encode([dict(zip(names, row, strict=True)) for row in rows])
        if _NUL in body:
            return False
        text = f"INSERT INTO {table} ({columns}) SELECT {columns} FROM json_populate_recordset(NULL::{table}, %s)"  # noqa: S608
        self.connection.execute(text.encode(), [body.decode()])
        return True


class Session:
    """A connection of one thread."""

    def __init__(self, dsn: str) -> None:
        self._text = connection_text(dsn)
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        self._failed_at = float("-inf")

    def connect(self) -> PostgresDatabase:
        """The open connection; a new one if needed. Raises psycopg.Error."""
        if self._connection is None or self._connection.closed:
            connection = psycopg.connect(self._text, autocommit=True)
            connection.adapters.register_loader("numeric", _Number)
            connection.execute(_BOUNDS)
            self._connection = connection
        return PostgresDatabase(self._connection)

    def read(self, work: Callable[[PostgresDatabase], T]) -> T:
        try:
            return work(self._ready())
        except (psycopg.OperationalError, psycopg.InterfaceError):
            if not self._is_lost():
                raise
        return work(self._ready())

    def write(self, lock: int | None, work: Callable[[PostgresDatabase], T]) -> T:
        for attempt in range(1, ATTEMPTS + 1):
            db = self._begin()
            try:
                with _transaction(db):
                    if lock is not None:
                        db.execute("SELECT pg_advisory_xact_lock(?)", (lock,))
                    return work(db)
            except _CONFLICTS:
                if attempt == ATTEMPTS:
                    raise
        raise AssertionError("unreachable")

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _begin(self) -> PostgresDatabase:
        """A connection with an open transaction; beginning it also checks whether the old connection is alive."""
        db = self._ready()
        try:
            db.execute("BEGIN")
        except (psycopg.OperationalError, psycopg.InterfaceError):
            if not self._is_lost():
                raise
            db = self._ready()
            db.execute("BEGIN")
        return db

    def _is_lost(self) -> bool:
        """Whether the connection is gone; the next use then opens another."""
        if self._connection is None or not (self._connection.closed or self._connection.broken):
            return False
        self._connection.close()
        self._connection = None
        return True

    def _ready(self) -> PostgresDatabase:
        """Like `connect`, but waits for a server that is restarting, though not repeatedly."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                db = self.connect()
            except psycopg.OperationalError:
                now = time.monotonic()
                if now >= until or now - self._failed_at < QUICK:
                    self._failed_at = now
                    raise
                time.sleep(TRY_AGAIN)
            else:
                self._failed_at = float("-inf")
                return db


@contextmanager
def _transaction(db: PostgresDatabase) -> Generator[None]:
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if not db.connection.closed:
            db.execute("ROLLBACK")
        raise
