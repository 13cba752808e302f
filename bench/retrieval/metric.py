"""The measures: for each query by itself, then their mean."""

from collections.abc import Sequence
from math import log2

from retrieval.sets import Query

KEYS = ("R@1", "R@5", "R@10", "nDCG@10", "MRR")


def measure(ranked: Sequence[tuple[str, str]], query: Query) -> dict[str, float]:
    """`ranked` names tools, best first. A group counts once, at its first member's rank."""
    ranks = [next((r for r, tool in enumerate(ranked) if tool in group), None) for group in query.groups]
    hit = [rank for rank in ranks if rank is not None]
    count = len(query.groups)
    recall = {f"R@{k}": sum(rank < k for rank in hit) / count for k in (1, 5, 10)}
    gain = sum(1 / log2(rank + 2) for rank in hit if rank < 10)
    ideal = sum(1 / log2(rank + 2) for rank in range(min(count, 10)))
    return {**recall, "nDCG@10": gain / ideal, "MRR": 1 / (min(hit) + 1) if hit else 0.0}
