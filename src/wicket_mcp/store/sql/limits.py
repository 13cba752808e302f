"""Token buckets, taken from under the write lock so that processes share them. Implements LimitStore."""

from wicket_mcp.store.sql.part import Database, Part, Row, upsert

HOUR = 3600.0


class SqlLimits(Part):
    async def take(self, principal: str, kind: str, per_hour: int, at: float) -> float:
        def take(db: Database) -> float:
            row: Row | None = db.execute(
                "SELECT tokens, at FROM rate_bucket WHERE principal = ? AND kind = ?", (principal, kind)
            ).fetchone()
            tokens, last = row or (float(per_hour), at)
            tokens = min(float(per_hour), tokens + max(0.0, at - last) * per_hour / HOUR)
            if tokens < 1.0:
                return (1.0 - tokens) * HOUR / per_hour
            values = (principal, kind, tokens - 1.0, max(at, last))
            db.execute(upsert("rate_bucket", "principal, kind, tokens, at", "principal, kind"), values)
            return 0.0

        return await self._connection.write("rate_bucket", take)
