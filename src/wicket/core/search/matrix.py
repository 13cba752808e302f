"""All segments joined for scoring: an inverted index of features and a matrix of vectors.

Joining sorts numbers and reads no text. Scores are near-cosines between a query and each tool, so they mean the
same in every catalogue and need no scaling per query. Knows feature numbers and tool positions only.
"""

from collections.abc import Sequence
from math import log
from typing import TYPE_CHECKING

from wicket.core.search.features import Features
from wicket.core.search.numeric import np
from wicket.core.search.segment import Segment

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NORMALISATION = 0.75
"""How far a long text is held against a tool: 1 is a plain cosine, which has real tools with many parameters
lose to bare ones; 0 would let a tool win by sheer length."""
_USUAL_LENGTH = 45.0
_LONG = 110.0
"""Beyond this length a text says too many different things: what it has of any of them counts less and less."""


class Matrix:
    """Letters and meanings of every tool."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        counts = np.concatenate([s.counts for s in segments] or [np.empty(0, np.uint32)])
        numbers = np.concatenate([s.numbers for s in segments] or [np.empty(0, np.uint32)])
        weights = np.concatenate([s.weights for s in segments] or [np.empty(0, np.float16)])
        self.size = len(counts)
        self.meanings = _columns([s.meanings for s in segments])
        self.learned = _columns([s.learned for s in segments])
        self._join(counts, numbers, weights.astype(np.float32))

    def _join(
        self, counts: "NDArray[np.uint32]", numbers: "NDArray[np.uint32]", weights: "NDArray[np.float32]"
    ) -> None:
        # One 64-bit key carries number and position: sorting plain integers is several times quicker than argsort.
        keys = np.left_shift(numbers.astype(np.uint64), np.uint64(32)) | np.arange(len(numbers), dtype=np.uint64)
        keys.sort()
        order = (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)
        numbers = numbers[order]
        first = np.flatnonzero(np.diff(numbers, prepend=~numbers[:1])) if len(numbers) else np.empty(0, np.int64)
        self._numbers = numbers[first]
        self._edges = np.append(first, len(numbers))
        spread = np.diff(self._edges)
        self._rarity = (np.log((1 + self.size) / (1 + spread)) + 1).astype(np.float32)
        owners = np.repeat(np.arange(self.size, dtype=np.int64), counts)[order]
        values = weights[order] * np.repeat(self._rarity, spread)
        lengths = np.sqrt(np.bincount(owners, values * values, self.size)).astype(np.float32)
        divisors = np.maximum(lengths, 1.0) ** _NORMALISATION * _USUAL_LENGTH ** (1 - _NORMALISATION)
        divisors *= np.maximum(lengths / _LONG, 1.0)
        self._owners = owners
        self._values = values / divisors[owners]

    def letters(self, queries: Sequence[Features]) -> "NDArray[np.float32]":
        """Near-cosine of each query's features with each tool's: one row a query."""
        places: list[NDArray[np.int64]] = []
        weights: list[NDArray[np.float32]] = []
        rows: list[int] = []
        for row, query in enumerate(queries):
            at, weight = self._look_up(query)
            places.append(at)
            weights.append(weight / np.float32(np.linalg.norm(weight) or 1.0))
            rows += [row * self.size] * len(at)
        at = np.concatenate(places)
        starts = self._edges[at]
        lengths = self._edges[at + 1] - starts
        # All postings of all rows in one go: where each list begins, repeated, plus a running number within it.
        every: NDArray[np.int64] = np.repeat(starts - np.cumsum(lengths) + lengths, lengths) + np.arange(
            int(lengths.sum())
        )
        target = self._owners[every] + np.repeat(np.array(rows, np.int64), lengths)
        values = self._values[every] * np.repeat(np.concatenate(weights), lengths)
        total = np.bincount(target, values, len(queries) * self.size)
        return total.astype(np.float32).reshape(len(queries), self.size)

    def _look_up(self, query: Features) -> "tuple[NDArray[np.int64], NDArray[np.float32]]":
        """Where the query's known features are, and what each weighs."""
        numbers = [feature for counted, _ in query.kinds() for feature in counted]
        weights = [worth * _damped(count) for counted, worth in query.kinds() for count in counted.values()]
        if not numbers or not len(self._numbers):
            return np.empty(0, np.int64), np.empty(0, np.float32)
        wanted = np.array(numbers, np.uint32)
        at = np.minimum(np.searchsorted(self._numbers, wanted), len(self._numbers) - 1)
        known = self._numbers[at] == wanted
        return at[known], np.array(weights, np.float32)[known] * self._rarity[at[known]]


def _damped(count: float) -> float:
    return 1.0 if count == 1 else 1 + log(count)


def _columns(parts: "list[NDArray[np.int8]]") -> "NDArray[np.float32]":
    """Unit vectors as columns, which is the quicker side for a product with few rows."""
    if not parts:
        return np.empty((0, 0), np.float32)
    joined = np.concatenate(parts).astype(np.float32)
    joined /= np.maximum(np.linalg.norm(joined, axis=1, keepdims=True), 1e-9)
    return np.ascontiguousarray(joined.T)
