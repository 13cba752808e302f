"""Histograms of durations, sent to a collector once a minute.

Recording a value appends it to a list, because every request does it, whether its trace is kept or not; a thousand are
counted at once. Used only by `trace.py`.
"""

import asyncio
import struct
import time
from bisect import bisect_left
from collections.abc import Mapping, Sequence

from wicket_mcp.telemetry.otlp import Collector, attributes, double_field, field, fixed_field, number_field

BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
EVERY = 60.0  # seconds
_MOST_SERIES = 500  # combinations of attributes per histogram; later ones count as "other"
_MOST_UNCOUNTED = 1000
_METHODS = frozenset(
    {
        *("", "initialize", "ping", "server/discover", "tools/list", "tools/call", "prompts/list", "prompts/get"),
        *("resources/list", "resources/templates/list", "resources/read", "resources/subscribe"),
        *("resources/unsubscribe", "completion/complete", "logging/setLevel", "subscriptions/listen"),
    }
)
"""The methods that are named; callers can make up others."""
_CUMULATIVE = 2
_BOUNDS = struct.pack(f"<{len(BUCKETS)}d", *BUCKETS)


class _Series:
    """The values of one combination of attributes."""

    __slots__ = ("attributes", "counts", "largest", "smallest", "total")

    def __init__(self, attributes: Mapping[str, str]) -> None:
        self.attributes = attributes
        self.counts = [0] * (len(BUCKETS) + 1)
        self.total = 0.0
        self.smallest, self.largest = float("inf"), 0.0


class Durations:
    """One histogram, in seconds, by method and by error type."""

    def __init__(self, name: str, description: str) -> None:
        self.name = name
        self._description = description
        self._series: dict[tuple[str, str], _Series] = {}
        self._uncounted: list[tuple[float, str, str]] = []

    def record(self, seconds: float, method: str = "", error: str = "") -> None:
        """Counted later, together with others: a call touches nothing but the end of a list."""
        self._uncounted.append((seconds, method, error))
        if len(self._uncounted) >= _MOST_UNCOUNTED:
            self._count()

    def _count(self) -> None:
        uncounted, self._uncounted = self._uncounted, []
        for seconds, method, error in uncounted:
            series = self._series.get((method, error)) or self._begin(method, error)
            series.counts[bisect_left(BUCKETS, seconds)] += 1
            series.total += seconds
            series.largest = max(series.largest, seconds)
            series.smallest = min(series.smallest, seconds)

    def _begin(self, method: str, error: str) -> _Series:
        if method not in _METHODS:
            method = "other"
        if len(self._series) >= _MOST_SERIES:
            method, error = "other", ""
        if (series := self._series.get((method, error))) is not None:
            return series
        named = {"mcp.method.name": method, "error.type": error}
        series = _Series({name: value for name, value in named.items() if value})
        self._series[method, error] = series
        return series

    def encode(self, since: int, now: int) -> bytes:
        """What was recorded since `since`; empty if nothing was. Both are nanoseconds of the wall clock."""
        self._count()
        if not self._series:
            return b""
        points = b"".join([field(1, _encode(series, since, now)) for series in self._series.values()])
        about = field(1, self.name.encode()) + field(2, self._description.encode()) + field(3, b"s")
        return about + field(9, points + number_field(2, _CUMULATIVE))


def _encode(series: _Series, since: int, now: int) -> bytes:
    counts = struct.pack(f"<{len(series.counts)}Q", *series.counts)
    return b"".join(
        [
            attributes(9, series.attributes),
            fixed_field(2, since),
            fixed_field(3, now),
            fixed_field(4, sum(series.counts)),
            double_field(5, series.total),
            field(6, counts),
            field(7, _BOUNDS),
            double_field(11, series.smallest),
            double_field(12, series.largest),
        ]
    )


class DurationsExport:
    """Sends histograms until it is closed, and once more then."""

    def __init__(self, endpoint: str, histograms: Sequence[Durations]) -> None:
        self._collector = Collector(endpoint, "metrics")
        self._histograms = histograms
        self._since = time.time_ns()
        self._timer = asyncio.get_running_loop().call_later(EVERY, self._repeat)

    @property
    def lost(self) -> int:
        return self._collector.lost

    async def close(self) -> None:
        self._timer.cancel()
        self._add()
        await self._collector.close()

    def _repeat(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(EVERY, self._repeat)
        self._add()

    def _add(self) -> None:
        now = time.time_ns()
        for histogram in self._histograms:
            if metric := histogram.encode(self._since, now):
                self._collector.add(metric)
