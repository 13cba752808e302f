"""The registry's state in the default store's SQLite file, on its one thread.

Owns the SQL of the tables that `sqlite.MIGRATIONS` makes for the registry; decides nothing.
"""

import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from wicket_mcp.codec import decode, encode
from wicket_mcp.store.registry_base import (
    Observation,
    RecordQuery,
    Row,
    StoredDomain,
    StoredKey,
    StoredManaged,
    StoredRecord,
)

T = TypeVar("T")

HOUR = 3600.0
_FAILED = ("unavailable", "crashed", "timed_out", "protocol")
_SILENT = ("cancelled", "overloaded", "rate_limited", "cached")
"""Outcomes of a call that say nothing of the server's health: the caller left, or the server was not asked."""

_RECORD = "name, version, body, status, published_at, updated_at, latest, origin, owner"
_KEY = "name, digest, hint, scopes, created_at, expires_at, revoked_at, used_at, rates"
_DOMAIN = "principal, domain, token, state, created_at, checked_at, verified_at, method, problem"
_MANAGED = "name, kind, options, running, owner, created_at"


class Database(Protocol):
    """What is needed of `SqliteStore`."""

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T: ...


class SqliteRegistry:
    """Implements RegistryStore."""

    def __init__(self, database: Database) -> None:
        self._run = database.run

    async def page(self, query: RecordQuery) -> Sequence[StoredRecord]:
        where = ["(name, version) > (?, ?)"]
        values: list[Any] = [*query.after]
        if query.search:
            where.append("instr(lower(name), lower(?)) > 0")
            values.append(query.search)
        if query.updated_since is not None:
            where.append("updated_at >= ?")
            values.append(query.updated_since)
        if query.version == "latest":
            where.append("latest = 1")
        elif query.version:
            where.append("version = ?")
            values.append(query.version)
        if not query.include_deleted:
            where.append("status != 'deleted'")
        text = f"SELECT {_RECORD} FROM registry_server WHERE {' AND '.join(where)} ORDER BY name, version LIMIT ?"  # noqa: S608  (only our own words)
        return [_record(row) for row in await self._rows(text, *values, query.limit)]

    async def versions(self, name: str) -> Sequence[StoredRecord]:
        text = f"SELECT {_RECORD} FROM registry_server WHERE name = ? ORDER BY published_at DESC, rowid DESC"  # noqa: S608
        return [_record(row) for row in await self._rows(text, name)]

    async def save_records(self, records: Sequence[StoredRecord]) -> None:
        rows = [
            (r.name, r.version, encode(r.body), r.status, r.published_at, r.updated_at, r.latest, r.origin, r.owner)
            for r in records
        ]
        dethroned = [(r.name, r.version) for r in records if r.latest]

        def save(db: sqlite3.Connection) -> None:
            db.executemany("UPDATE registry_server SET latest = 0 WHERE name = ? AND version != ?", dethroned)
            db.executemany("INSERT OR REPLACE INTO registry_server VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)

        await self._run(save)

    async def record_stamp(self) -> tuple[int, float]:
        (row,) = await self._rows("SELECT count(*), coalesce(max(updated_at), 0) FROM registry_server")
        return row[0], row[1]

    async def save_key(self, key: StoredKey) -> None:
        row = (
            key.name,
            key.digest,
            key.hint,
            " ".join(sorted(key.scopes)),
            key.created_at,
            key.expires_at,
            key.revoked_at,
            key.used_at,
            encode(key.rates),
        )
        await self._change("INSERT OR REPLACE INTO api_key VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", *row)

    async def keys(self) -> Sequence[StoredKey]:
        return [_key(row) for row in await self._rows(f"SELECT {_KEY} FROM api_key ORDER BY created_at")]  # noqa: S608

    async def key_of(self, digest: bytes, at: float) -> StoredKey | None:
        def find(db: sqlite3.Connection) -> Row | None:
            row: Row | None = db.execute(f"SELECT {_KEY} FROM api_key WHERE digest = ?", (digest,)).fetchone()  # noqa: S608
            if row is not None and at - (row[7] or 0.0) > 60:  # to the minute is enough, and saves a write a call
                db.execute("UPDATE api_key SET used_at = ? WHERE digest = ?", (at, digest))
            return row

        row = await self._run(find)
        return _key(row) if row else None

    async def take(self, principal: str, kind: str, per_hour: int, at: float) -> float:
        def take(db: sqlite3.Connection) -> float:
            row: Row | None = db.execute(
                "SELECT tokens, at FROM rate_bucket WHERE principal = ? AND kind = ?", (principal, kind)
            ).fetchone()
            tokens, last = row or (float(per_hour), at)
            tokens = min(float(per_hour), tokens + max(0.0, at - last) * per_hour / HOUR)
            if tokens < 1.0:
                return (1.0 - tokens) * HOUR / per_hour
            values = (principal, kind, tokens - 1.0, max(at, last))
            db.execute("INSERT OR REPLACE INTO rate_bucket VALUES (?, ?, ?, ?)", values)
            return 0.0

        return await self._run(take)

    async def save_domain(self, domain: StoredDomain) -> None:
        d = domain
        row = (d.principal, d.domain, d.token, d.state, d.created_at, d.checked_at, d.verified_at, d.method, d.problem)
        await self._change("INSERT OR REPLACE INTO domain VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", *row)

    async def domains(self, principal: str) -> Sequence[StoredDomain]:
        text = f"SELECT {_DOMAIN} FROM domain WHERE principal = ? ORDER BY domain"  # noqa: S608
        return [StoredDomain(*row) for row in await self._rows(text, principal)]

    async def record_step(self, principal: str, step: str, at: float) -> None:
        await self._change("INSERT OR IGNORE INTO onboarding VALUES (?, ?, ?)", principal, step, at)

    async def steps(self, principal: str) -> Mapping[str, float]:
        return dict(await self._rows("SELECT step, at FROM onboarding WHERE principal = ?", principal))

    async def save_managed(self, managed: StoredManaged) -> None:
        m = managed
        row = (m.name, m.kind, encode(m.options), m.running, m.owner, m.created_at)
        await self._change("INSERT OR REPLACE INTO managed_server VALUES (?, ?, ?, ?, ?, ?)", *row)

    async def drop_managed(self, name: str) -> None:
        await self._change("DELETE FROM managed_server WHERE name = ?", name)

    async def managed(self) -> Sequence[StoredManaged]:
        rows = await self._rows(f"SELECT {_MANAGED} FROM managed_server ORDER BY created_at, name")  # noqa: S608
        return [
            StoredManaged(name, kind, decode(options), bool(running), owner, created_at)
            for name, kind, options, running, owner, created_at in rows
        ]

    async def save_probe(self, server: str, seen: Observation, keep_since: float) -> None:
        def save(db: sqlite3.Connection) -> None:
            db.execute("INSERT INTO probe VALUES (?, ?, ?, ?)", (server, seen.at, seen.ok, seen.duration_ms))
            db.execute("DELETE FROM probe WHERE at < ?", (keep_since,))

        await self._run(save)

    async def observations(self, server: str, since: float) -> Sequence[Observation]:
        text = f"""SELECT at, outcome NOT IN {_FAILED}, outcome IN {(*_FAILED, "upstream_error")}, duration_ms
                   FROM audit WHERE server = ? AND at >= ? AND outcome NOT IN {_SILENT}
                   UNION ALL SELECT at, ok, NOT ok, duration_ms FROM probe WHERE server = ? AND at >= ?
                   ORDER BY 1"""  # noqa: S608  (only our own words)
        rows = await self._rows(text, server, since, server, since)
        return [Observation(at, bool(ok), bool(faulty), duration) for at, ok, faulty, duration in rows]

    async def observed(self, since: float) -> Collection[str]:
        text = "SELECT server FROM audit WHERE at >= ? UNION SELECT server FROM probe WHERE at >= ?"
        return {row[0] for row in await self._rows(text, since, since)}

    async def called(self, since: float) -> Mapping[str, int]:
        text = "SELECT server, count(*) FROM audit WHERE at >= ? AND outcome IN ('ok', 'error') GROUP BY server"
        return dict(await self._rows(text, since))

    async def watch(self, server: str, until: float) -> None:
        await self._change("INSERT OR REPLACE INTO watch VALUES (?, ?)", server, until)

    async def watched(self, at: float) -> Collection[str]:
        return {row[0] for row in await self._rows("SELECT server FROM watch WHERE until >= ?", at)}

    async def _rows(self, text: str, *values: Any) -> list[Any]:
        return await self._run(lambda db: db.execute(text, values).fetchall())

    async def _change(self, text: str, *values: Any) -> None:
        await self._run(lambda db: db.execute(text, values))


def _record(row: Row) -> StoredRecord:
    name, version, body, status, published_at, updated_at, latest, origin, owner = row
    return StoredRecord(name, version, decode(body), status, published_at, updated_at, bool(latest), origin, owner)


def _key(row: Row) -> StoredKey:
    name, digest, hint, scopes, created_at, expires_at, revoked_at, used_at, rates = row
    return StoredKey(
        name, digest, hint, frozenset(scopes.split()), created_at, expires_at, revoked_at, used_at, decode(rates)
    )
