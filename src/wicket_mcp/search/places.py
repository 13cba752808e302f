"""Who gets the places of an answer: filters, the errands of the query, variety.

Goes through tools from the best score down and applies the filters to each, so that a policy is checked only for
candidates, not for the whole catalogue. Scores do not depend on other tools: leaving one out before or after ranking
gives the same order. Called by `choice.py`, which decides on the scores.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from wicket_mcp.model import Hit, Tool
from wicket_mcp.search.answer import Part, Withheld
from wicket_mcp.search.errands import refers_back
from wicket_mcp.search.numeric import np
from wicket_mcp.search.ranker import Scores

if TYPE_CHECKING:
    from numpy.typing import NDArray

FLOOR = 0.06
"""A tool with a lower score is not shown at all."""
SERVES = 0.2
"""The score from which a tool probably serves an errand, or would serve the query if it could be used."""
SEVERAL = 2
"""Errands."""
CONTEXT = 0.25
"""The weight of a tool's fit for the whole query when an errand chooses: its "them" and "it" are named elsewhere."""
FIRST_PLACES = 5
_TURNS = 2
"""Turns per errand, the second only within the first places."""
_OF_ONE_SERVER, _BEYOND = 0.4, 0.3
"""The share of an answer that a server not named in the query may have, two of five places; and the factor for its
further tools: they get a place only if other servers have nothing to offer."""
_ENOUGH = 3  # a shorter answer has no room for variety
_CHUNK = 64


class Places(NamedTuple):
    """Who gets the places of an answer."""

    chosen: list[int]
    """Positions of the hits, best first."""
    withheld: list[Withheld]
    """Tools that would have ranked before or among the hits but cannot be used."""
    served: tuple[Part, ...]
    """Which hits serve which errand."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """One query's scores, and everything that decides which tools may have places."""

    query: str
    tools: tuple[Tool, ...]
    scores: Scores
    servers: Collection[str] | None
    visible: Callable[[Tool], bool] | None
    trouble: Callable[[Tool], str] | None
    gains: Callable[[str], Mapping[str, float]]
    """The bonus of servers that a text names."""
    positions: Mapping[str, slice]
    """The positions of each server's tools."""

    def give_places(self, fit: "NDArray[np.float32]", by_part: "Sequence[NDArray[np.float32]]", limit: int) -> Places:
        """By these scores for the whole query, and by those for each errand."""
        chosen, withheld = self._walk(fit, limit)
        served, chosen = self._take_turns(fit, by_part, chosen, limit)
        return Places(chosen, withheld, served)

    def _walk(self, fit: "NDArray[np.float32]", limit: int) -> tuple[list[int], list[Withheld]]:
        """Positions of the hits, and the withheld tools that would have ranked before or among them.

        A server that the query does not name gets two of five places, and more only if other servers have nothing to
        offer.
        """
        best: list[tuple[float, int]] = []
        """The places so far, least valuable first: the value of giving each to its tool, and the tool."""
        withheld: list[Withheld] = []
        by_server: Counter[str] = Counter()
        named = self.gains(self.query)
        for position in _descending(fit):
            score, tool = float(fit[position]), self.tools[position]
            if score < FLOOR or (len(best) >= limit and score <= best[0][0]):
                break
            if not self._may_show(tool):
                continue
            if reason := self.trouble(tool) if self.trouble else "":
                withheld.append(Withheld(Hit(tool, score), reason))
                continue
            worth = score if tool.server in named else score * _share(by_server[tool.server], limit)
            by_server[tool.server] += 1
            heappush(best, (worth, -position))
            if len(best) > limit:
                heappop(best)
        return sorted((-place for _, place in best), key=lambda position: -float(fit[position])), withheld

    def _may_show(self, tool: Tool) -> bool:
        if self.servers is not None and tool.server not in self.servers:
            return False
        return self.visible is None or self.visible(tool)

    def _take_turns(
        self, fit: "NDArray[np.float32]", by_part: "Sequence[NDArray[np.float32]]", chosen: list[int], limit: int
    ) -> tuple[tuple[Part, ...], list[int]]:
        """Which hits serve which errand of the query, and the hits: errands take turns for the places.

        An errand without a sure match takes no turn. The order is by the fit for the whole query.
        """
        rows = [
            (text, self._of_errand(text, row))
            for text, row in zip(self.scores.parts, by_part, strict=False)
            if self._best(row) is not None
        ]
        if len(rows) < SEVERAL:
            return tuple(Part(text, tuple(self.tools[i].key for i in chosen[:1])) for text, _ in rows), chosen
        errands = [self.usable(row) for _, row in rows]
        turns: dict[int, list[int]] = {}
        for turn in range(_TURNS):
            for number, errand in enumerate(errands):
                if len(turns) >= (min(limit, FIRST_PLACES) if turn else limit):
                    break
                position = next((p for p in errand if p not in turns or turn == 0), None)
                if position is not None:
                    turns.setdefault(position, []).append(number)
        hits = [*turns, *(position for position in chosen if position not in turns)][:limit]
        hits.sort(key=lambda position: -float(fit[position]))
        served = tuple(
            Part(text, tuple(self.tools[p].key for p in hits if number in turns.get(p, ())))
            for number, (text, _) in enumerate(rows)
        )
        return served, hits

    def _of_errand(self, text: str, row: "NDArray[np.float32]") -> "NDArray[np.float32]":
        """The scores for an errand: its own fit, the fit for the whole query, and the servers that it names.

        An errand that names no server and says "it" or "them" means the servers named elsewhere in the query.
        """
        scores = (row + CONTEXT * self.scores.fit).astype(np.float32)
        gains = self.gains(text) or (self.gains(self.query) if refers_back(text) else {})
        for server, gain in gains.items():
            scores[self.positions[server]] += np.float32(gain)
        return scores

    def usable(self, row: "NDArray[np.float32]") -> Iterator[int]:
        """Positions that may be shown, from the highest score down."""
        for position in _descending(row):
            tool = self.tools[position]
            if self._may_show(tool) and not (self.trouble and self.trouble(tool)):
                yield position

    def _best(self, row: "NDArray[np.float32]") -> int | None:
        for position in _descending(row):
            if row[position] < SERVES:
                return None
            tool = self.tools[position]
            if self._may_show(tool) and not (self.trouble and self.trouble(tool)):
                return position
        return None


def _share(before: int, limit: int) -> float:
    """The factor for a tool when this many tools of its server rank before it."""
    return 1.0 if limit < _ENOUGH or before < int(_OF_ONE_SERVER * limit) else _BEYOND


def _descending(scores: "NDArray[np.float32]") -> Iterator[int]:
    """Positions from the highest score down, sorting only as many as needed."""
    size = len(scores)
    if size <= _CHUNK:
        yield from np.argsort(-scores, kind="stable").tolist()
        return
    top = np.argpartition(-scores, _CHUNK)[:_CHUNK]
    yield from top[np.lexsort((top, -scores[top]))].tolist()
    yielded = set(top.tolist())
    yield from (i for i in np.argsort(-scores, kind="stable").tolist() if i not in yielded)
