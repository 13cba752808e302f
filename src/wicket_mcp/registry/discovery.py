"""Finds servers for a need, with reasons: the registry's search, with a compound need split into its parts.

Ranking uses the normal search, over servers and their tools, without a model. A need that names two things ("files and
emails") is answered for each: the best server of every part comes first, then the second best. Confidence shows how
many of the part's words a server's text has, and how it compares with the best server.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from wicket_mcp.registry import server_json
from wicket_mcp.registry.index import Match, RecordIndex, listing
from wicket_mcp.search.text import STOP, stem, words
from wicket_mcp.store.model import StoredRecord

MAX_NEEDS = 6
PER_NEED = 10
CONFIDENT = 0.35  # the minimum for a recommendation

_SPLIT = re.compile(r"[,;.!?\n]++|\b(?:and also|as well as|and|then|plus|also)\b|&", re.IGNORECASE)
_FILLER_WORDS = """
    automate automatically automation best better build connect could easily easy effectively efficiently find
    give good great handle help integrate integration looking lot make manage management mcp my nice perform really
    run server servers set simple something system thing things tool tools try up various way ways work
    working workflow workflows
"""
_FILLER = STOP | frozenset(_FILLER_WORDS.split())


@dataclass(frozen=True, slots=True)
class Need:
    """One part of a request."""

    text: str
    """In the user's words."""
    terms: tuple[str, ...]
    """The stems that carry its meaning."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A server, which needs it covers, and why."""

    record: StoredRecord
    covers: tuple[str, ...]
    confidence: float
    reason: str
    tools: tuple[str, ...]


class Advice(msgspec.Struct, frozen=True):
    """The answer to a need."""

    recommendations: tuple[Recommendation, ...]
    needs: tuple[str, ...]
    uncovered: tuple[str, ...]


def needs_of(query: str, context: str = "") -> tuple[Need, ...]:
    """The separate needs in a query and its context; a text without a boundary is one need."""
    needs: dict[tuple[str, ...], Need] = {}
    for text in (query, context):
        parts = [_need(part) for part in _SPLIT.split(text)]
        for need in parts:
            if need.terms:
                needs.setdefault(need.terms, need)
    if not needs and query.strip():
        terms = tuple(dict.fromkeys(stem(word) for word in words(query)))
        return (Need(query.strip(), terms),)
    return tuple(needs.values())[:MAX_NEEDS]


def _need(text: str) -> Need:
    meaning = [word for word in words(text) if word not in _FILLER and len(word) > 1]
    return Need(text.strip(), tuple(dict.fromkeys(stem(word) for word in meaning)))


def advise(index: RecordIndex, query: str, context: str, limit: int, scores: Mapping[str, int | None]) -> Advice:
    """Recommendations for a query. `scores` are measured health scores by record name."""
    needs = needs_of(query, context)
    ranked = {need: _rank(index, need, scores) for need in needs}
    chosen: dict[str, list[tuple[Need, float, Match]]] = {}
    for place in range(PER_NEED):
        for need in needs:
            if place < len(ranked[need]):
                confidence, match = ranked[need][place]
                if match.record.name in chosen or len(chosen) < limit:
                    chosen.setdefault(match.record.name, []).append((need, confidence, match))
    covered = {need for served in chosen.values() for need, _, _ in served}
    return Advice(
        tuple(_recommendation(served, scores) for served in chosen.values()),
        tuple(need.text for need in needs),
        tuple(need.text for need in needs if need not in covered),
    )


def _rank(index: RecordIndex, need: Need, scores: Mapping[str, int | None]) -> list[tuple[float, Match]]:
    """The servers for one need, the most certain first; those without any of its words are left out."""
    matches = index.search(" ".join(need.terms))[:PER_NEED]
    if not matches:
        return []
    best = matches[0].score
    judged = [(_confidence(need, match, best), match) for match in matches]
    return [
        pair for pair in sorted(judged, key=lambda pair: -pair[0] - _bonus(pair[1], scores)) if pair[0] >= CONFIDENT
    ]


def _bonus(match: Match, scores: Mapping[str, int | None]) -> float:
    """Measured health only breaks near ties."""
    score = scores.get(match.record.name)
    return 0.0 if score is None else 0.02 * (score - 50) / 50


def _confidence(need: Need, match: Match, best: float) -> float:
    share = len(matched_terms(need, match.record)) / len(need.terms)
    return round(0.7 * share + 0.3 * match.score / best, 2) if share else 0.0


def matched_terms(need: Need, record: StoredRecord) -> list[str]:
    """The terms of a need that occur in the server's own text."""
    entry = listing(record)
    text = " ".join(f"{tool.name} {tool.title} {tool.description}" for tool in entry.tools)
    have = {stem(word) for word in words(f"{record.name} {text}")}
    return [term for term in need.terms if term in have]


def _recommendation(served: Sequence[tuple[Need, float, Match]], scores: Mapping[str, int | None]) -> Recommendation:
    match = served[0][2]
    record = match.record
    tools = tuple(dict.fromkeys(tool for _, _, candidate in served for tool in candidate.tools))[:5]
    terms = list(dict.fromkeys(term for need, _, _ in served for term in matched_terms(need, record)))
    parts = [f"Its description and tools speak of {_quote(terms)}"]
    if tools:
        parts.append(f"it offers {', '.join(tools[:3])}")
    score = scores.get(record.name)
    parts.append(f"measured health {score} of 100" if score is not None else "its health was not measured here yet")
    return Recommendation(
        record,
        tuple(need.text for need, _, _ in served),
        max(confidence for _, confidence, _ in served),
        f"{'; '.join(parts)}.",
        tools or tuple(server_json.tools(record.body))[:5],
    )


def _quote(terms: Sequence[str]) -> str:
    return ", ".join(f"'{term}'" for term in terms) or "what was asked"
