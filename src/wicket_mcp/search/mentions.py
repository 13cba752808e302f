"""Products and subjects that a query names, and whether the found tools mention them.

A request to "create a GitHub issue" is not served by tools that never mention GitHub, however well the other words fit;
nor is one about flights by tools that never mention travel. Both lists (`products.txt`, `subjects.txt`) are written by
hand. `choice.py` calls this for the few tools it is about to show. Knows no scores.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache, cached_property
from itertools import pairwise

import msgspec

from wicket_mcp.model import Tool
from wicket_mcp.search.text import STOP, stem, words

_NAME = re.compile(r"[A-Za-z0-9]+(?:\.[A-Za-z0-9]+)*")
_QUOTED = re.compile('"[^"]*"|“[^”]*”|„[^“]*“|«[^»]*»|`[^`]*`')
_READING = frozenset(("doc", "docs", "documentation", "manual", "tutorial", "tutorials"))
"""What is read about a product elsewhere than in it."""
_MOST_TEXT = 1200
_SHORT = 4
"""Letters of a name that may occur by chance within a word."""


class Mentions(msgspec.Struct, frozen=True):
    """What a query names, and which of it no tool mentions."""

    products: tuple[str, ...] = ()
    missing_products: tuple[str, ...] = ()
    subjects: int = 0
    missing_subjects: int = 0


def products(query: str) -> list[str]:
    """The product names in a query, as they are written there: not those in quotes or paths ("owner/repository"), which
    are what somebody else has called something."""
    plain, capital = _products()
    said = _QUOTED.sub(" ", query)
    found = list(_NAME.finditer(said if _NAME.search(said) else query))
    names = [match[0] for match in found]
    pairs = {" ".join(pair) for pair in pairwise(names) if "_".join(pair).lower() in plain}
    paired = {name for pair in pairs for name in pair.split(" ")}
    known = [
        name.lower() in plain or (name in capital and (at > 0 or len(names) == 1)) for at, name in enumerate(names)
    ]
    single = [
        name
        for at, name in enumerate(names)
        if known[at] and name not in paired and not any(not known[other] for other in _beside_slash(found, at))
    ]
    without_spaces = () if query.isascii() else (name for name in plain if not name.isascii() and name in query)
    return [*single, *sorted(pairs), *sorted(without_spaces)]


def _beside_slash(found: Sequence[re.Match[str]], at: int) -> list[int]:
    """The names before and after one that only a slash parts from it."""
    text, start, end = found[at].string, found[at].start(), found[at].end()
    before = [at - 1] if at and text[found[at - 1].end() : start] == "/" else []
    return before + ([at + 1] if at + 1 < len(found) and text[end : found[at + 1].start()] == "/" else [])


def is_product(word: str) -> bool:
    """Whether a word in lower case can only be a product's name; short ones are too easily something else."""
    return len(word) > _SHORT and word in _products()[0]


class Mentioned:
    """What a tool mentions: its text in lower case, and the stems of its words. Each is made when it is asked for."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool

    @cached_property
    def text(self) -> str:
        return self._read().lower()

    def mentions(self, product: str) -> bool:
        """Whether the tool names a product; a short name must be a word of its own."""
        name = product.lower()
        if len(name) > _SHORT:
            return name in self.text or name.replace(" ", "") in self.text or self._is_called(name)
        return re.search(rf"(?<![a-z0-9]){re.escape(name)}(?![a-z0-9])", self.text) is not None

    def _is_called(self, name: str) -> bool:
        """Whether a name of several words is in those of server and tool: "Google Contacts" in google.find_contacts."""
        parts = name.split()
        return len(parts) > 1 and set(words(f"{self._tool.server} {self._tool.name}")).issuperset(parts)

    @cached_property
    def stems(self) -> frozenset[str]:
        return frozenset(map(stem, set(words(self._read())) - STOP))

    def _read(self) -> str:
        tool = self._tool
        return f"{tool.server} {tool.name} {tool.title} {tool.description[:_MOST_TEXT]} {_parameters(tool)}"


def mentions(query: str, tools: Callable[[], Sequence[Mentioned]]) -> Mentions:
    """`tools` is called only for a query that names a product or a subject."""
    spoken = words(query)
    named = products(query) if _READING.isdisjoint(spoken) else []
    groups = _subjects()
    subject_words = {word for word in map(stem, spoken) if word in groups}
    if not named and not subject_words:
        return Mentions()
    mentioned = tools()
    missing = tuple(dict.fromkeys(name for name in named if not any(tool.mentions(name) for tool in mentioned)))
    unmentioned = [word for word in subject_words if all(tool.stems.isdisjoint(groups[word]) for tool in mentioned)]
    return Mentions(tuple(named), missing, len(subject_words), len(unmentioned))


def _parameters(tool: Tool) -> str:
    properties = tool.input_schema.get("properties")
    return " ".join(map(str, properties)) if isinstance(properties, dict) else ""  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


@cache
def _products() -> tuple[frozenset[str], frozenset[str]]:
    """Names with no other meaning, and names that are also common words."""
    names = {name for line in _lines("products.txt") for name in line.split()}
    return frozenset(n for n in names if n == n.lower()), frozenset(n for n in names if n != n.lower())


@cache
def _subjects() -> dict[str, frozenset[str]]:
    """For the stem of each word of a subject: the stems of all its words."""
    groups: dict[str, frozenset[str]] = {}
    for line in _lines("subjects.txt"):
        group = frozenset(map(stem, line.split()))
        for word in group:
            groups[word] = groups.get(word, frozenset()) | group
    return groups


def _lines(name: str) -> list[str]:
    from importlib.resources import files  # noqa: PLC0415  (a start without a search should not wait for it)

    text = files("wicket_mcp.search").joinpath(name).read_text("utf-8")
    return [line for line in text.splitlines() if not line.startswith("#")]
