"""All segments joined for scoring: an inverted index of features and a matrix of vectors.

Joining sorts numbers and reads no text. Scores are almost cosines between a query and each tool, so they are comparable
across catalogues and need no scaling per query. Knows feature numbers and tool positions only.
"""

from collections.abc import Sequence
from math import log
from typing import TYPE_CHECKING, Any

from wicket_mcp.search.features import Features
from wicket_mcp.search.numeric import np
from wicket_mcp.search.segment import Segment

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NORMALISATION = 0.5
"""How much a long text counts against a tool: 1 is a plain cosine, with which real tools with many parameters lose to
bare ones; with 0 a tool could win by length alone."""
_USUAL_LENGTH = 45.0
_LONG = 110.0
"""A text beyond this length covers too many topics: each of its features counts less and less."""

_STEP = 16384


class Matrix:
    """Letters and meanings of every tool."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        sizes = [len(s.meanings) for s in segments]
        self.size = sum(sizes)
        self._sizes = np.array([size for size in sizes if size], np.int64)
        self.meanings = _unit([s.meanings for s in segments])
        self.learned, self.known = _model_vectors([s.learned for s in segments])
        before = np.cumsum([0, *sizes[:-1]], dtype=np.int32)
        self._owners = _join([s.owners for s in segments], np.int32)
        self._owners += np.repeat(before, [len(s.owners) for s in segments] or [0])
        self._weights = _join([s.weights for s in segments], np.float16)
        self._spans = _join([s.spans for s in segments], np.int64)
        self._begins = np.cumsum(self._spans) - self._spans
        self._index(_join([s.numbers for s in segments], np.uint32))

    def _index(self, numbers: "NDArray[np.uint32]") -> None:
        """Find the features that segments share, how rare each is, and the length of each tool's text.

        Postings are not moved: only the segments' features are sorted. Uses narrow types and few copies, because the
        first search of a process waits for this.
        """
        # One 64-bit key carries number and place: sorting plain integers is several times quicker than argsort.
        keys = numbers.astype(np.uint64) << np.uint64(32)
        keys |= np.arange(len(numbers), dtype=np.uint64)
        keys.sort()
        self._places = (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)
        keys >>= np.uint64(32)
        first = np.flatnonzero(np.concatenate((np.ones(1, bool), keys[1:] != keys[:-1]))[: len(keys)])
        self._numbers = keys[first].astype(np.uint32)
        self._edges = np.append(first, len(keys))
        spread = np.add.reduceat(self._spans[self._places], first) if len(first) else first
        self._rarity = (np.log((1 + self.size) / (1 + spread)) + 1).astype(np.float32)
        rarity = np.empty(len(keys), np.float32)
        rarity[self._places] = np.repeat(self._rarity, np.diff(self._edges))
        lengths = np.sqrt(self._squares(rarity)).astype(np.float32)
        self._divisors = np.maximum(lengths, 1.0) ** _NORMALISATION * _USUAL_LENGTH ** (1 - _NORMALISATION)
        self._divisors *= np.maximum(lengths / _LONG, 1.0)

    def _squares(self, rarity: "NDArray[np.float32]") -> "NDArray[np.float64]":
        """The sum of the squared feature weights of each tool. In steps that stay in the CPU's cache."""
        total = np.zeros(self.size)
        for start in range(0, len(rarity), _STEP):
            features = slice(start, start + _STEP)
            spans = self._spans[features]
            begin = int(self._begins[start])
            postings = slice(begin, begin + int(spans.sum()))
            worth = np.repeat(rarity[features], spans)
            worth *= self._weights[postings]
            worth *= worth
            total += np.bincount(self._owners[postings], worth, self.size)
        return total

    def letters(self, queries: Sequence[Features]) -> "NDArray[np.float32]":
        """Near-cosine of each query's features with each tool's: one row per query."""
        positions: list[NDArray[np.int64]] = []
        weights: list[NDArray[np.float32]] = []
        for query in queries:
            at, weight = self._look_up(query)
            positions.append(at)
            weights.append(weight / np.float32(np.linalg.norm(weight) or 1.0))
        at = np.concatenate(positions)
        rows = np.repeat(np.arange(len(queries)) * self.size, [len(position) for position in positions])
        # All postings of all rows at once: from a feature to its positions in segments, from a position to its
        # postings.
        lengths = self._edges[at + 1] - self._edges[at]
        places = self._places[_ranges(self._edges[at], lengths)]
        spans = self._spans[places]
        every = _ranges(self._begins[places], spans)
        target = self._owners[every] + np.repeat(np.repeat(rows, lengths), spans)
        worth = np.concatenate(weights) * self._rarity[at]
        values = self._weights[every] * np.repeat(np.repeat(worth, lengths), spans)
        total = np.bincount(target, values, len(queries) * self.size)
        return (total.reshape(len(queries), self.size) / self._divisors).astype(np.float32)

    def coverage(self, stems: Sequence[int]) -> "NDArray[np.float32]":
        """The share of a query's stems that each tool has, however long its text is; rare stems weigh more."""
        queried = np.array(list(dict.fromkeys(stems)), np.uint32)
        if not len(self._numbers) or not len(queried):
            return np.zeros(self.size, np.float32)
        at = np.minimum(np.searchsorted(self._numbers, queried), len(self._numbers) - 1)
        known = self._numbers[at] == queried
        worth = np.where(known, self._rarity[at], np.float32(log(1 + self.size) + 1))
        worth /= worth.sum()
        at, worth = at[known], worth[known]
        lengths = self._edges[at + 1] - self._edges[at]
        places = self._places[_ranges(self._edges[at], lengths)]
        spans = self._spans[places]
        owners = self._owners[_ranges(self._begins[places], spans)]
        shares = np.bincount(owners, np.repeat(np.repeat(worth, lengths), spans), self.size)
        return shares.astype(np.float32)

    def mean_by_server(self, values: "NDArray[np.float32]") -> "NDArray[np.float32]":
        """For each tool, the mean of the values of all tools of its server."""
        if not self.size:
            return values
        sums = np.add.reduceat(values, np.cumsum(self._sizes) - self._sizes)
        return np.repeat(sums / self._sizes, self._sizes).astype(np.float32)

    def counts(self, numbers: Sequence[int]) -> "NDArray[np.int64]":
        """How many tools have each of these features."""
        queried = np.array(numbers, np.uint32)
        if not len(self._numbers) or not len(queried):
            return np.zeros(len(queried), np.int64)
        at = np.minimum(np.searchsorted(self._numbers, queried), len(self._numbers) - 1)
        spread = np.rint((1 + self.size) / np.exp(self._rarity[at] - 1) - 1).astype(np.int64)
        return np.where(self._numbers[at] == queried, spread, 0)

    def _look_up(self, query: Features) -> "tuple[NDArray[np.int64], NDArray[np.float32]]":
        """The positions of the query's known features, and their weights."""
        numbers = [feature for counted, _ in query.kinds() for feature in counted]
        weights = [worth * _damp(count) for counted, worth in query.kinds() for count in counted.values()]
        if not numbers or not len(self._numbers):
            return np.empty(0, np.int64), np.empty(0, np.float32)
        queried = np.array(numbers, np.uint32)
        at = np.minimum(np.searchsorted(self._numbers, queried), len(self._numbers) - 1)
        known = self._numbers[at] == queried
        return at[known], np.array(weights, np.float32)[known] * self._rarity[at[known]]


