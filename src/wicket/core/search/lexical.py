"""Weighted word matching over all segments.

Joins segments into one inverted index (a sort, no text is read again) and scores a query's terms by BM25F.
Knows term numbers and tool positions only.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from wicket.core.search.segment import Segment, term_id

if TYPE_CHECKING:
    from numpy.typing import NDArray

K1 = 2.0


class Lexicon:
    """The joined inverted index."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        starts = np.cumsum([0, *(segment.tools for segment in segments)])
        self.size = int(starts[-1])
        ids = np.concatenate([segment.ids for segment in segments] or [np.empty(0, np.uint32)])
        owners = np.concatenate(
            [segment.owners + np.uint32(start) for segment, start in zip(segments, starts, strict=False)]
            or [np.empty(0, np.uint32)]
        )
        weights = np.concatenate([segment.weights for segment in segments] or [np.empty(0, np.float32)])
        order = np.argsort(ids, kind="stable")
        self._ids = ids[order]
        self._owners = owners[order]
        self._weights = weights[order]

    def scores(self, query_terms: Iterable[str]) -> "NDArray[np.float32]":
        """BM25F of every tool for the distinct terms of a query."""
        total = np.zeros(self.size, np.float32)
        wanted = np.array(sorted({term_id(term) for term in query_terms}), np.uint32)
        firsts = np.searchsorted(self._ids, wanted, "left")
        lasts = np.searchsorted(self._ids, wanted, "right")
        for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
            if first == last:
                continue
            count = last - first
            rarity = np.log1p((self.size - count + 0.5) / (count + 0.5))
            weights = self._weights[first:last]
            total[self._owners[first:last]] += rarity * weights * (K1 + 1) / (weights + K1)
        return total
