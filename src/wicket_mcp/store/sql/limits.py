"""Token buckets, taken from under the write lock so that processes share them. Implements LimitStore."""

from wicket_mcp.store.sql.part import Database, Part, Row, upsert

HOUR = 3600.0


class SqlLimits(Part):
    async def take(self, principal: str, kind: str, per_hour: int, at: float) -> float:
        def take(db: Database) -> float:
            bucket = _read(db, principal, kind, per_hour, at)
            if not (wait := _wait(bucket[0], per_hour)):
                _write(db, principal, kind, (bucket[0] - 1.0, bucket[1]))
            return wait

        return await self._connection.write("rate_bucket", take)

    async def draw(self, principal: str, kind: str, per_hour: int, at: float, amount: float) -> float:
        def draw(db: Database) -> float:
            tokens, last = _read(db, principal, kind, per_hour, at)
            if amount:
                _write(db, principal, kind, (tokens - amount, last))
            return _wait(tokens - amount, per_hour)

        if not amount:
            return await self._connection.read(draw)
        return await self._connection.write("rate_bucket", draw)


def _read(db: Database, principal: str, kind: str, per_hour: int, at: float) -> tuple[float, float]:
    """What a bucket holds at the time `at`, and the time to store with it: clocks of processes may differ."""
    query = "SELECT tokens, at FROM rate_bucket WHERE principal = ? AND kind = ?"
    row: Row | None = db.execute(query, (principal, kind)).fetchone()
    tokens, last = row or (float(per_hour), at)
    return min(float(per_hour), tokens + max(0.0, at - last) * per_hour / HOUR), max(at, last)


def _write(db: Database, principal: str, kind: str, bucket: tuple[float, float]) -> None:
    db.execute(upsert("rate_bucket", "principal, kind, tokens, at", "principal, kind"), (principal, kind, *bucket))


def _wait(tokens: float, per_hour: int) -> float:
    """Seconds until there is a token; 0.0 if there is one."""
    return (1.0 - tokens) * HOUR / per_hour if tokens < 1.0 else 0.0
