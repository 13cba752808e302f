"""Token buckets, taken from under the write lock so that processes share them. Implements LimitStore."""

from wicket_mcp.store.sql.part import Database, Part, Row, upsert

HOUR = 3600.0
DAY = 24 * HOUR
"""A bucket that was filled later than this from now was filled by a wrong clock, and would not fill for as long."""


class SqlLimits(Part):
    async def take(self, principal: str, kind: str, per_hour: int, at: float) -> float:
        def take(db: Database) -> float:
            tokens, last, wrong = _read(db, principal, kind, per_hour, at)
            wait = _wait(tokens, per_hour)
            if not wait or wrong:
                _write(db, principal, kind, (tokens if wait else tokens - 1.0, last))
            return wait + last - at if wait else 0.0

        return await self._connection.write("rate_bucket", take)

    async def draw(self, principal: str, kind: str, per_hour: int, at: float, amount: float) -> float:
        def draw(db: Database) -> float:
            tokens, last, _ = _read(db, principal, kind, per_hour, at)
            if amount:
                _write(db, principal, kind, (tokens - amount, last))
            return _wait(tokens - amount, per_hour)

        if not amount:
            return await self._connection.read(draw)
        return await self._connection.write("rate_bucket", draw)


def _read(db: Database, principal: str, kind: str, per_hour: int, at: float) -> tuple[float, float, bool]:
    """What a bucket holds at the time `at`, the time to store with it (clocks of processes may differ), and whether the
    stored time is wrong.
    """
    query = "SELECT tokens, at FROM rate_bucket WHERE principal = ? AND kind = ?"
    row: Row | None = db.execute(query, (principal, kind)).fetchone()
    tokens, last = row or (float(per_hour), at)
    wrong = last - at > DAY
    if wrong:
        last = at
    return min(float(per_hour), tokens + max(0.0, at - last) * per_hour / HOUR), max(at, last), wrong


def _write(db: Database, principal: str, kind: str, bucket: tuple[float, float]) -> None:
    db.execute(upsert("rate_bucket", "principal, kind, tokens, at", "principal, kind"), (principal, kind, *bucket))


def _wait(tokens: float, per_hour: int) -> float:
    """Seconds until there is a token; 0.0 if there is one."""
    return (1.0 - tokens) * HOUR / per_hour if tokens < 1.0 else 0.0
