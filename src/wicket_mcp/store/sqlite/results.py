"""Large results, within a total size. Implements ResultStore."""

import sqlite3
import time

from wicket_mcp.model import Principal
from wicket_mcp.store.model import StoredResult
from wicket_mcp.store.sqlite.connection import Part


class SqliteResults(Part):
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

        await self._connection.write(save)

    async def load_result(self, result_id: str, principal: Principal) -> StoredResult | None:
        text = """SELECT id, principal, tool, body, expires_at FROM result
                  WHERE id = ? AND principal = ? AND expires_at >= ?"""
        row = await self._row(text, result_id, principal.name, time.time())
        return StoredResult(*row) if row else None
