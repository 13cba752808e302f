"""Call records and the usage counted from them, written in batches. Implements AuditStore and UsageStore."""

from collections.abc import Callable, Mapping

from msgspec.structs import astuple

from wicket_mcp.codec import decode, encode
from wicket_mcp.model import Principal, name_of
from wicket_mcp.store.clock import steady_time
from wicket_mcp.store.model import AuditQuery, CallRecord, CallTotals, ListTotals
from wicket_mcp.store.records import SUCCESSES, Batch, is_call
from wicket_mcp.store.sql.part import Database, Part, insert

AUDIT_DAYS = 30
MOST_DROPPED = 2000
"""The most records that are dropped with one batch, so that the end of a month does not block writing."""
HOUR = 3600
_CALL = (
    "at, principal, server, tool, arguments_digest, outcome, duration_ms, result_bytes, method, client, detail, run, "
    "upstream_ms, arguments_bytes, rule, holder, steps"
)


_OWNED = "principal = ? AND holder = ?"
_OWN_COLUMNS = len(_CALL.split(",")) - 1
"""A record's fields have the order of the columns; only its steps are written in another form."""


class SqlAudit(Part):
    @property
    def records_problem(self) -> str:
        return self._recorder.problem

    @property
    def lost_records(self) -> int:
        return self._recorder.lost

    @property
    def waiting_records(self) -> int:
        return self._recorder.waiting

    @property
    def record_call(self) -> Callable[[CallRecord], None]:
        return self._recorder.record

    async def usage(self, principal: Principal) -> Mapping[str, int]:
        await self._recorder.settle()
        return dict(await self._rows("SELECT tool, calls FROM usage WHERE principal = ?", principal.id))

    async def recent_calls(self, principal: Principal, limit: int) -> list[CallRecord]:
        return await self.find_calls(AuditQuery(owner=principal.id, method="tools/call", limit=limit))

    async def find_calls(self, query: AuditQuery) -> list[CallRecord]:
        await self._recorder.settle()
        filters = {name: getattr(query, name) for name in ("principal", "server", "tool", "method", "run")}
        conditions = [f"{column} = ?" for column, value in filters.items() if value]
        values: list[object] = [value for value in filters.values() if value]
        if query.owner:
            conditions.append(_OWNED)
            values += _split(query.owner)
        if query.outcome == "failed":
            conditions.append(f"outcome NOT IN {SUCCESSES}")
        elif query.outcome:
            conditions.append("outcome = ?")
            values.append(query.outcome)
        if query.since:
            conditions.append("at >= ?")
            values.append(query.since)
        if query.after:
            conditions.append("rowid > ?")
            values.append(query.after)
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        order = "at DESC, rowid DESC" if query.newest_first else "rowid"
        text = f"SELECT {_CALL}, rowid FROM audit {where} ORDER BY {order} LIMIT ?"  # noqa: S608  (our own words)
        rows = await self._rows(text, *values, query.limit, long=True)
        return [CallRecord(*fields, id=number, steps=_read_steps(steps)) for *fields, steps, number in rows]

    async def call_totals(self, since: float, width: float, principal: str = "") -> list[CallTotals]:
        await self._recorder.settle()
        filter_sql, values = ("AND principal = ?", (principal,)) if principal else ("", ())
        hours = int(width // HOUR)  # our own value, as a literal: an engine must see that it groups by what it selects
        text = f"""SELECT hour / {hours} AS stretch, server, sum(calls), sum(failed), sum(cached),
                          sum(duration_ms), sum(arguments_bytes), sum(result_bytes)
                   FROM audit_hour WHERE hour >= ? {filter_sql} GROUP BY stretch, server ORDER BY stretch"""  # noqa: S608
        rows = await self._rows(text, int(since // HOUR), *values, long=True)
        return [CallTotals(float(stretch * hours * HOUR), *sums) for stretch, *sums in rows]

    async def list_totals(self, since: float, principal: str = "") -> list[ListTotals]:
        await self._recorder.settle()
        filter_sql, values = (f"AND {_OWNED}", _split(principal)) if principal else ("", ())
        text = f"""SELECT tool, client, result_bytes, count(*) FROM audit
                   WHERE method = 'tools/list' AND at >= ? {filter_sql} GROUP BY tool, client, result_bytes"""  # noqa: S608
        return [ListTotals(*row) for row in await self._rows(text, since, *values, long=True)]


def _split(owner: str) -> tuple[str, str]:
    """The name and the holder in a principal's `id`."""
    name = name_of(owner)
    return name, owner[len(name) + 1 :]


def write_batch(db: Database, batch: Batch) -> None:
    """Store one batch, and drop records that are too old."""
    batch = batch.storable()
    calls = [(*astuple(record)[:_OWN_COLUMNS], _write_steps(record)) for record in batch.calls]
    if calls:
        db.executemany(insert("audit", _CALL), calls)
        oldest = steady_time() - AUDIT_DAYS * 86400
        too_old = "SELECT rowid FROM audit WHERE at < ? ORDER BY at LIMIT ?"
        db.execute(f"DELETE FROM audit WHERE rowid IN ({too_old})", (oldest, MOST_DROPPED))  # noqa: S608
        db.executemany(
            """INSERT INTO audit_hour VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (hour, principal, server) DO UPDATE
               SET calls = audit_hour.calls + excluded.calls, failed = audit_hour.failed + excluded.failed,
                   cached = audit_hour.cached + excluded.cached,
                   duration_ms = audit_hour.duration_ms + excluded.duration_ms,
                   arguments_bytes = audit_hour.arguments_bytes + excluded.arguments_bytes,
                   result_bytes = audit_hour.result_bytes + excluded.result_bytes""",
            _hours(batch),
        )
        db.execute("DELETE FROM audit_hour WHERE hour < ?", (int(oldest // HOUR),))
        db.executemany(
            """INSERT INTO usage VALUES (?, ?, ?)
               ON CONFLICT (principal, tool) DO UPDATE SET calls = usage.calls + excluded.calls""",
            [(*owner, count) for owner, count in batch.usage().items()],
        )
    db.executemany(
        "UPDATE api_key SET used_at = ? WHERE digest = ?", [(at, digest) for digest, at in batch.keys_used.items()]
    )


def _write_steps(record: CallRecord) -> str:
    """As JSON, to the microsecond; empty for an event that is not a call."""
    return encode({name: round(elapsed, 3) for name, elapsed in record.steps.items()}).decode() if record.steps else ""


def _read_steps(text: str | None) -> dict[str, float]:
    return decode(text) if text else {}


def _hours(batch: Batch) -> list[tuple[object, ...]]:
    """The calls of servers in a batch, summed by hour, principal and server."""
    sums: dict[tuple[int, str, str], list[float]] = {}
    for r in batch.calls:
        if r.server and is_call(r):
            row = sums.setdefault((int(r.at // HOUR), r.owner, r.server), [0, 0, 0, 0.0, 0, 0])
            row[0] += 1
            row[1] += r.outcome not in SUCCESSES
            row[2] += r.outcome == "cached"
            row[3] += r.duration_ms
            row[4] += r.arguments_bytes
            row[5] += r.result_bytes
    return [(*key, *row) for key, row in sums.items()]
