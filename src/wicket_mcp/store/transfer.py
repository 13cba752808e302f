"""Copies the state of one machine to PostgreSQL, completely or not at all. Called by `wicket migrate`.

The file is read from a copy, so that it stays unchanged, whatever version wrote it; the database must be empty. Rows
are copied table by table in insertion order, in one transaction, and counted at the end.
"""

import asyncio
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

from wicket_mcp.errors import ConfigError
from wicket_mcp.store.postgres.connection import PostgresConnection
from wicket_mcp.store.sql.migrations import TooNew
from wicket_mcp.store.sql.part import Database, insert
from wicket_mcp.store.sqlite.migrations import migrate

_BATCH = 500
_LARGE = 16  # rows at a time for a table that may have large ones
_LARGE_TABLES = frozenset({"result", "listing"})


class Progress(Protocol):
    def __call__(self, table: str, rows: int, /) -> None: ...


async def copy_to_postgres(file: Path, address: str, progress: Progress) -> dict[str, int]:
    """How many rows of each table were copied. Raises ConfigError, and then none were."""
    with tempfile.TemporaryDirectory(prefix="wicket-migrate-") as folder:
        copy = Path(folder) / "wicket.db"
        await asyncio.to_thread(_copy, file, copy)
        target = await PostgresConnection.open(address)
        try:
            return await target.write("migrate", lambda db: _transfer(copy, db, progress))
        finally:
            await target.close()


def _copy(file: Path, copy: Path) -> None:
    """A consistent copy in this version's format, even of a file that is being written."""
    if not file.exists():
        hint = "Check 'state_dir', or name the file."
        raise ConfigError("there is no state to copy", file=str(file), hint=hint)
    try:
        with (
            closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as source,
            closing(sqlite3.connect(copy, isolation_level=None)) as db,
        ):
            source.backup(db)
            migrate(db)
    except TooNew as problem:
        hint = "Upgrade Wicket first."
        raise ConfigError(
            f"the state file was written by a newer Wicket ({problem})", file=str(file), hint=hint
        ) from None
    except sqlite3.Error as problem:
        hint = "Check that it is Wicket's state file and not damaged: sqlite3 FILE 'PRAGMA integrity_check'."
        raise ConfigError(f"the state file cannot be read: {problem}", file=str(file), hint=hint) from None


def _transfer(copy: Path, db: Database, progress: Progress) -> dict[str, int]:
    counts: dict[str, int] = {}
    with closing(sqlite3.connect(copy)) as source:
        text = "SELECT name FROM sqlite_master WHERE type = 'table' AND name <> 'wicket_change' ORDER BY name"
        tables = [name for (name,) in source.execute(text)]
        for table in tables:
            if db.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() is not None:  # noqa: S608  (our own tables)
                raise ConfigError(
                    f"the database is not empty: '{table}' has rows already",
                    key="store",
                    hint="Name an empty database; nothing was changed.",
                )
        db.execute("DELETE FROM wicket_change")
        _transfer_table(source, "wicket_change", db)  # the rows have numbers of it
        for table in tables:
            counts[table] = _transfer_table(source, table, db)
            progress(table, counts[table])
    return counts


def _transfer_table(source: sqlite3.Connection, table: str, db: Database) -> int:
    columns = ", ".join(row[1] for row in source.execute(f"PRAGMA table_info({table})"))
    rows = source.execute(f"SELECT {columns} FROM {table} ORDER BY rowid")  # noqa: S608  (our own tables)
    text, count = insert(table, columns), 0
    batch: list[Any]
    while batch := rows.fetchmany(_LARGE if table in _LARGE_TABLES else _BATCH):
        db.executemany(text, batch)
        count += len(batch)
    (arrived,) = db.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608
    if arrived != count:
        raise ConfigError(f"{count} rows of '{table}' were sent and {arrived} are there", hint="Nothing was changed.")
    return count
