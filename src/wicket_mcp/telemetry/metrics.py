"""Metrics for Prometheus: the table of every metric, counters, histograms, and the text format.

Owns names, kinds, labels and help (`FAMILIES`: the documentation and the tests are checked against it). Knows nothing
about calls, servers or HTTP: `observing.py` feeds it and `surface/metrics.py` serves it. Values that a live part
already has are read on each scrape (`read_from`), so that they cost nothing otherwise. The values of several processes
of one gateway are added up (`add_up`).
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from msgspec import Struct

Kind = Literal["counter", "gauge", "histogram"]
Labels = tuple[str, ...]
Reading = tuple[str, Labels, float]
"""A metric's name, the values of its labels, and its value."""

SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
BYTES = (256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304)
MAX_SERIES = 20_000
"""Per metric: calls with ever new names must not fill our memory."""
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Family(NamedTuple):
    """One metric."""

    kind: Kind
    labels: Labels
    help: str
    buckets: Sequence[float] = ()


FAMILIES: Mapping[str, Family] = {
    "wicket_calls_total": Family("counter", ("server", "tool", "outcome"), "Requests to servers, by how they ended."),
    "wicket_call_duration_seconds": Family("histogram", ("server",), "How long requests to servers took.", SECONDS),
    "wicket_gateway_duration_seconds": Family(
        "histogram",
        (),
        "The part of this time that the gateway itself took.",
        (0.0005, 0.001, 0.002, 0.005, *SECONDS[1:7]),
    ),
    "wicket_calls_in_flight": Family("gauge", (), "Requests to servers under way."),
    "wicket_upstream_up": Family("gauge", ("server",), "1 if a server is connected, else 0."),
    "wicket_upstream_breaker_open": Family(
        "gauge", ("server",), "1 if a server gets no calls now because it failed too often."
    ),
    "wicket_upstream_restarts_total": Family(
        "counter", ("server",), "Starts of a server, or connections to it, after the first."
    ),
    "wicket_upstream_in_flight": Family("gauge", ("server",), "Requests that a server works on."),
    "wicket_upstream_waiting": Family("gauge", ("server",), "Requests that wait for a slot or a connection."),
    "wicket_upstream_strays_total": Family(
        "counter", ("server",), "Output of a server that was not a message, or that answered no request."
    ),
    "wicket_sessions": Family("gauge", (), "Open sessions of clients of the handshake era."),
    "wicket_held_calls": Family("gauge", (), "Calls that wait for an answer from their client."),
    "wicket_scripts_total": Family("counter", ("language", "outcome"), "Scripts that ended."),
    "wicket_results_bytes": Family("histogram", (), "Characters of results that a model would read.", BYTES),
    "wicket_tokens_disclosed_total": Family(
        "counter", ("dialect", "kind"), "Estimated tokens of tool lists and answers that clients were given."
    ),
    "wicket_tools_changed_total": Family(
        "counter", ("server",), "Tools of a server that appeared, changed or disappeared."
    ),
    "wicket_oauth_refresh_total": Family("counter", ("server", "outcome"), "Refreshed access tokens of servers."),
    "wicket_event_loop_lag_seconds": Family("gauge", (), "The longest delay of the event loop since the last scrape."),
    "wicket_event_loop_held_total": Family("counter", (), "Times that the event loop was blocked; the log says why."),
    "wicket_requests_rejected_total": Family("counter", (), "Requests that were refused because of too much load."),
    "wicket_audit_lost_total": Family("counter", (), "Records of the audit that could not be stored."),
    "wicket_audit_waiting": Family("gauge", (), "Records of the audit that wait to be written."),
    "wicket_export_lost_total": Family("counter", (), "Spans and durations that the collector did not get."),
    "wicket_auth_failures_total": Family("counter", (), "Requests without a token or with a wrong one."),
    "wicket_background_failures_total": Family("counter", (), "Background tasks that failed; the log says which."),
    "wicket_outbox_dropped_total": Family("counter", (), "Messages that were dropped for slow clients."),
    "wicket_outbox_replaced_total": Family("counter", (), "Notifications that were replaced by a later one."),
}


LARGEST = frozenset({"wicket_upstream_up", "wicket_upstream_breaker_open", "wicket_event_loop_lag_seconds"})
"""The gauges of which several processes show the largest value, not the sum."""


class _Histogram:
    __slots__ = ("counts", "total")

    def __init__(self, buckets: int) -> None:
        self.counts = [0] * (buckets + 1)
        self.total = 0.0


