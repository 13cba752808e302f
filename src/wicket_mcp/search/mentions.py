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
from wicket_mcp.spelling import stands_alone

_NAME = re.compile(r"[A-Za-z0-9]+(?:\.[A-Za-z0-9]+)*")
_LETTER = re.compile(r"[A-Za-z0-9]")
_WRITTEN = re.compile(r"\S+")
_PERHAPS_ADDRESS = re.compile(r"[/@]|www\.")
_ADDRESS = re.compile(r"^\W*https?://|^\W*www\.|\w@\w")
_WEB = re.compile(r"https?://([\w.-]*\w)(?::\d+)?(?:/[^\s\"'<>)\]]*[^\s\"'<>)\].,;:!?]|/)?")
_QUESTION = re.compile(r"[?#]")
_ENDING = re.compile(r"\.[a-z]{2,4}$")
_QUOTED = re.compile('"[^"]*+"|“[^“”]*+”|„[^„“]*+“|«[^«»]*+»|`[^`]*+`')
_READING = frozenset(("doc", "docs", "documentation", "manual", "tutorial", "tutorials"))
"""What is read about a product elsewhere than in it."""
_HANDLED = frozenset(
    ("attach", "copy", "delete", "download", "find", "list", "mail", "move", "rename", "send", "upload")
)
"""What is done with a file of any format."""
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
    """The product names in a query, as they are written there, and the formats of files (".docx").

    Names in quotes, addresses or paths ("owner/repository") are left out: that is what somebody else has called
    something, or where a page is that a tool for any page reads.
    """
    plain, capital = _products()
    unquoted = _QUOTED.sub(" ", query)
    matches = list(_NAME.finditer(unquoted if _NAME.search(unquoted) else query))
    names = [match[0] for match in matches]
    pairs = {" ".join(pair) for pair in pairwise(names) if "_".join(pair).lower() in plain}
    paired = {name for pair in pairs for name in pair.split(" ")}
    known = [
        name.lower() in plain or (name in capital and (at > 0 or len(names) == 1)) for at, name in enumerate(names)
    ]
    elsewhere = _in_addresses(matches, known)
    single = [
        name
        for at, name in enumerate(names)
        if known[at] and name not in paired and matches[at].start() not in elsewhere
    ]
    formats = {f".{name.rpartition('.')[2].lower()}" for name in names if "." in name or f".{name}" in unquoted} & plain
    without_spaces = () if query.isascii() else (name for name in plain if not name.isascii() and name in query)
    return [*single, *sorted(pairs), *sorted(formats), *sorted(without_spaces)]


def _in_addresses(matches: Sequence[re.Match[str]], known: Sequence[bool]) -> set[int]:
    """Where names begin that are a part of a web or mail address, or of a path of which another part is no product; but
    the scheme of one is ("s3://bucket")."""
    inside: set[int] = set()
    text = matches[0].string if matches else ""
    if not _PERHAPS_ADDRESS.search(text):  # nearly every query
        return inside
    is_known = {match.start(): value for match, value in zip(matches, known, strict=True)}
    for written in _WRITTEN.finditer(text):
        within = list(_NAME.finditer(text, written.start(), written.end()))
        is_path = "/" in written[0] and not all(is_known[match.start()] for match in within)
        if is_path or _ADDRESS.search(written[0]):
            inside.update(match.start() for match in within if not text.startswith("://", match.end()))
    return inside


def _is_word(name: str, text: str) -> bool:
    return stands_alone(name, text, _LETTER, _LETTER)


def is_product(word: str) -> bool:
    """Whether a word in lower case can only be a product's name; short ones are too easily something else."""
    return len(word) > _SHORT and word in _products()[0]


def shorten_addresses(query: str) -> str:
    """A query in which the addresses of pages are read as that, not as their words: "read URL", "read .pdf URL".

    An address of a product's site stays: its words tell what is meant ("close https://github.com/acme/web/issues/3").
    """
    return _WEB.sub(_shorten, query) if "://" in query else query


def _shorten(address: re.Match[str]) -> str:
    plain, capital = _products()
    if any(label in plain or label.capitalize() in capital for label in address[1].lower().split(".")):
        return address[0]
    page = _QUESTION.split(address[0].partition(address[1])[2], maxsplit=1)[0].rpartition("/")[2]
    ending = _ENDING.search(page)
    return f"{ending[0]} URL" if ending else "URL"


class Mentioned:
    """What a tool mentions: its text in lower case, and the stems of its words. Each is made when it is asked for."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool

    @cached_property
    def text(self) -> str:
        return self._read().lower()

    @cached_property
    def called(self) -> frozenset[str]:
        """The words of the names of server and tool."""
        return frozenset(words(f"{self._tool.server} {self._tool.name}"))

    @cached_property
    def named(self) -> frozenset[str]:
        """The stems of the words of its server, its name and its title."""
        return frozenset(map(stem, words(f"{self._tool.server} {self._tool.name} {self._tool.title}")))

    def mentions(self, product: str) -> bool:
        """Whether the tool names a product by any of its names."""
        return any(map(self._names, (product, *_other_names().get(product.lower(), ()))))

    def _names(self, product: str) -> bool:
        """A short name must be a word of its own, one that is also a common word must have its capital ("Notion"), and
        of one of several words the first must be in the names of server and tool ("Google Calendar"), if they do not
        stand together."""
        name = product.lower()
        if name in self.called or any(word.startswith(name) for word in words(self._tool.server) if len(name) > 2):
            return True
        if name not in _products()[0] and product in _products()[1]:
            return _is_word(product, self._read())
        if len(name) <= _SHORT:
            return _is_word(name, self.text)
        return name in self.text or name.replace(" ", "") in self.text or self._is_described_as(name)

    def _is_described_as(self, name: str) -> bool:
        first, *others = name.split()
        return bool(others) and first in self.called and all(stem(word) in self.stems for word in others)

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
    if not _HANDLED.isdisjoint(spoken):
        named = [name for name in named if not name.startswith(".")]
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
    names = {name.partition("=")[0] for line in _lines("products.txt") for name in line.split()}
    return frozenset(n for n in names if n == n.lower()), frozenset(n for n in names if n != n.lower())


@cache
def _other_names() -> dict[str, tuple[str, ...]]:
    """By what else tools call a product."""
    entries = (name.replace("_", " ").split("=") for line in _lines("products.txt") for name in line.split())
    return {name.lower(): tuple(others) for name, *others in entries if others}


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
