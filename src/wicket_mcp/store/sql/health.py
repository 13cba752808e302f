"""Observations of servers: probes, and the calls of the audit. Implements HealthStore."""

import math
from collections.abc import Collection, Mapping, Sequence

from wicket_mcp.store.clock import steady_time
from wicket_mcp.store.model import Observation
from wicket_mcp.store.sql.audit import HOUR
from wicket_mcp.store.sql.part import Database, Part, insert, upsert

_FAILED = ("unavailable", "crashed", "timed_out", "protocol")
_SILENT = (
    *("cancelled", "overloaded", "rate_limited", "cached", "internal", "unasked"),
    *("bad_arguments", "unknown_name", "ambiguous_name", "denied", "unknown_result"),
)
"""Outcomes that say nothing about the server: it was not asked, or did not cause the answer."""
_IS_CALL = "server != '' AND replace(method, '/', '') != method AND method != 'tools/list'"
"""Like `records.is_call`: acts, such as a sign-in to a server, and messages are no calls."""


MOST_OBSERVATIONS = 10_000
"""The newest calls that decide a server's health: a million would say the same, and take seconds."""


class SqlHealth(Part):
    async def save_probe(self, server: str, seen: Observation, keep_since: float) -> None:
        def save(db: Database) -> None:
            db.execute(insert("probe", "server, at, ok, duration_ms"), (server, seen.at, seen.ok, seen.duration_ms))
            ahead = max(0.0, seen.at - steady_time())
            db.execute("DELETE FROM probe WHERE at < ?", (keep_since - ahead,))

        await self._connection.write("probe", save)

    async def observations(self, server: str, since: float) -> Sequence[Observation]:
        await self._recorder.settle()
        text = f"""SELECT * FROM (
                     SELECT at, outcome NOT IN {_FAILED}, outcome IN {(*_FAILED, "upstream_error")}, duration_ms
                     FROM audit WHERE server = ? AND at >= ? AND outcome NOT IN {_SILENT} AND {_IS_CALL}
                     ORDER BY at DESC LIMIT {MOST_OBSERVATIONS}) calls
                   UNION ALL SELECT at, ok <> 0, ok = 0, duration_ms FROM probe WHERE server = ? AND at >= ?
                   ORDER BY 1"""  # noqa: S608  (only our own words)
        rows = await self._rows(text, server, since, server, since, long=True)
        return [Observation(at, bool(ok), bool(faulty), duration) for at, ok, faulty, duration in rows]

    async def observed_servers(self, since: float) -> Collection[str]:
        await self._recorder.settle()
        text = f"""SELECT server FROM audit WHERE at >= ? AND at < ? AND {_IS_CALL}
                  UNION SELECT server FROM audit_hour WHERE hour >= ?
                  UNION SELECT server FROM probe WHERE at >= ?"""  # noqa: S608  (only our own words)
        rows = await self._rows(text, since, *_whole_hours(since), since, long=True)
        return {row[0] for row in rows}

    async def call_counts(self, since: float) -> Mapping[str, int]:
        await self._recorder.settle()
        text = f"""SELECT server, sum(calls) FROM (
                    SELECT server, count(*) AS calls FROM audit
                    WHERE at >= ? AND at < ? AND outcome IN ('ok', 'cancelled') AND {_IS_CALL} GROUP BY server
                    UNION ALL SELECT server, calls - failed - cached FROM audit_hour WHERE hour >= ?) answered
                  GROUP BY server HAVING sum(calls) > 0"""  # noqa: S608  (only our own words)
        return dict(await self._rows(text, since, *_whole_hours(since), long=True))

    async def watch(self, server: str, until: float) -> None:
        await self._change(upsert("watch", "server, until", "server"), server, until)

    async def watched_servers(self, at: float) -> Collection[str]:
        return {row[0] for row in await self._rows("SELECT server FROM watch WHERE until >= ?", at)}


def _whole_hours(since: float) -> tuple[float, int]:
    """The start and number of the first whole hour after `since`: from there on the hourly sums are used."""
    hour = math.ceil(since / HOUR)
    return float(hour * HOUR), hour
