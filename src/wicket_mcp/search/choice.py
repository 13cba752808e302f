"""Turns scores into an answer: adds usage, fills the places, and if a look at them leaves doubt, has the judge read
tools and fills the places again; then says whether to abstain.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import exp, log, log1p
from typing import TYPE_CHECKING, NamedTuple

from wicket_mcp.model import Hit
from wicket_mcp.search.answer import Answer
from wicket_mcp.search.confidence import SURE, Evidence
from wicket_mcp.search.intent import act, wanted_act, weigh_acts
from wicket_mcp.search.mentions import Mentioned, Mentions, mentions
from wicket_mcp.search.numeric import np
from wicket_mcp.search.places import FIRST_PLACES, SERVES, SEVERAL, Candidates, Places
from wicket_mcp.search.static import packaged_table
from wicket_mcp.search.text import STOP, stem, words

if TYPE_CHECKING:
    from numpy.typing import NDArray

USAGE = 0.03
"""The most that past calls can add to a score: enough to decide between two equal tools."""
FAVOURITE = 0.03
DEPRECATED = 0.06
"""The penalty for a deprecated tool: enough to rank it below its successor."""
_USED_OFTEN = 50
_WORD = 40  # the longest word in letters
_TRACE = 0.05  # the cosine of letters below which a tool has nothing in common with the query
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
_AGREEING = 20.0  # makes closeness as telling as the judge's opinion
_ALIKE = 2.0  # how far apart the judge's opinions of two tools that are both good may be


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
    """Who may have a place, and everything that decides who gets it."""

    candidates: Candidates
    added: Mapping[int, float]
    """What usage, names and learning add, by the tool's position."""
    learned: Mapping[int, float]
    """The part from learning only."""
    called: frozenset[int]
    """The tools of which the query is the name."""
    size: int
    """Tools that could be shown."""
    mentioned: Callable[[int], Mentioned]
    """What the tool at a position mentions."""
    judge: Callable[[Sequence[int]], Sequence[float]]
    """For tools at these positions: positive if they rather do what is asked, negative if not. Takes milliseconds."""

    def answer(self, limit: int, *, thorough: bool = False) -> Answer:
        fit, by_part = self.candidates.scores.fit, list(self.candidates.scores.by_part)
        if self.added:
            fit = fit.copy()
            for position, more in self.added.items():
                fit[position] += more
        fit, places = self._fill(fit, by_part, limit)
        first = look = self._look(places.chosen[:FIRST_PLACES], {})
        if places.chosen and (thorough or first.evidence.is_in_doubt):
            read = self._worth_reading(fit, places.chosen)
            judged = dict(zip(read, self.judge(read), strict=True))
            if self._can_order(judged):
                by_part = [self._order_again(row, judged) for row in by_part]
                fit, places = self._fill(self._order_again(fit, judged), by_part, limit)
            unread = [position for position in places.chosen[:FIRST_PLACES] if position not in judged]
            judged |= zip(unread, self.judge(unread) if unread else (), strict=True)
            look = self._look(places.chosen[:FIRST_PLACES], judged)
        return self._conclude(places, fit, first, look)

    def _fill(
        self, fit: "NDArray[np.float32]", by_part: "Sequence[NDArray[np.float32]]", limit: int
    ) -> "tuple[NDArray[np.float32], Places]":
        """Who gets the places by these scores for the whole query, and by those for each errand; and the scores, with
        which a tool that mentions a product that the query names is among the first."""
        places = self.candidates.give_places(fit, by_part, limit)
        first = places.chosen[:FIRST_PLACES]
        missing = self._mentions(first).missing_products
        if not missing or not first:
            return fit, places
        fit = self._raise_meant(fit, first, missing)
        return fit, self.candidates.give_places(fit, by_part, limit)

    def _raise_meant(
        self, fit: "NDArray[np.float32]", first: list[int], missing: Sequence[str]
    ) -> "NDArray[np.float32]":
        """The scores with which the best tools that mention a missing product get the last of the first places."""
        others = (position for position in islice(self.candidates.usable(fit), _NEAR) if position not in first)
        meant = list(islice((p for p in others if any(map(self.mentioned(p).mentions, missing))), _MEANT))
        if not meant:
            return fit
        raised = fit.copy()
        last = first[min(len(first), FIRST_PLACES - _MEANT) - 1]
        raised[meant] = [float(fit[last]) - _BELOW * (1 + rank) for rank in range(len(meant))]
        return raised

    def _worth_reading(self, fit: "NDArray[np.float32]", chosen: list[int]) -> list[int]:
        """The tools that the judge is to read: the best, if closeness counts more than in their scores; or those that
        are shown, if it cannot order them."""
        scores = self.candidates.scores
        if len(scores.parts) > SEVERAL:
            return chosen[:FIRST_PLACES]
        count = max(FIRST_PLACES, min(_READ, _EFFORT // (len(words(self.candidates.query)) or 1)))
        worth = np.add(fit, np.float32(_CLOSENESS) * scores.closeness)
        return list(islice(self.candidates.usable(worth), count))

    def _can_order(self, judged: Mapping[int, float]) -> bool:
        """The judge reads several errands as one, so it can order tools only where they are one."""
        scores = self.candidates.scores
        if len(scores.parts) != SEVERAL:
            return len(scores.parts) < SEVERAL
        best = max(judged, key=lambda position: judged[position])
        fits_alone = any(row.max() > max(_FITS_ALONE, 2 * row[best]) for row in scores.by_part)
        return judged[best] > _SERVES_BOTH and not fits_alone

    def _order_again(self, scores: "NDArray[np.float32]", judged: Mapping[int, float]) -> "NDArray[np.float32]":
        """The same scores in another order: first the tools that were read, with the judge's opinion added."""
        best = islice(self.candidates.usable(scores), len(judged))
        read = sorted(judged, key=lambda position: -(float(scores[position]) + _OPINION * judged[position]))
        order = [*read, *(position for position in best if position not in judged)]
        again = scores.copy()
        again[order] = np.sort(scores[order])[::-1]
        return again

    def _conclude(self, places: Places, fit: "NDArray[np.float32]", first: Look, look: Look) -> Answer:
        hits = tuple(Hit(self.candidates.tools[position], float(fit[position])) for position in places.chosen)
        best = hits[0].score if hits else 0.0
        sure = look.evidence.confidence if hits and self._is_readable(look.words, places.chosen[:FIRST_PLACES]) else 0.0
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

    def _mentions(self, top: Sequence[int]) -> Mentions:
        return mentions(self.candidates.query, lambda: [self.mentioned(position) for position in top])

    def _keep_meant(self, top: list[int], named: Mentions) -> list[int]:
        """Those that mention every product that the query names, if it names any and there are such."""
        known = [product for product in named.products if product not in named.missing_products]
        return [p for p in top if all(self.mentioned(p).mentions(product) for product in known)] or top

    def _look(self, top: list[int], judged: Mapping[int, float]) -> Look:
        """What speaks for these tools and against them, with what the judge says of those that it has read."""
        scores, query = self.candidates.scores, self.candidates.query
        named = self._mentions(top)
        telling = [word for word in words(query) if word not in STOP]
        meant = self._keep_meant(top, named)
        known = len(named.products) > len(named.missing_products)
        closeness = {p: self._closeness(p) for p in meant}
        nearest = max(closeness, key=lambda p: closeness[p], default=None)
        gains = weigh_acts(wanted_act(query))
        acts = {p: _ACT * gains[act(self.candidates.tools[p])] for p in top}
        evidence = Evidence(
            closest=0.0 if nearest is None else closeness[nearest],
            fit=max((float(scores.fit[p]) for p in top), default=0.0),
            missing_subjects=named.missing_subjects,
            is_product_missing=bool(named.missing_products),
            is_product_there=known and not named.missing_products,
            act=0.0 if nearest is None else acts[nearest],
            best_act=max(acts.values(), default=0.0),
            tools=self.size,
            words=len(telling),
            errands=len(scores.parts),
            is_called=not self.called.isdisjoint(top) or self._is_said_by_names(telling, top),
            judged=_together([judged[p] for p in meant]) if judged else None,
            agreed=max((opinion + _AGREEING * self._closeness(p) for p, opinion in judged.items()), default=0.0),
        )
        return Look(evidence, named, telling)

    def _is_said_by_names(self, telling: list[str], top: list[int]) -> bool:
        """Whether one tool has every meaningful word of the query in its names ("sentry dsn")."""
        stems = frozenset(map(stem, telling))
        return bool(stems) and any(stems <= self.mentioned(position).named for position in top)

    def _closeness(self, position: int) -> float:
        """Of a tool to the query. Learning counts like closeness: the tool has served such a query before."""
        return float(self.candidates.scores.closeness[position]) + self.learned.get(position, 0.0)

    def _is_readable(self, telling: list[str], top: list[int]) -> bool:
        """Whether the query has a meaningful word: one that is known, or that occurs in the hits."""
        short = [word for word in telling if len(word) < _WORD]
        if not short:
            return False
        nearest = max(float(self.candidates.scores.letters[p]) for p in top)
        return nearest > _TRACE or any(map(packaged_table().knows, short))


def _together(opinions: Sequence[float]) -> float:
    """What the judge says of several tools together: what it says of the best, and more if others are as good."""
    best = max(opinions)
    return best + _ALIKE * log(sum(exp((opinion - best) / _ALIKE) for opinion in opinions))