class Metrics:
    """The counters of one gateway, and the readers for everything else."""

    def __init__(self) -> None:
        self._counters: dict[str, dict[Labels, float]] = {}
        self._histograms: dict[str, dict[Labels, _Histogram]] = {}
        self._readers: list[Callable[[], Iterable[Reading]]] = []

    def add(self, name: str, *labels: str, by: float = 1) -> None:
        series = self._counters.setdefault(name, {})
        if labels in series or len(series) < MAX_SERIES:
            series[labels] = series.get(labels, 0) + by

    def observe(self, name: str, values: Sequence[float], *labels: str) -> None:
        series = self._histograms.setdefault(name, {})
        buckets = FAMILIES[name].buckets
        histogram = series.get(labels)
        if histogram is None:
            if len(series) >= MAX_SERIES:
                return
            histogram = series[labels] = _Histogram(len(buckets))
        counts = histogram.counts
        for value in values:
            counts[bisect_left(buckets, value)] += 1
        histogram.total += sum(values)

    def read_from(self, reader: Callable[[], Iterable[Reading]]) -> None:
        """Call `reader` for its values on each scrape."""
        self._readers.append(reader)

    def read(self) -> "Values":
        """Everything as it is now."""
        values: dict[str, dict[Labels, float]] = {name: dict(series) for name, series in self._counters.items()}
        for reader in self._readers:
            for name, labels, value in reader():
                values.setdefault(name, {})[labels] = value
        return Values(
            [(name, labels, value) for name, series in values.items() for labels, value in series.items()],
            [
                (name, labels, list(histogram.counts), histogram.total)
                for name, series in self._histograms.items()
                for labels, histogram in series.items()
            ],
        )


class Values(Struct, frozen=True):
    """What one process has measured."""

    readings: list[Reading] = []
    histograms: list[tuple[str, Labels, list[int], float]] = []


def add_up(members: Sequence[Values], ended: Sequence[Values] = ()) -> Values:
    """The values of several processes as those of one; those that have `ended` add only their counters."""
    readings: dict[tuple[str, Labels], float] = {}
    histograms: dict[tuple[str, Labels], tuple[list[int], float]] = {}
    for is_alive, values in (*((True, values) for values in members), *((False, values) for values in ended)):
        for name, labels, value in values.readings:
            if not is_alive and FAMILIES[name].kind == "gauge":
                continue
            known = readings.get((name, labels), 0.0)
            readings[name, labels] = max(known, value) if name in LARGEST else known + value
        for name, labels, counts, total in values.histograms:
            before, sum_before = histograms.get((name, labels), ([0] * len(counts), 0.0))
            added = [old + new for old, new in zip(before, counts, strict=True)]
            histograms[name, labels] = added, sum_before + total
    return Values(
        [(*key, value) for key, value in readings.items()],
        [(*key, counts, total) for key, (counts, total) in histograms.items()],
    )


def render(values: Values) -> str:
    """The values in the text format of Prometheus."""
    readings: dict[str, dict[Labels, float]] = {}
    for name, labels, value in values.readings:
        readings.setdefault(name, {})[labels] = value
    lines: list[str] = []
    for name, family in FAMILIES.items():
        lines += [f"# HELP {name} {family.help}", f"# TYPE {name} {family.kind}"]
        if family.kind == "histogram":
            for histogram, labels, counts, total in values.histograms:
                if histogram == name:
                    lines += _render_histogram(name, family, labels, counts, total)
        else:
            series = readings.get(name, {})
            if not family.labels:
                series.setdefault((), 0)
            lines += [f"{name}{_render_labels(family.labels, key)} {value:.17g}" for key, value in series.items()]
    return "\n".join(lines) + "\n"


def _render_histogram(name: str, family: Family, labels: Labels, counts: Sequence[int], total: float) -> list[str]:
    lines: list[str] = []
    so_far = 0
    for bound, count in zip((*family.buckets, float("inf")), counts, strict=True):
        so_far += count
        edge = "+Inf" if bound == float("inf") else f"{bound:g}"
        lines.append(f"{name}_bucket{_render_labels((*family.labels, 'le'), (*labels, edge))} {so_far}")
    label_text = _render_labels(family.labels, labels)
    return [*lines, f"{name}_sum{label_text} {total:.17g}", f"{name}_count{label_text} {so_far}"]


def _render_labels(names: Labels, values: Labels) -> str:
    pairs = ",".join(f'{name}="{_escape(value)}"' for name, value in zip(names, values, strict=True))
    return f"{{{pairs}}}" if pairs else ""


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
