"""Selects the sections of a long output that are relevant to an intent; sections are never rewritten.

A section is an item of a list, a field of an object, a paragraph or a group of lines of a text.
"""

from dataclasses import dataclass
from typing import Any

from wicket_mcp.codec import encode
from wicket_mcp.model import as_list, as_object
from wicket_mcp.search.text import STOP, stem, words

LONG = 5000  # characters below which an output is short enough to be read completely
_GROUP = 10
_ENOUGH = 0.3


@dataclass(frozen=True, slots=True)
class Relevant:
    """The remaining value, and how many of its sections were kept."""

    value: Any
    kept: int
    total: int


def keep_relevant(value: Any, intent: str) -> Relevant | None:
    """`value` with only the sections that share words with `intent`; None if that keeps all or nothing."""
    terms = _terms(intent)
    if not terms or len(_text(value)) <= LONG:
        return None
    if isinstance(value, list):
        items = as_list(value)
        positions = _matching_positions(items, terms)
        result: Any = [items[at] for at in positions]
        total = len(items)
    elif isinstance(value, dict):
        fields = as_object(value)
        if (largest := _bulk(fields)) is not None:
            inner = keep_relevant(fields[largest], intent)
            return Relevant({**fields, largest: inner.value}, inner.kept, inner.total) if inner else None
        names = list(fields)
        positions = _matching_positions([{name: fields[name]} for name in names], terms)
        result, total = {names[at]: fields[names[at]] for at in positions}, len(names)
    else:
        sections = _sections(_text(value))
        positions = _matching_positions(sections, terms)
        result, total = "\n\n".join(sections[at] for at in positions), len(sections)
    return Relevant(result, len(positions), total) if 0 < len(positions) < total else None


def _matching_positions(sections: list[Any], terms: set[str]) -> list[int]:
    """Positions of the sections with enough of the wanted words; of the best ones if none has enough."""
    matches = [terms & _terms(_text(section)) for section in sections]
    common = {term for term in terms if all(term in match for match in matches)}
    telling = terms - common or terms  # a word that occurs everywhere distinguishes no section
    shares = [len(match & telling) / len(telling) for match in matches]
    best = max(shares, default=0.0)
    needed = min(best, _ENOUGH)
    return [at for at, share in enumerate(shares) if share >= needed and share > 0]


def _bulk(fields: dict[str, Any]) -> str | None:
    """The list or text that makes up most of an object, if there is one."""
    sizes = {name: len(_text(item)) for name, item in fields.items() if isinstance(item, list | str | dict)}
    largest = max(sizes, key=lambda name: sizes[name], default=None)
    return largest if largest is not None and sizes[largest] > 0.8 * sum(sizes.values()) else None


def _sections(text: str) -> list[str]:
    paragraphs = [part for part in text.split("\n\n") if part.strip()]
    if len(paragraphs) > 1:
        return paragraphs
    lines = text.splitlines()
    return ["\n".join(lines[at : at + _GROUP]) for at in range(0, len(lines), _GROUP)]


def _terms(text: str) -> set[str]:
    return {stem(word) for word in words(text) if word not in STOP}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else encode(value).decode("utf-8", "replace")