def _model_vectors(parts: "list[NDArray[np.int8]]") -> "tuple[NDArray[np.float32], NDArray[np.bool_]]":
    """The model's vectors, and which tools have one; the others have rows of zeros."""
    width = max((part.shape[1] for part in parts), default=0)
    known = np.repeat([part.shape[1] > 0 for part in parts] or [False], [len(part) for part in parts] or [0])
    full = [part if part.shape[1] else np.zeros((len(part), width), np.int8) for part in parts]
    return _unit(full), known


def _damp(count: float) -> float:
    return 1.0 if count == 1 else 1 + log(count)


def _join(parts: "Sequence[NDArray[Any]]", kind: Any) -> "NDArray[Any]":
    return np.concatenate(parts, dtype=kind, casting="unsafe") if parts else np.empty(0, kind)


def _ranges(starts: "NDArray[np.int64]", lengths: "NDArray[np.int64]") -> "NDArray[np.int64]":
    """For each start, the consecutive numbers from it, as many as its length."""
    return np.repeat(starts - np.cumsum(lengths) + lengths, lengths) + np.arange(int(lengths.sum()))


def _unit(parts: "list[NDArray[np.int8]]") -> "NDArray[np.float32]":
    """The vectors of all segments, one per row, scaled to length one."""
    if not parts:
        return np.empty((0, 0), np.float32)
    rows = np.concatenate(parts, dtype=np.float32)
    rows /= np.maximum(np.sqrt(np.einsum("ij,ij->i", rows, rows)), 1e-9)[:, None]
    return rows


def shortlist(scores: "NDArray[np.float32]", size: int) -> "NDArray[np.int64]":
    """Positions of the highest scores, unordered."""
    if len(scores) <= size:
        return np.arange(len(scores))
    return np.argpartition(scores, len(scores) - size)[-size:]
