"""What an engine provides for the SQL here, and `Part`, the SQL of one owner of state.

Knows no engine: `store/sqlite/` and `store/postgres/` implement `Connection`, and `store/open.py` chooses.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

from wicket_mcp.store.records import Recorder

T = TypeVar("T")
Row: TypeAlias = tuple[Any, ...]


class Cursor(Protocol):
    """The result of a statement."""

    @property
    def rowcount(self) -> int:
        """How many rows were changed."""
        ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...


class Database(Protocol):
    """An open transaction."""

    def execute(self, text: str, values: Sequence[Any] = (), /) -> Cursor: ...

    def executemany(self, text: str, rows: Sequence[Sequence[Any]], /) -> object: ...


class Connection(Protocol):
    """One state that several processes may have open. Raises Internal, which says what to do, if it cannot be used."""

    async def write(self, area: str, work: Callable[[Any], T]) -> T:
        """Run `work` with a Database, as one transaction.

        No other process runs `work` of the same area meanwhile; the empty area is for single statements.
        """
        ...

    async def read(self, work: Callable[[Any], T], *, long: bool = False) -> T:
        """Run `work`, one statement that only reads, with a Database.

        A `long` one, which scans many rows, does not block other reads.
        """
        ...

    def version(self, *areas: str) -> int | None:
        """Differs from every earlier value if any process has written to one of these watched areas since.

        Never waits; None if unknown.
        """
        ...

    @property
    def base(self) -> int:
        """What is added to the numbers of changes, so that those of a file that replaced another one are greater."""
        ...

    def listen(self, hear: Callable[[str], object]) -> Callable[[], None]:
        """Call `hear` with the area, on the event loop, soon after any process wrote to a watched one, until the
        returned function is called.
        """
        ...

    async def close(self) -> None: ...


class Part:
    """The SQL of one owner of state, on the shared connection."""

    def __init__(self, connection: Connection, recorder: Recorder) -> None:
        self._connection = connection
        self._recorder = recorder

    async def _rows(self, text: str, *values: Any, long: bool = False) -> list[Any]:
        def fetch(db: Database) -> list[Any]:
            return db.execute(text, values).fetchall()

        return await self._connection.read(fetch, long=long)

    async def _row(self, text: str, *values: Any) -> Row | None:
        def fetch(db: Database) -> Row | None:
            return db.execute(text, values).fetchone()

        return await self._connection.read(fetch)

    async def _change(self, text: str, *values: Any) -> int:
        """Run one statement; returns how many rows it changed."""

        def change(db: Database) -> int:
            return db.execute(text, values).rowcount

        return await self._connection.write("", change)


def insert(table: str, columns: str) -> str:
    """The statement that inserts a row."""
    marks = ", ".join("?" for _ in columns.split(","))
    return f"INSERT INTO {table} ({columns}) VALUES ({marks})"  # noqa: S608  (our own words)


def upsert(table: str, columns: str, key: str) -> str:
    """The statement that inserts a row, or replaces the one with the same key."""
    keys = {name.strip() for name in key.split(",")}
    others = [name.strip() for name in columns.split(",") if name.strip() not in keys]
    values = ", ".join(f"{name} = excluded.{name}" for name in others)
    return f"{insert(table, columns)} ON CONFLICT ({key}) DO UPDATE SET {values}"
