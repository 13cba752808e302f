"""Turns scores into an answer: filters first, then usage, the parts of the query, variety, and whether to abstain.

Goes through tools from the best score down and applies the filters to each, so that a policy is checked only for
candidates, not for the whole catalogue. Scores do not depend on other tools: leaving one out before or after ranking
gives the same order.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import islice
from math import exp, log, log1p
from typing import TYPE_CHECKING, NamedTuple

from wicket_mcp.model import Hit, Tool
from wicket_mcp.search.answer import Answer, Part, Withheld
from wicket_mcp.search.confidence import SURE, Evidence
from wicket_mcp.search.errands import refers_back
from wicket_mcp.search.intent import act, wanted_act, weigh_acts
from wicket_mcp.search.mentions import Mentioned, Mentions, mentions
from wicket_mcp.search.numeric import np
from wicket_mcp.search.ranker import Scores
from wicket_mcp.search.static import packaged_table
from wicket_mcp.search.text import STOP, words

if TYPE_CHECKING:
    from numpy.typing import NDArray

USAGE = 0.03
"""The most that past calls can add to a score: enough to decide between two equal tools."""
FAVOURITE = 0.03
DEPRECATED = 0.06
"""The penalty for a deprecated tool: enough to rank it below its successor."""
_USED_OFTEN = 50
FLOOR = 0.06
"""A tool with a lower score is not shown at all."""
SERVES = 0.2
"""The score from which a tool probably serves an errand, or would serve the query if it could be used."""
_SEVERAL = 2
CONTEXT = 0.25
"""The weight of a tool's fit for the whole query when an errand chooses: its "them" and "it" are named elsewhere."""
_TURNS, _PLACES = 2, 5
"""Turns per errand, the second only within the first places."""
_OF_ONE_SERVER, _BEYOND = 0.4, 0.3
"""The share of an answer that a server not named in the query may have, two of five places; and the factor for its
further tools: they get a place only if other servers have nothing to offer."""
_ENOUGH = 3  # a shorter answer has no room for variety
_WORD = 40  # the longest word in letters
_TRACE = 0.05  # the cosine of letters below which a tool has nothing in common with the query
_CHUNK = 64
_ACT = 10.0  # makes what an act adds to a score as large as the other evidence
_READ, _EFFORT = 10, 130
"""Tools that the judge reads of an answer in doubt; and the most that words of the query times tools may be, as long as
it reads the places."""
_SERVES_BOTH, _FITS_ALONE = 1.5, 0.35
"""What the judge says of a tool that serves all of a query in two parts, which then asks for one thing only; and the
score of a tool that fits one part so well that it is asked for itself."""
_CLOSENESS, _OPINION = 0.5, 0.02
"""The weights of closeness for what is worth reading, and of the judge's opinion for the order."""
_NEAR, _MEANT, _BELOW = 64, 2, 1e-4
"""The best tools among which those are sought that mention a product which the first five do not; how many of these get
a place; and how far their scores are below that of the tool before."""
_ALIKE = 2.0  # how far apart the judge's opinions of two tools that are both good may be


class Places(NamedTuple):
    """Who gets the places of an answer."""

    chosen: list[int]
    """Positions of the hits, best first."""
    withheld: list[Withheld]
    """Tools that would have ranked before or among the hits but cannot be used."""
    served: tuple[Part, ...]
    """Which hits serve which errand."""


class Look(NamedTuple):
    """What a look at the best hits tells."""

    evidence: Evidence
    named: Mentions
    words: list[str]
    """The meaningful words of the query."""


def prior(key: str, usage: Mapping[str, int], favourites: Collection[str]) -> float:
    """What usage and favourites add to a tool's score, bounded."""
    used = min(1.0, log1p(usage.get(key, 0)) / log1p(_USED_OFTEN))
    return USAGE * used + (FAVOURITE if key in favourites else 0.0)


