"""One state file with one writing and two reading threads, so that the event loop never waits.

Writes run one after the other, in the order of the calls. Reads see what was committed before, and wait neither for
writers in any process nor for long reads. The table of changes (`sql/changes.py`) is read when the file's version has
moved, at every question for a version and a few times a second. Recovers from problems: for a file that another program
locks, it waits once
and then retries with a short wait; a deleted file is written again from the open one; a damaged file is set aside and a
new one created. Owns no tables: the modules of `store/sql/` do. Implements `store/sql/part.py`'s Connection.
"""

import asyncio
import logging
import os
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from wicket_mcp.errors import ConfigError, Internal
from wicket_mcp.store.sql.changes import NUMBERS, Changes, count_change
from wicket_mcp.store.sqlite.files import BUSY_TIMEOUT, Connections, copy_to, inode_of, is_busy, open_file, set_aside
from wicket_mcp.store.sqlite.transaction import transaction
from wicket_mcp.tasks import Tasks

log = logging.getLogger(__name__)
T = TypeVar("T")

_BUSY_AGAIN = 0.05  # seconds to wait for a lock if the last wait for it failed
LOOK_EVERY = 0.2  # seconds until a change by another process is noticed that nobody asks about
_VERSION_KEPT = 0.01  # seconds for which a version is valid while the log's size and time stay the same
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class Connection:
    """Open it with `Connection.open(path)`."""

    def __init__(
        self,
        path: Path,
        threads: tuple[ThreadPoolExecutor, ThreadPoolExecutor, ThreadPoolExecutor],
        connections: Connections,
    ) -> None:
        self._path = path
        self._write_thread, self._read_thread, self._scan_thread = threads
        self._writer, self._reader, self._scanner, self._watcher = connections
        self._inode = inode_of(path)
        self._generation = 0
        """How many times the file was opened again."""
        self._busy: dict[str, bool] = dict.fromkeys(("write", "read", "scan"), False)
        """Whether the last write, and the last read of each kind, found the file locked."""
        self._closed = False
        self._log = f"{path}-wal"
        self._log_file: tuple[int | None, int] = None, 0
        """The open log, and the generation in which it was opened."""
        self._looked: tuple[object, float, bool] = None, 0.0, False
        """The log's size and time, when they were read, and whether the numbers of changes were known then."""
        self._file_version: tuple[int, int] | None = None
        """The generation and version of the file whose numbers are known."""
        self._changes = Changes()
        self._tasks = Tasks()

    @classmethod
    async def open(cls, path: Path) -> "Connection":
        """Raises ConfigError."""
        threads = (
            ThreadPoolExecutor(1, thread_name_prefix="wicket-store-write"),
            ThreadPoolExecutor(1, thread_name_prefix="wicket-store-read"),
            ThreadPoolExecutor(1, thread_name_prefix="wicket-store-scan"),
        )
        try:
            connections = await asyncio.get_running_loop().run_in_executor(threads[0], open_file, path)
        except BaseException:
            for thread in threads:
                thread.shutdown(wait=False)
            raise
        return cls(path, threads, connections)

    async def write(self, area: str, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in a transaction. A file has one writer, whatever the area. Raises Internal."""

        def job() -> T:
            if self._closed:
                raise sqlite3.OperationalError("it is being closed")
            self._follow_file()
            with transaction(self._writer) as db:
                count_change(db, area)
                return work(db)

        return await self._run(self._write_thread, "write", job)

    async def read(self, work: Callable[[sqlite3.Connection], T], *, long: bool = False) -> T:
        """Run `work`, which only reads, on one snapshot. Raises Internal if the file does not allow it."""

        def job() -> T:
            reader = self._scanner if long else self._reader
            reader.execute("BEGIN DEFERRED")
            try:
                return work(reader)
            finally:
                reader.execute("ROLLBACK")

        thread, kind = (self._scan_thread, "scan") if long else (self._read_thread, "read")
        return await self._run(thread, kind, job)

    def listen(self, hear: Callable[[str], object]) -> Callable[[], None]:
        if not self._tasks:
            self._tasks.start(self._follow_changes(), "follow the state file")
        return self._changes.listen(hear)

    async def _follow_changes(self) -> None:
        while True:
            self.version()
            await asyncio.sleep(LOOK_EVERY)

    @property
    def base(self) -> int:
        return self._generation << 40

    def version(self, *areas: str) -> int | None:
        """Called on the event loop for every request with a key: it reads shared memory and waits for no lock. A commit
        grows the log or, if the log restarts, changes its time; if neither has changed since a moment ago, the last
        numbers are still valid.
        """
        sign = self._look_at_log()
        now = time.monotonic()
        before, at, known = self._looked
        if sign is None or sign != before or now - at > _VERSION_KEPT:
            known = self._read_numbers()
            self._looked = sign, now, known
        return self.base + self._changes.number(areas) if known else None

    def _read_numbers(self) -> bool:
        """Publish the numbers of changes if anything was committed; whether they are known now."""
        generation = self._generation
        try:
            (version,) = self._watcher.execute("PRAGMA data_version").fetchone()
            if self._file_version == (generation, version):
                return True
            rows = self._watcher.execute(NUMBERS).fetchall()
        except sqlite3.Error:
            return False
        if self._file_version is not None and self._file_version[0] != generation:
            self._changes.begin_again()
        self._file_version = generation, version
        for area, number in rows:
            self._changes.publish(area, number)
        return True

    def _look_at_log(self) -> tuple[int, int, int] | None:
        """The log's size and time; None if it cannot be read. It is kept open, which saves looking up its path. (SQLite
        locks other files than this one, so closing it releases none of its locks.)
        """
        descriptor, generation = self._log_file
        try:
            if descriptor is None or generation != self._generation:
                self._close_log()
                descriptor = os.open(self._log, os.O_RDONLY)
                self._log_file = descriptor, self._generation
            log_file = os.fstat(descriptor)
        except OSError:
            return None
        if self._closed or not log_file.st_nlink:  # deleted: there may be another one
            self._close_log()
            return None
        return log_file.st_size, log_file.st_mtime_ns, self._generation

    def _close_log(self) -> None:
        descriptor, _ = self._log_file
        self._log_file = None, 0
        if descriptor is not None:
            os.close(descriptor)

    async def close(self) -> None:
        """Waiting writes are dropped; this waits at most for one lock."""
        if self._closed:
            return
        self._closed = True
        await self._tasks.close()
        loop = asyncio.get_running_loop()
        self._close_log()
        self._watcher.close()
        self._scanner.interrupt()  # it may be a long scan, and its caller has left
        await loop.run_in_executor(self._scan_thread, self._scanner.close)
        await loop.run_in_executor(self._read_thread, self._reader.close)
        await loop.run_in_executor(self._write_thread, self._close_writer)
        self._scan_thread.shutdown(wait=True)
        self._read_thread.shutdown(wait=True)
        self._write_thread.shutdown(wait=True)

    async def _run(self, thread: ThreadPoolExecutor, kind: str, job: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(thread, self._attempt, kind, job)
        except (sqlite3.Error, ConfigError, OSError) as problem:
            raise Internal(
                f"The state file {self._path} could not be used: {problem}.",
                hint="Check free space and permissions, and that no other program holds it.",
            ) from None

    # On the threads

    def _attempt(self, kind: str, job: Callable[[], T]) -> T:
        try:
            result = job()
        except sqlite3.DatabaseError as problem:
            self._note_lock(kind, busy=is_busy(problem))
            if getattr(problem, "sqlite_errorcode", 0) & 0xFF in _DAMAGED and not self._closed:
                self._write_thread.submit(self._replace_damaged, problem, self._inode)
            raise
        self._note_lock(kind, busy=False)
        return result

    def _note_lock(self, kind: str, *, busy: bool) -> None:
        """Wait less for a lock that is held for long: queued work must not wait as long again."""
        if self._busy[kind] != busy:
            self._busy[kind] = busy
            wait = _BUSY_AGAIN if busy else BUSY_TIMEOUT
            with suppress(sqlite3.Error):
                connection = {"write": self._writer, "read": self._reader, "scan": self._scanner}[kind]
                connection.execute(f"PRAGMA busy_timeout = {int(wait * 1000)}")

    def _follow_file(self) -> None:
        """Notice that the file was deleted or replaced; what we still have open is written to its place again."""
        inode = inode_of(self._path)
        if inode == self._inode:
            return
        if inode == 0:
            copy_to(self._writer, self._path)
            log.warning("the state file %s was deleted; it was written again from what is open", self._path)
        else:
            log.warning("the state file %s was replaced by another one, which is used from now on", self._path)
        self._adopt(open_file(self._path))

    def _replace_damaged(self, problem: sqlite3.DatabaseError, inode: int) -> None:
        """Set a damaged file aside and create a new one, unless this or another process already did."""
        if self._closed or inode != self._inode:
            return
        try:
            if inode_of(self._path) == inode:
                set_aside(self._path, problem)
            self._adopt(open_file(self._path))
        except (ConfigError, OSError) as trouble:
            log.warning("the damaged state file could not be replaced: %s", trouble)

    def _adopt(self, connections: Connections) -> None:
        old = (self._writer, self._reader, self._scanner, self._watcher)
        self._writer, self._reader, self._scanner, self._watcher = connections
        self._inode = inode_of(self._path)
        self._busy = dict.fromkeys(self._busy, False)
        self._generation += 1
        threads = (self._write_thread, self._read_thread, self._scan_thread, self._write_thread)
        for connection, thread in zip(old, threads, strict=True):
            thread.submit(_close_quietly, connection)

    def _close_writer(self) -> None:
        with suppress(sqlite3.Error):
            self._writer.execute("PRAGMA busy_timeout = 0")  # the log is merged only if no one else holds the file
        self._writer.close()


def _close_quietly(connection: sqlite3.Connection) -> None:
    with suppress(sqlite3.Error):
        connection.close()
