"""The default store: one SQLite file, one thread that owns the connection.

Every statement runs on that thread, in the order it was asked for, so there is one writer and no lock is ever waited
for on the event loop. Call records are gathered and written in batches. A file from a newer Wicket is refused; a
damaged one is set aside, never overwritten.
"""

import asyncio
import logging
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from wicket_mcp.codec import decode, encode
from wicket_mcp.errors import ConfigError, Internal
from wicket_mcp.model import JsonObject, Listing, Principal, Rejected, Tool
from wicket_mcp.store.base import CallRecord, StoredListing, StoredResult

log = logging.getLogger(__name__)
T = TypeVar("T")

MAX_QUEUED_RECORDS = 10_000
FLUSH_AFTER = 0.25  # seconds in which call records are gathered before they are written
AUDIT_DAYS = 30
BUSY_TIMEOUT = 5.0  # seconds to wait for another process that writes the same file


class SqliteStore:
    """See the module's docstring."""

    def __init__(self, path: Path) -> None:
        self.lost_records = 0
        self._path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="wicket-store")
        self._db: sqlite3.Connection | None = None
        self._queue: list[CallRecord] = []
        self._flush_timer: asyncio.TimerHandle | None = None

    async def load_listings(self) -> list[StoredListing]:
        rows = await self._run(
            lambda db: db.execute("SELECT body, fingerprint, segment FROM listing ORDER BY server").fetchall()
        )
        return [StoredListing(_listing_from(decode(body)), fingerprint, segment) for body, fingerprint, segment in rows]

    async def save_listing(self, stored: StoredListing) -> None:
        body = encode(_listing_to(stored.listing))
        row = (stored.listing.server, body, stored.fingerprint, stored.segment)
        await self._run(lambda db: db.execute("INSERT OR REPLACE INTO listing VALUES (?, ?, ?, ?)", row))

    async def save_segments(self, segments: Mapping[str, bytes]) -> None:
        rows = [(segment, server) for server, segment in segments.items()]
        await self._run(lambda db: db.executemany("UPDATE listing SET segment = ? WHERE server = ?", rows))

    async def drop_listing(self, server: str) -> None:
        await self._run(lambda db: db.execute("DELETE FROM listing WHERE server = ?", (server,)))

    async def save_result(self, result: StoredResult, max_total_bytes: int) -> None:
        def save(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM result WHERE expires_at < ?", (time.time(),))
            (total,) = db.execute("SELECT coalesce(sum(length(body)), 0) FROM result").fetchone()
            surplus = total + len(result.body) - max_total_bytes
            for number, size in db.execute("SELECT rowid, length(body) FROM result ORDER BY rowid").fetchall():
                if surplus <= 0:
                    break
                db.execute("DELETE FROM result WHERE rowid = ?", (number,))
                surplus -= size
            row = (result.id, result.principal, result.tool, result.body, result.expires_at)
            db.execute("INSERT INTO result (id, principal, tool, body, expires_at) VALUES (?, ?, ?, ?, ?)", row)

        await self._run(save)

    async def load_result(self, result_id: str, principal: Principal) -> StoredResult | None:
        query = """SELECT id, principal, tool, body, expires_at FROM result
                   WHERE id = ? AND principal = ? AND expires_at >= ?"""
        parameters = (result_id, principal.name, time.time())
        row = await self._run(lambda db: db.execute(query, parameters).fetchone())
        return StoredResult(*row) if row else None

    def record_call(self, record: CallRecord) -> None:
        if len(self._queue) >= MAX_QUEUED_RECORDS:
            self.lost_records += 1
            return
        self._queue.append(record)
        if self._flush_timer is None:
            self._flush_timer = asyncio.get_running_loop().call_later(FLUSH_AFTER, self._flush)

    async def usage(self, principal: Principal) -> Mapping[str, int]:
        self._flush()
        query = "SELECT tool, calls FROM usage WHERE principal = ?"
        return dict(await self._run(lambda db: db.execute(query, (principal.name,)).fetchall()))

    async def recent_calls(self, principal: Principal, limit: int) -> list[CallRecord]:
        self._flush()
        query = "SELECT * FROM audit WHERE principal = ? ORDER BY at DESC LIMIT ?"
        rows = await self._run(lambda db: db.execute(query, (principal.name, limit)).fetchall())
        return [CallRecord(*row) for row in rows]

    async def load_note(self, key: str) -> str | None:
        row = await self._run(lambda db: db.execute("SELECT text FROM note WHERE key = ?", (key,)).fetchone())
        return row[0] if row else None

    async def save_note(self, key: str, text: str) -> None:
        await self._run(lambda db: db.execute("INSERT OR REPLACE INTO note VALUES (?, ?)", (key, text)))

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """For the stores that share this file: `work` in a transaction, after all that was handed over before."""
        self._flush()
        return await self._run(work)

    async def close(self) -> None:
        if self._db is not None or self._queue:
            self._flush()
            await self._run(lambda db: None)  # everything handed over before is written by now
        if self._db is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._db.close)
        self._thread.shutdown(wait=True)

    def _flush(self) -> None:
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        records, self._queue = self._queue, []
        if records:
            self._thread.submit(self._write_records, records)

    def _write_records(self, records: list[CallRecord]) -> None:
        calls = [
            (
                r.at,
                r.principal,
                r.server,
                r.tool,
                r.arguments_digest,
                r.outcome,
                r.duration_ms,
                r.result_bytes,
            )
            for r in records
        ]
        used = Counter((r.principal, f"{r.server}.{r.tool}") for r in records if r.outcome in ("ok", "cached"))
        try:
            with self._transaction() as db:
                db.executemany("INSERT INTO audit VALUES (?, ?, ?, ?, ?, ?, ?, ?)", calls)
                db.execute("DELETE FROM audit WHERE at < ?", (time.time() - AUDIT_DAYS * 86400,))
                db.executemany(
                    """INSERT INTO usage VALUES (?, ?, ?)
                       ON CONFLICT (principal, tool) DO UPDATE SET calls = calls + excluded.calls""",
                    [(*whose, calls) for whose, calls in used.items()],
                )
        except sqlite3.Error as problem:  # a full disk must not cost a call; the loss is counted and said
            self.lost_records += len(records)
            log.warning("%d call records were lost: %s", len(records), problem)

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in a transaction on the store's thread. Raises Internal when the file does not allow it."""

        def job() -> T:
            try:
                with self._transaction() as db:
                    return work(db)
            except sqlite3.Error as problem:
                raise Internal(
                    f"The state file {self._path} could not be used: {problem}.",
                    hint="Check free space and permissions, and that no other program holds it.",
                ) from None

        return await asyncio.get_running_loop().run_in_executor(self._thread, job)

    def _transaction(self) -> "_Transaction":
        if self._db is None:
            self._db = _open(self._path)
        return _Transaction(self._db)