@dataclass(frozen=True, slots=True)
class Choice:
    """One query's scores, and everything that decides which tools become hits."""

    query: str
    tools: tuple[Tool, ...]
    scores: Scores
    added: Mapping[int, float]
    """What usage, names and learning add, by the tool's position."""
    learned: Mapping[int, float]
    """The part from learning only."""
    servers: Collection[str] | None
    visible: Callable[[Tool], bool] | None
    trouble: Callable[[Tool], str] | None
    gains: Callable[[str], Mapping[str, float]]
    """The bonus of servers that a text names."""
    positions: Mapping[str, slice]
    """The positions of each server's tools."""
    size: int
    """Tools that could be shown."""
    mentioned: Callable[[int], Mentioned]
    """What the tool at a position mentions."""
    judge: Callable[[Sequence[int]], Sequence[float]]
    """For tools at these positions: positive if they rather do what is asked, negative if not. Takes milliseconds."""

    def answer(self, limit: int, *, thorough: bool = False) -> Answer:
        fit = self.scores.fit
        if self.added:
            fit = fit.copy()
            for position, more in self.added.items():
                fit[position] += more
        by_part = list(self.scores.by_part)
        fit, places = self._fill(fit, by_part, limit)
        first = look = self._look(places.chosen[:_PLACES], {})
        if places.chosen and (thorough or first.evidence.is_in_doubt):
            read = self._worth_reading(fit, places.chosen)
            judged = dict(zip(read, self.judge(read), strict=True))
            if self._can_order(judged):
                by_part = [self._order_again(row, judged) for row in by_part]
                fit, places = self._fill(self._order_again(fit, judged), by_part, limit)
            unread = [position for position in places.chosen[:_PLACES] if position not in judged]
            judged |= zip(unread, self.judge(unread) if unread else (), strict=True)
            look = self._look(places.chosen[:_PLACES], judged)
        return self._conclude(places, fit, first, look)

    def _fill(
        self, fit: "NDArray[np.float32]", by_part: "Sequence[NDArray[np.float32]]", limit: int
    ) -> "tuple[NDArray[np.float32], Places]":
        """Who gets the places by these scores for the whole query, and by those for each errand; and the scores, with
        which a tool that mentions a product that the query names is among the first."""
        places = self._give_places(fit, by_part, limit)
        first = places.chosen[:_PLACES]
        missing = mentions(self.query, lambda: [self.mentioned(position) for position in first]).missing_products
        if not missing or not first:
            return fit, places
        fit = self._raise_meant(fit, first, missing)
        return fit, self._give_places(fit, by_part, limit)

    def _give_places(self, fit: "NDArray[np.float32]", by_part: "Sequence[NDArray[np.float32]]", limit: int) -> Places:
        chosen, withheld = self._walk(fit, limit)
        served, chosen = self._take_turns(fit, by_part, chosen, limit)
        return Places(chosen, withheld, served)

    def _raise_meant(
        self, fit: "NDArray[np.float32]", first: list[int], missing: Sequence[str]
    ) -> "NDArray[np.float32]":
        """The scores with which the best tools that mention a missing product get the last of the first places."""
        others = (position for position in islice(self._usable(fit), _NEAR) if position not in first)
        meant = list(islice((p for p in others if any(map(self.mentioned(p).mentions, missing))), _MEANT))
        if not meant:
            return fit
        raised = fit.copy()
        last = first[min(len(first), _PLACES - _MEANT) - 1]
        raised[meant] = [float(fit[last]) - _BELOW * (1 + rank) for rank in range(len(meant))]
        return raised

    def _worth_reading(self, fit: "NDArray[np.float32]", chosen: list[int]) -> list[int]:
        """The tools that the judge is to read: the best, if closeness counts more than in their scores; or those that
        are shown, if it cannot order them."""
        if len(self.scores.parts) > _SEVERAL:
            return chosen[:_PLACES]
        count = max(_PLACES, min(_READ, _EFFORT // (len(words(self.query)) or 1)))
        return list(islice(self._usable(np.add(fit, np.float32(_CLOSENESS) * self.scores.closeness)), count))

    def _can_order(self, judged: Mapping[int, float]) -> bool:
        """The judge reads several errands as one, so it can order tools only where they are one."""
        if len(self.scores.parts) != _SEVERAL:
            return len(self.scores.parts) < _SEVERAL
        best = max(judged, key=lambda position: judged[position])
        fits_alone = any(row.max() > max(_FITS_ALONE, 2 * row[best]) for row in self.scores.by_part)
        return judged[best] > _SERVES_BOTH and not fits_alone

    def _order_again(self, scores: "NDArray[np.float32]", judged: Mapping[int, float]) -> "NDArray[np.float32]":
        """The same scores in another order: first the tools that were read, with the judge's opinion added."""
        best = islice(self._usable(scores), len(judged))
        read = sorted(judged, key=lambda position: -(float(scores[position]) + _OPINION * judged[position]))
        order = [*read, *(position for position in best if position not in judged)]
        again = scores.copy()
        again[order] = np.sort(scores[order])[::-1]
        return again

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
        for position in descending(fit):
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
        if len(rows) < _SEVERAL:
            return tuple(Part(text, tuple(self.tools[i].key for i in chosen[:1])) for text, _ in rows), chosen
        errands = [self._usable(row) for _, row in rows]
        turns: dict[int, list[int]] = {}
        for turn in range(_TURNS):
            for number, errand in enumerate(errands):
                if len(turns) >= (min(limit, _PLACES) if turn else limit):
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

    def _usable(self, row: "NDArray[np.float32]") -> Iterator[int]:
        """Positions that may be shown, from the highest score down."""
        for position in descending(row):
            tool = self.tools[position]
            if self._may_show(tool) and not (self.trouble and self.trouble(tool)):
                yield position

    def _best(self, row: "NDArray[np.float32]") -> int | None:
        for position in descending(row):
            if row[position] < SERVES:
                return None
            tool = self.tools[position]
            if self._may_show(tool) and not (self.trouble and self.trouble(tool)):
                return position
        return None

    def _conclude(self, places: Places, fit: "NDArray[np.float32]", first: Look, look: Look) -> Answer:
        hits = tuple(Hit(self.tools[position], float(fit[position])) for position in places.chosen)
        best = hits[0].score if hits else 0.0
        sure = look.evidence.confidence if hits and self._is_readable(look.words, places.chosen[:_PLACES]) else 0.0
        confident = sure >= SURE
        nearest = () if confident else tuple(dict.fromkeys(hit.tool.server for hit in hits))[:3]
        fitting = [entry for entry in places.withheld if entry.hit.score >= max(best, SERVES)]
        return Answer(
            hits=hits,
            confident=confident,
            nearest=nearest,
            withheld=tuple(fitting[:3]),
            confidence=sure,
            parts=places.served,
            unmentioned=look.named.missing_products,
            evidence=look.evidence,
            first=first.evidence,
        )

    def _keep_meant(self, top: list[int], named: Mentions) -> list[int]:
        """Those that mention every product that the query names, if it names any and there are such."""
        known = [product for product in named.products if product not in named.missing_products]
        return [p for p in top if all(self.mentioned(p).mentions(product) for product in known)] or top

    def _look(self, top: list[int], judged: Mapping[int, float]) -> Look:
        """What speaks for these tools and against them, with what the judge says of those that it has read."""
        named = mentions(self.query, lambda: [self.mentioned(position) for position in top])
        telling = [word for word in words(self.query) if word not in STOP]
        meant = self._keep_meant(top, named)
        known = len(named.products) > len(named.missing_products)
        # Learning counts like closeness: this tool has served such a query before.
        closeness = {p: float(self.scores.closeness[p]) + self.learned.get(p, 0.0) for p in meant}
        nearest = max(closeness, key=lambda p: closeness[p], default=None)
        gains = weigh_acts(wanted_act(self.query))
        acts = {p: _ACT * gains[act(self.tools[p])] for p in top}
        evidence = Evidence(
            closest=0.0 if nearest is None else closeness[nearest],
            fit=max((float(self.scores.fit[p]) for p in top), default=0.0),
            missing_subjects=named.missing_subjects,
            is_product_missing=bool(named.missing_products),
            is_product_there=known and not named.missing_products,
            act=0.0 if nearest is None else acts[nearest],
            best_act=max(acts.values(), default=0.0),
            tools=self.size,
            words=len(telling),
            errands=len(self.scores.parts),
            judged=_together([judged[p] for p in meant]) if judged else None,
        )
        return Look(evidence, named, telling)

    def _is_readable(self, telling: list[str], top: list[int]) -> bool:
        """Whether the query has a meaningful word: one that is known, or that occurs in the hits."""
        short = [word for word in telling if len(word) < _WORD]
        if not short:
            return False
        return max(float(self.scores.letters[p]) for p in top) > _TRACE or any(map(packaged_table().knows, short))


def _together(opinions: Sequence[float]) -> float:
    """What the judge says of several tools together: what it says of the best, and more if others are as good."""
    best = max(opinions)
    return best + _ALIKE * log(sum(exp((opinion - best) / _ALIKE) for opinion in opinions))


def _share(before: int, limit: int) -> float:
    """The factor for a tool when this many tools of its server rank before it."""
    return 1.0 if limit < _ENOUGH or before < int(_OF_ONE_SERVER * limit) else _BEYOND


def descending(scores: "NDArray[np.float32]") -> Iterator[int]:
    """Positions from the highest score down, sorting only as many as needed."""
    size = len(scores)
    if size <= _CHUNK:
        yield from np.argsort(-scores, kind="stable").tolist()
        return
    top = np.argpartition(-scores, _CHUNK)[:_CHUNK]
    yield from top[np.lexsort((top, -scores[top]))].tolist()
    yielded = set(top.tolist())
    yield from (i for i in np.argsort(-scores, kind="stable").tolist() if i not in yielded)
