"""Large results, within a total size. Implements ResultStore."""

from collections import Counter, defaultdict, deque

from wicket_mcp.model import Principal
from wicket_mcp.store.clock import steady_time
from wicket_mcp.store.model import StoredResult
from wicket_mcp.store.sql.part import Database, Part


class SqlResults(Part):
    async def save_result(self, result: StoredResult, max_total_bytes: int) -> None:
        def save(db: Database) -> None:
            db.execute("DELETE FROM result WHERE expires_at < ?", (steady_time(),))
            (total,) = db.execute("SELECT coalesce(sum(length(body)), 0) FROM result").fetchone()
            surplus = total + len(result.body) - max_total_bytes
            if surplus > 0:
                rows = db.execute("SELECT rowid, principal, length(body) FROM result ORDER BY rowid").fetchall()
                leaving = _leaving(rows, result, surplus)
                db.executemany("DELETE FROM result WHERE rowid = ?", [(number,) for number in leaving])
            row = (result.id, result.principal, result.tool, result.body, result.expires_at)
            db.execute("INSERT INTO result (id, principal, tool, body, expires_at) VALUES (?, ?, ?, ?, ?)", row)

        await self._connection.write("result", save)

    async def load_result(self, result_id: str, principal: Principal) -> StoredResult | None:
        text = """SELECT id, principal, tool, body, expires_at FROM result
                  WHERE id = ? AND principal = ? AND expires_at >= ?"""
        row = await self._row(text, result_id, principal.id, steady_time())
        return StoredResult(*row) if row else None

    async def list_results(self, tool: str, principal: Principal) -> list[str]:
        text = "SELECT id FROM result WHERE tool = ? AND principal = ? AND expires_at >= ? ORDER BY rowid"
        return [row[0] for row in await self._rows(text, tool, principal.id, steady_time())]


def _leaving(rows: list[tuple[int, str, int]], coming: StoredResult, surplus: int) -> list[int]:
    """Which results (number, principal, size; oldest first) to drop: always the oldest of the principal with the
    most.
    """
    held = Counter({coming.principal: len(coming.body)})
    oldest: dict[str, deque[tuple[int, int]]] = defaultdict(deque)
    for number, principal, size in rows:
        held[principal] += size
        oldest[principal].append((number, size))
    leaving: list[int] = []
    while surplus > 0 and oldest:
        holder = max(oldest, key=lambda principal: held[principal])
        number, size = oldest[holder].popleft()
        if not oldest[holder]:
            del oldest[holder]
        leaving.append(number)
        held[holder] -= size
        surplus -= size
    return leaving
