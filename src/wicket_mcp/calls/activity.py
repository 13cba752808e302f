"""Statistics of recent calls by server: how many, how many failed, how long they took. Pure."""

from collections.abc import Iterable, Sequence

import msgspec

from wicket_mcp.store.model import CallRecord
from wicket_mcp.store.records import SUCCESSES

SAMPLE = 2000
"""How many of the latest calls are included."""


class Activity(msgspec.Struct, frozen=True):
    """One server's recent calls. Latencies in milliseconds; None if no call reached it."""

    calls: int
    failed: int
    cached: int
    p50: float | None
    p95: float | None


def by_server(records: Iterable[CallRecord]) -> dict[str, Activity]:
    grouped: dict[str, list[CallRecord]] = {}
    for record in records:
        grouped.setdefault(record.server, []).append(record)
    return {server: activity(calls) for server, calls in grouped.items()}


def activity(records: Sequence[CallRecord]) -> Activity:
    answered = sorted(record.duration_ms for record in records if record.outcome in ("ok", "error"))
    cached = sum(record.outcome == "cached" for record in records)
    failed = sum(record.outcome not in SUCCESSES for record in records)
    return Activity(len(records), failed, cached, _percentile(answered, 50), _percentile(answered, 95))


def _percentile(ordered: Sequence[float], share: int) -> float | None:
    if not ordered:
        return None
    return round(ordered[min(len(ordered) - 1, len(ordered) * share // 100)], 1)