class _Transaction:
    """BEGIN IMMEDIATE … COMMIT: a deferred one that turns into a writer fails at once when another process writes."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def __enter__(self) -> sqlite3.Connection:
        self._db.execute("BEGIN IMMEDIATE")
        return self._db

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._db.execute("COMMIT" if kind is None else "ROLLBACK")


def _open(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        return _migrated(path)
    except sqlite3.DatabaseError as problem:
        if isinstance(problem, sqlite3.OperationalError):
            raise ConfigError(
                f"the state file cannot be opened: {problem}",
                file=str(path),
                hint="Make the folder writable or set 'state_dir'.",
            ) from None
        aside = path.with_suffix(f".damaged-{int(time.time())}")
        path.rename(aside)
        log.warning("the state file was damaged (%s); it was set aside as %s and a new one was begun", problem, aside)
        return _migrated(path)


def _migrated(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False)
    path.chmod(0o600)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = NORMAL")
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version > len(MIGRATIONS):
        db.close()
        raise ConfigError(
            f"the state file was written by a newer Wicket (format {version}, this one knows {len(MIGRATIONS)})",
            file=str(path),
            hint="Upgrade Wicket, or set 'state_dir' to another folder.",
        )
    for number, statements in enumerate(MIGRATIONS[version:], version + 1):
        db.execute("BEGIN IMMEDIATE")
        for statement in statements:
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {number}")
        db.execute("COMMIT")
    return db


MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE IF NOT EXISTS listing (server TEXT PRIMARY KEY, body BLOB, fingerprint TEXT, segment BLOB)",
        "CREATE TABLE IF NOT EXISTS result (id TEXT UNIQUE, principal TEXT, tool TEXT, body BLOB, expires_at REAL)",
        """CREATE TABLE IF NOT EXISTS audit (at REAL, principal TEXT, server TEXT, tool TEXT, arguments_digest TEXT,
           outcome TEXT, duration_ms REAL, result_bytes INTEGER)""",
        "CREATE INDEX IF NOT EXISTS audit_at ON audit (at)",
        "CREATE TABLE IF NOT EXISTS usage (principal TEXT, tool TEXT, calls INTEGER, PRIMARY KEY (principal, tool))",
        "CREATE TABLE IF NOT EXISTS note (key TEXT PRIMARY KEY, text TEXT)",
    ),
    (
        """CREATE TABLE registry_server (name TEXT, version TEXT, body BLOB, status TEXT, published_at REAL,
           updated_at REAL, latest INTEGER, origin TEXT, owner TEXT, PRIMARY KEY (name, version))""",
        "CREATE INDEX registry_server_updated ON registry_server (updated_at)",
        """CREATE TABLE api_key (name TEXT, digest BLOB PRIMARY KEY, hint TEXT, scopes TEXT, created_at REAL,
           expires_at REAL, revoked_at REAL, used_at REAL, rates BLOB)""",
        """CREATE TABLE rate_bucket (principal TEXT, kind TEXT, tokens REAL, at REAL,
           PRIMARY KEY (principal, kind))""",
        """CREATE TABLE domain (principal TEXT, domain TEXT, token TEXT, state TEXT, created_at REAL,
           checked_at REAL, verified_at REAL, method TEXT, problem TEXT, PRIMARY KEY (principal, domain))""",
        "CREATE TABLE onboarding (principal TEXT, step TEXT, at REAL, PRIMARY KEY (principal, step))",
        """CREATE TABLE managed_server (name TEXT PRIMARY KEY, kind TEXT, options BLOB, running INTEGER, owner TEXT,
           created_at REAL)""",
        "CREATE TABLE probe (server TEXT, at REAL, ok INTEGER, duration_ms REAL)",
        "CREATE INDEX probe_server ON probe (server, at)",
        "CREATE INDEX probe_at ON probe (at)",
        "CREATE INDEX audit_server ON audit (server, at)",
        "CREATE TABLE watch (server TEXT PRIMARY KEY, until REAL)",
    ),
)
"""One entry for each format; a released entry never changes."""


def _listing_to(listing: Listing) -> JsonObject:
    return {
        "server": listing.server,
        "server_info": listing.server_info,
        "protocol_version": listing.protocol_version,
        "instructions": listing.instructions,
        "capabilities": listing.capabilities,
        "tools": [tool.definition for tool in listing.tools],
        "headed": [tool.name for tool in listing.tools if tool.headed],
        "resources": listing.resources,
        "templates": listing.templates,
        "prompts": listing.prompts,
        "rejected": [[entry.name, entry.reason] for entry in listing.rejected],
        "listed_at": listing.listed_at,
        "ttl": listing.ttl,
    }


def _listing_from(body: Any) -> Listing:
    server: str = body["server"]
    headed = frozenset(body.get("headed", ()))
    return Listing(
        server=server,
        server_info=body["server_info"],
        protocol_version=body["protocol_version"],
        instructions=body["instructions"],
        capabilities=body["capabilities"],
        tools=tuple(Tool(server, one["name"], one, one["name"] in headed) for one in body["tools"]),
        resources=tuple(body["resources"]),
        templates=tuple(body["templates"]),
        prompts=tuple(body["prompts"]),
        rejected=tuple(Rejected(*entry) for entry in body["rejected"]),
        listed_at=body["listed_at"],
        ttl=body["ttl"],
    )
