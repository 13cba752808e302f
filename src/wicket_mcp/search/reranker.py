"""A second look at the best tools for a query: a small network that moves each of them up or down a little.

It sees how a tool compares with the query by each signal and with the other tools of the catalogue, which no fixed
weights can tell. It was fitted by us (`tools/reranker`), on the signals of Wicket's own encoder only, and is read from
the package. Called by the ranker; knows neither texts nor tools.
"""

from dataclasses import dataclass
from functools import cache
from math import log, log1p
from pathlib import Path
from typing import TYPE_CHECKING

from wicket_mcp.search.numeric import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

CANDIDATES = 64
"""The best tools, which the network sees."""
MOST = 0.15
"""The farthest that it moves a score."""
FEATURES, NETWORKS, HIDDEN = 25, 3, 16
"""Several networks, of which the mean counts: they differ in their random start."""
_MANY = 5.0  # parts


@dataclass(frozen=True, slots=True)
class Signals:
    """The comparisons of one query with every tool: the fit without this module, and what it is made of."""

    fit: "NDArray[np.float32]"
    letters: "NDArray[np.float32]"
    coverage: "NDArray[np.float32]"
    table: "NDArray[np.float32]"
    encoder: "NDArray[np.float32]"
    by_server: "NDArray[np.float32]"
    """The mean fit of all tools of a tool's server."""
    parts: "tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]"
    """Letters, table and encoder of the part of the query that fits a tool best."""
    errands: int
    words: int


def describe(signals: Signals, near: "NDArray[np.int64]") -> "NDArray[np.float32]":
    """What the network sees of these tools: one row each."""
    fit, letters, coverage, table, encoder, by_server = (
        values[near]
        for values in (
            *(signals.fit, signals.letters, signals.coverage, signals.table, signals.encoder),
            signals.by_server,
        )
    )
    best = [float(v.max(initial=0.0)) for v in (signals.letters, signals.coverage, signals.table, signals.encoder, fit)]
    of_part = [part[near] for part in signals.parts]
    query = (*best[:4], log(len(signals.fit)) / 8, min(signals.errands, _MANY) / 3, log1p(signals.words) / 3)
    columns = (
        *(fit, fit - best[4], letters, letters - best[0], letters / max(best[0], 0.05)),
        *(coverage, coverage - best[1], table, table - best[2], encoder, encoder - best[3], by_server),
        *(of_part[0] - letters, of_part[1] - table, of_part[2] - encoder),
        *(_standardise(signals.letters, letters, 1e-3) / 10, _standardise(signals.table, table, 0.02) / 4),
        _standardise(signals.encoder, encoder, 0.02) / 4,
        *(np.full(len(near), value, np.float32) for value in query),
    )
    return np.stack(columns, axis=1).astype(np.float32)


def _standardise(
    of_all: "NDArray[np.float32]", candidates: "NDArray[np.float32]", least: float
) -> "NDArray[np.float32]":
    mean = float(of_all.sum()) / len(of_all)
    spread = max(0.0, float(of_all @ of_all) / len(of_all) - mean * mean) ** 0.5
    return (candidates - np.float32(mean)) / np.float32(max(spread, least))


class Reranker:
    def __init__(self, data: bytes) -> None:
        width = NETWORKS * HIDDEN
        values = np.frombuffer(data, "<f4")
        ends = np.cumsum([FEATURES * width, width, width, NETWORKS])
        if len(values) != ends[-1]:
            raise ValueError("not a reranker")
        inner, self._inner_bias, self._outer, self._outer_bias = np.split(values, ends[:-1])
        self._inner = inner.reshape(FEATURES, width)

    def move(self, seen: "NDArray[np.float32]") -> "NDArray[np.float32]":
        """By how much each tool that `describe` described is better or worse than its score; on average nothing."""
        hidden = np.maximum(seen @ self._inner + self._inner_bias, 0) * self._outer
        moves = np.tanh(hidden.reshape(len(seen), NETWORKS, HIDDEN).sum(2) + self._outer_bias).mean(1)
        return np.float32(MOST) * (moves - moves.mean())


@cache
def packaged_reranker() -> Reranker:
    return Reranker(Path(__file__).with_name("reranker.bin").read_bytes())
