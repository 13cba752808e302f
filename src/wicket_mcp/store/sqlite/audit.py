"""Call records and the usage counted from them, written in batches. Implements AuditStore and UsageStore."""

import sqlite3
import time
from collections.abc import Mapping

from wicket_mcp.model import Principal
from wicket_mcp.store.model import CallRecord
from wicket_mcp.store.records import Batch
from wicket_mcp.store.sqlite.connection import Part

AUDIT_DAYS = 30
_CALL = "at, principal, server, tool, arguments_digest, outcome, duration_ms, result_bytes"


class SqliteAudit(Part):
    @property
    def lost_records(self) -> int:
        return self._recorder.lost

    def record_call(self, record: CallRecord) -> None:
        self._recorder.record(record)

    async def usage(self, principal: Principal) -> Mapping[str, int]:
        await self._recorder.settle()
        return dict(await self._rows("SELECT tool, calls FROM usage WHERE principal = ?", principal.name))

    async def recent_calls(self, principal: Principal, limit: int) -> list[CallRecord]:
        await self._recorder.settle()
        text = f"SELECT {_CALL} FROM audit WHERE principal = ? ORDER BY at DESC, rowid DESC LIMIT ?"  # noqa: S608
        return [CallRecord(*row) for row in await self._rows(text, principal.name, limit)]


def write_batch(db: sqlite3.Connection, batch: Batch) -> None:
    """Keep one batch, and drop what has become too old."""
    calls = [
        (r.at, r.principal, r.server, r.tool, r.arguments_digest, r.outcome, r.duration_ms, r.result_bytes)
        for r in batch.calls
    ]
    if calls:
        db.executemany(f"INSERT INTO audit ({_CALL}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", calls)  # noqa: S608
        db.execute("DELETE FROM audit WHERE at < ?", (time.time() - AUDIT_DAYS * 86400,))
        db.executemany(
            """INSERT INTO usage VALUES (?, ?, ?)
               ON CONFLICT (principal, tool) DO UPDATE SET calls = calls + excluded.calls""",
            [(*whose, count) for whose, count in batch.usage().items()],
        )
    db.executemany(
        "UPDATE api_key SET used_at = ? WHERE digest = ?", [(at, digest) for digest, at in batch.keys_used.items()]
    )
