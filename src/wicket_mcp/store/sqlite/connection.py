"""One state file with a thread that writes and a thread that reads, so that the event loop waits for neither.

Writes happen one after the other in the order they were asked for. Reads see what was committed before, and wait for
no writer, in this process or another. Owns no tables: the modules beside it do, each as a `Part`.
"""

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from wicket_mcp.errors import Internal
from wicket_mcp.store.records import Recorder
from wicket_mcp.store.sqlite.files import Connections, open_file
from wicket_mcp.store.sqlite.transaction import transaction

T = TypeVar("T")
Row: TypeAlias = tuple[Any, ...]


class Connection:
    """Open it with `Connection.open(path)`."""

    def __init__(
        self,
        path: Path,
        threads: tuple[ThreadPoolExecutor, ThreadPoolExecutor],
        connections: Connections,
    ) -> None:
        self._path = path
        self._write_thread, self._read_thread = threads
        self._writer, self._reader, self._watcher = connections
        self._closed = False

    @classmethod
    async def open(cls, path: Path) -> "Connection":
        """Raises ConfigError."""
        threads = (
            ThreadPoolExecutor(1, thread_name_prefix="wicket-store-write"),
            ThreadPoolExecutor(1, thread_name_prefix="wicket-store-read"),
        )
        try:
            connections = await asyncio.get_running_loop().run_in_executor(threads[0], open_file, path)
        except BaseException:
            for thread in threads:
                thread.shutdown(wait=False)
            raise
        return cls(path, threads, connections)

    async def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in a transaction of its own. Raises Internal when the file does not allow it."""

        def job() -> T:
            with transaction(self._writer) as db:
                return work(db)

        return await self._run(self._write_thread, job)

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work`, which only reads, on one snapshot. Raises Internal when the file does not allow it."""

        def job() -> T:
            self._reader.execute("BEGIN DEFERRED")
            try:
                return work(self._reader)
            finally:
                self._reader.execute("ROLLBACK")

        return await self._run(self._read_thread, job)

    def version(self) -> int | None:
        """Differs from every earlier answer when anything was committed since, by any process; None if unknown.

        Asked on the event loop: it looks at shared memory and waits for no lock.
        """
        try:
            return self._watcher.execute("PRAGMA data_version").fetchone()[0]
        except sqlite3.Error:
            return None

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        loop = asyncio.get_running_loop()
        self._watcher.close()
        await loop.run_in_executor(self._read_thread, self._reader.close)
        await loop.run_in_executor(self._write_thread, self._writer.close)
        self._read_thread.shutdown(wait=True)
        self._write_thread.shutdown(wait=True)

    async def _run(self, thread: ThreadPoolExecutor, job: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(thread, job)
        except sqlite3.Error as problem:
            raise Internal(
                f"The state file {self._path} could not be used: {problem}.",
                hint="Check free space and permissions, and that no other program holds it.",
            ) from None


class Part:
    """The SQL of one owner of state, on the file that all share."""

    def __init__(self, connection: Connection, recorder: Recorder) -> None:
        self._connection = connection
        self._recorder = recorder

    async def _rows(self, text: str, *values: Any) -> list[Any]:
        return await self._connection.read(lambda db: db.execute(text, values).fetchall())

    async def _row(self, text: str, *values: Any) -> Row | None:
        return await self._connection.read(lambda db: db.execute(text, values).fetchone())

    async def _change(self, text: str, *values: Any) -> None:
        await self._connection.write(lambda db: db.execute(text, values))
