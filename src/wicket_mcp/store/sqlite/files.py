"""Opens the state file: private, in WAL mode, in this version's format; or raises an error that says what to do.

A file of a newer version is refused and not changed. A damaged one is set aside, never overwritten. Other processes may
do the same at this moment: this waits for their locks.
"""

import logging
import sqlite3
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

from wicket_mcp.errors import ConfigError
from wicket_mcp.files import check_owner, claim_folder
from wicket_mcp.store.sql.migrations import TooNew
from wicket_mcp.store.sqlite.migrations import migrate, version_of

log = logging.getLogger(__name__)
T = TypeVar("T")

BUSY_TIMEOUT = 5.0  # seconds to wait for another process that writes the same file
OPEN_TIMEOUT = 15.0  # seconds to wait for other processes that open it, one after the other
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)


class Connections(NamedTuple):
    """The connections to one state file."""

    writer: sqlite3.Connection
    reader: sqlite3.Connection
    scanner: sqlite3.Connection
    """For long reads."""
    watcher: sqlite3.Connection
    """Only checks whether anything has changed; waits for no lock."""


def open_file(path: Path) -> Connections:
    """Raises ConfigError."""
    try:
        claim_folder(path.parent)
        if path.exists():
            check_owner(path)
        try:
            return _retry(lambda: _connections(path))
        except sqlite3.DatabaseError as problem:
            if isinstance(problem, sqlite3.OperationalError):
                raise
            set_aside(path, problem)
            return _retry(lambda: _connections(path))
    except TooNew as problem:
        raise ConfigError(
            f"the state file was written by a newer Wicket ({problem})",
            file=str(path),
            hint="Upgrade Wicket, or set 'state_dir' to another folder.",
        ) from None
    except (sqlite3.Error, OSError) as problem:
        raise ConfigError(
            f"the state file cannot be opened: {problem}", file=str(path), hint=_advice(problem)
        ) from None


def _connections(path: Path) -> Connections:
    _check_version(path)
    path.touch(mode=0o600)
    path.chmod(0o600)
    with ExitStack() as unfinished:
        writer = unfinished.enter_context(closing(_connect(path, BUSY_TIMEOUT)))
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("PRAGMA synchronous = NORMAL")
        migrate(writer)
        reader = unfinished.enter_context(closing(_connect(path, BUSY_TIMEOUT)))
        scanner = unfinished.enter_context(closing(_connect(path, BUSY_TIMEOUT)))
        watcher = unfinished.enter_context(closing(_connect(path, 0)))
        for connection in (reader, scanner, watcher):
            connection.execute("PRAGMA query_only = ON")
            connection.execute("SELECT 1 FROM sqlite_schema").fetchone()  # opens the log too: it may be deleted later
        unfinished.pop_all()
    return Connections(writer, reader, scanner, watcher)


def inode_of(path: Path) -> int:
    """The inode of the file; 0 if there is none."""
    try:
        return path.stat().st_ino
    except OSError:
        return 0


def copy_to(source: sqlite3.Connection, path: Path) -> None:
    """Write everything in `source` to a new file at `path`, completely or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    unfinished = path.with_suffix(".unfinished")
    unfinished.unlink(missing_ok=True)
    unfinished.touch(mode=0o600)
    with closing(sqlite3.connect(unfinished)) as target:
        source.backup(target)
    for leftover in (f"{path.name}-wal", f"{path.name}-shm"):
        path.with_name(leftover).unlink(missing_ok=True)
    unfinished.rename(path)


def is_busy(problem: Exception) -> bool:
    """Whether another process holds the file."""
    return _primary_code(problem) in _BUSY


def _check_version(path: Path) -> None:
    """Check without changing anything: a writable connection changes the file when it closes."""
    if not path.exists() or not path.stat().st_size:
        return
    uri = f"{path.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT, isolation_level=None)) as db:
        version_of(db)


def _connect(path: Path, timeout: float) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=timeout, isolation_level=None, check_same_thread=False)


def _retry(work: Callable[[], T]) -> T:
    """Changing the journal mode does not wait for a lock by itself, unlike a transaction."""
    deadline = time.monotonic() + OPEN_TIMEOUT
    pause = 0.005
    while True:
        try:
            return work()
        except sqlite3.OperationalError as problem:
            if _primary_code(problem) not in _BUSY or time.monotonic() > deadline:
                raise
        time.sleep(pause)
        pause = min(2 * pause, 0.1)


def set_aside(path: Path, problem: sqlite3.DatabaseError) -> None:
    """Keep a damaged file under another name: some of it may be recoverable."""
    aside = path.with_suffix(f".damaged-{int(time.time())}")
    with suppress(FileNotFoundError):  # another process was quicker
        path.rename(aside)
    log.warning("the state file was damaged (%s); it was renamed to %s and a new one was created", problem, aside)


def _advice(problem: Exception) -> str:
    code = _primary_code(problem)
    if code in _BUSY:
        return "Another program holds it: end that program, or set 'state_dir' to another folder."
    if code == sqlite3.SQLITE_FULL:
        return "Make room on the disk, or set 'state_dir' to another folder."
    return "Make the folder writable or set 'state_dir'."


def _primary_code(problem: Exception) -> int:
    return getattr(problem, "sqlite_errorcode", 0) & 0xFF
