"""The registry's records: versions of servers. Implements RecordStore."""

import re
from collections.abc import Sequence
from typing import Any

from wicket_mcp.codec import decode, encode
from wicket_mcp.store.model import RecordQuery, StoredRecord
from wicket_mcp.store.sql.part import Database, Part, Row, upsert

_RECORD = "name, version, body, status, published_at, updated_at, latest, origin, owner"


class SqlRecords(Part):
    async def page(self, query: RecordQuery) -> Sequence[StoredRecord]:
        where = ["(name, version) > (?, ?)"]
        values: list[Any] = [*query.after]
        if query.search:
            where.append("lower(name) LIKE ? ESCAPE '!'")
            values.append(f"%{_literal(query.search.lower())}%")
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

        def save(db: Database) -> None:
            db.executemany("UPDATE registry_server SET latest = 0 WHERE name = ? AND version != ?", dethroned)
            db.executemany(upsert("registry_server", _RECORD, "name, version"), rows)

        await self._connection.write("registry_server", save)

    async def record_stamp(self) -> tuple[int, float]:
        (row,) = await self._rows("SELECT count(*), coalesce(max(updated_at), 0) FROM registry_server")
        return row[0], row[1]


def _literal(text: str) -> str:
    """The text for LIKE, with `%` and `_` taken literally."""
    return re.sub("([!%_])", r"!\1", text)


def _record(row: Row) -> StoredRecord:
    name, version, body, status, published_at, updated_at, latest, origin, owner = row
    return StoredRecord(name, version, decode(body), status, published_at, updated_at, bool(latest), origin, owner)
