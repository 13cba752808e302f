"""Wicket with some of its signals left out, one more each time: what each of them brings.

The constants of the ranker are changed for the whole process, which has one ranker only.
"""

from retrieval.rankers import Wicket
from retrieval.sets import Labelled, Query
from wicket_mcp.search import confidence, features, ranker
from wicket_mcp.search.learning import LIFT
from wicket_mcp.search.segment import NoModel

_NEVER = ((1, 0.0, 0.0),)  # log odds between which nothing is in doubt
_NOTHING = 1e-6  # a weight of zero would leave nothing to divide by


class Ablated(Wicket):
    """`words` compares stems and pairs of them; `letters` also pieces of words; `table` also the static table's
    meanings; `encoder` also the encoder's; `reranker` also looks at the best again. What is left is the judge, with
    which it is Wicket as it is served.
    """

    def __init__(self, signals: str) -> None:
        super().__init__(None if signals in ("encoder", "reranker") else NoModel())
        confidence.DOUBT = _NEVER
        if signals != "reranker":
            ranker.RERANKED = 0
        if signals == "words":
            features.PIECE = 1e-3
        if signals in ("words", "letters"):
            ranker.MEANING = ranker.MEANING_ALONE = _NOTHING


class Used(Wicket):
    """Wicket when every query was asked once before and its first tool was called then, which it learned from."""

    def build(self, data: Labelled) -> None:
        super().build(data)
        self._queries = {query.text: query for query in data.queries}

    def _lifts(self, query: Query) -> dict[str, float]:
        shown = {(hit.tool.server, hit.tool.name) for hit in self.index.search(query.text).hits}
        lifts: dict[str, float] = {}
        for group in query.groups:
            seen = sorted(group & shown)
            server, tool = seen[0] if seen else min(group)
            lifts[f"{server}.{tool}"] = LIFT * (1 - 0.5 ** (1.0 if seen else 0.5))
        return lifts

    def serve(self, query: str) -> list[tuple[str, str]]:
        hits = self.index.search(query, lifts=self._lifts(self._queries[query])).hits
        return [(hit.tool.server, hit.tool.name) for hit in hits]
