"""Finds problems in a server's text: a description is data, and must not steer the model that reads it. Pure.

Every finding has an id, a severity, a place and a quote. Findings of severity `high` (hidden characters, terminal
escapes, orders to the model) are held from the start for servers whose changes are held (`pins.py`); `wicket lint`
reports the rest. Patterns run in linear time (RE2, loaded for the first text) over the first 20,000 characters of a
text, which is more than any honest description has.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from itertools import chain
from typing import Any

import msgspec

from wicket_mcp.codec import encode
from wicket_mcp.model import JsonObject, Listing, Tool, as_list, as_object, as_text
from wicket_mcp.trust.lint_patterns import NAMED, ORDERS, WORDS, Severity
from wicket_mcp.trust.notation import INVISIBLE

LONG = 6000  # characters of one description
LOOKED_AT = 20_000
_QUOTED = 80
_ADDRESSES = ("uri", "uriTemplate")
_DEFINED = frozenset(
    {
        *("name", "title", "description", "text", "uri", "uriTemplate", "mimeType", "size", "arguments"),
        *("annotations", "inputSchema", "outputSchema", "icons", "execution", "version", "websiteUrl", "_meta"),
    }
)
"""The fields of definitions that the protocol has."""
_SHORTEST = 12  # characters that a text needs to be an order; a third of them in Chinese
_VAGUE = 400  # characters of a text that may consist only of assurances

_HIDDEN = re.compile(f"[{INVISIBLE}]")
_BROKEN_LINE = re.compile(r"(?<!\n)\n(?=[ \t]*[a-z])")  # inside a sentence, which goes on behind it
_JOINER = "\u200d"  # legitimate inside an emoji
_SELECTOR = re.compile("[\ufe00-\ufe0f]")  # legitimate once after a sign: an emoji, a Chinese character
_SIGNS = "©®"
_KEYCAP = "\u20e3"
_ESCAPE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


class Finding(msgspec.Struct, frozen=True):
    """One problem, and where it is."""

    id: str
    severity: Severity
    server: str
    place: str
    """`tool NAME: description`, `tool NAME: inputSchema.properties.x.description`, `instructions`."""
    quote: str
    """The text, with invisible characters spelled out."""

    @property
    def words(self) -> str:
        return f"{self.place} has {WORDS[self.id]}: {self.quote}"


def lint(listings: Iterable[Listing]) -> list[Finding]:
    """All problems with what servers say, and with similar names among them."""
    every = list(listings)
    findings = [finding for listing in every for finding in lint_listing(listing)]
    return findings + list(_look_alikes(tool for listing in every for tool in listing.tools))


def lint_listing(listing: Listing) -> Iterator[Finding]:
    """The problems with the texts of one server."""
    for place, text in _texts(listing):
        if place == f"tool {listing.server}.{text}: name":
            findings = lint_name(text)
        else:
            findings = (_lint_characters if _is_address(place) else lint_text)(text)
        yield from (Finding(name, severity, listing.server, place, quote) for name, severity, quote in findings)


def lint_text(text: str) -> Iterator[tuple[str, Severity, str]]:
    """Id, severity and quote of the problems with one text; each id once."""
    looked_at = text[:LOOKED_AT]
    yield from _lint_characters(text)
    if len(text) > LONG:  # nothing honest is longer than what is looked at, and an order may stand behind it
        yield "long", "low" if len(text) <= LOOKED_AT else "high", f"{len(text):,} characters"
    if len(looked_at) < (_SHORTEST if looked_at.isascii() else _SHORTEST // 3):
        return
    plain = looked_at if looked_at.isascii() else unicodedata.normalize("NFKC", _HIDDEN.sub("", looked_at))
    lines = _BROKEN_LINE.sub(" ", plain)
    spellings = [lines] if lines.isascii() else [lines, lines.translate(_CONFUSABLE)]
    lowered = [spelling.lower() for spelling in spellings]
    for name, pattern, severity, stems in _compile_patterns():
        if name == "reassures" and len(plain) > _VAGUE:
            continue  # a text of some length describes its tool
        for spelling, folded in zip(spellings, lowered, strict=True):
            if any(stem in folded for stem in stems) and (match := pattern.search(spelling)) is not None:
                yield name, severity, _quote(spelling, match.start(), match.end())
                break


def _lint_characters(text: str) -> Iterator[tuple[str, Severity, str]]:
    """The problems with the characters of a text, whatever it says: of an address, no more is looked at."""
    looked_at = text[:LOOKED_AT]
    if (hidden := _find_hidden(looked_at)) is not None:
        yield "hidden-characters", "high", hidden
    if (escape := _ESCAPE.search(looked_at)) is not None:
        yield "terminal-escape", "high", _quote(looked_at, escape.start(), escape.end())


def lint_name(name: str) -> Iterator[tuple[str, Severity, str]]:
    """Like `lint_text`, for the name of a tool."""
    yield from lint_text(name)
    words = " ".join(word.lower() for word in _NAME_WORD.findall(name))
    if (match := _name_pattern().search(words)) is not None:
        yield "attack-name", "medium", f"‘{match[0]}’"


class Suspicion(msgspec.Struct, frozen=True):
    """The problem with one definition, in our own words, so that an agent may read them."""

    severity: Severity
    words: str


def suspect(definition: JsonObject, kind: str = "tool") -> Suspicion | None:
    """The worst problem with the text of a definition, other than its length.

    Remembered: a server lists the same texts again and again, and may have thousands of resources. The texts themselves
    are not kept, because a server may have new ones each time.
    """
    own_name, texts = as_text(definition.get("name")), list(_definition_texts(definition))
    digest = hashlib.blake2b(encode((kind, own_name, texts)), digest_size=16).digest()
    known = _judged.get(digest, _UNKNOWN)
    if known is not _UNKNOWN:
        return known
    if len(_judged) >= _MOST_JUDGED:
        _judged.clear()
    _judged[digest] = judged = _judge(kind, own_name, texts)
    return judged


_UNKNOWN = Suspicion("low", "")
_judged: dict[bytes, Suspicion | None] = {}
_MOST_JUDGED = 16_384


def _judge(kind: str, own_name: str, texts: Iterable[tuple[str, str]]) -> Suspicion | None:
    worst: Suspicion | None = None
    findings = ((_lint_characters if _is_address(place) else lint_text)(text) for place, text in texts)
    for name, severity, _ in chain((lint_name if kind == "tool" else lint_text)(own_name), *findings):
        if severity == "high":
            return Suspicion("high", f"its text has {WORDS[name]}")
        if severity == "medium" and worst is None:
            worst = Suspicion("medium", f"its text has {WORDS[name]}")
    return worst


@cache
def _name_pattern() -> Any:
    re2: Any = import_module("re2")  # as below
    return re2.compile(rf"\b(?:{NAMED})\b")


@cache
def _compile_patterns() -> tuple[tuple[str, Any, Severity, tuple[str, ...]], ...]:
    re2: Any = import_module("re2")  # loaded for the first text, not when the gateway starts
    return tuple(
        (name, re2.compile(f"(?i){regex}"), level, tuple(stems.split())) for name, regex, level, stems in ORDERS
    )


def skeleton(name: str) -> str:
    """A name as it looks: similar letters, case and separators folded."""
    folded = unicodedata.normalize("NFKC", name).translate(_CONFUSABLE).casefold()
    shapes = _SEPARATORS.sub("", _HIDDEN.sub("", folded)).translate(_SHAPES)
    return shapes.replace("rn", "m").replace("vv", "w")


_NAME_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_ENDING = re.compile(r"[_.\-]?(?:v\d+|new|latest|updated|official|secure|plus|pro|copy)$", re.IGNORECASE)
_SEPARATORS = re.compile(r"[\s_.\-]+")
_CONFUSABLE = str.maketrans(
    {
        letter: latin
        for latin, letters in {
            "a": "аαɑ", "b": "Ьƅ", "c": "сϲ", "d": "ԁɗ", "e": "еєҽ", "g": "ɡց", "h": "һհ", "i": "іιɩ", "j": "јϳ",
            "k": "кκ", "l": "ӏⅼǀ", "m": "мⅿ", "n": "ոп", "o": "оοօσ", "p": "рρ", "q": "ԛգ", "r": "гꭇ", "s": "ѕꜱ",
            "t": "тτ", "u": "υսц", "v": "νѵ", "w": "ԝѡ", "x": "хχ", "y": "уγү", "z": "ᴢ",
            "A": "АΑ", "B": "ВΒ", "C": "СϹ", "E": "ЕΕ", "H": "НΗ", "I": "ІΙ", "K": "КΚ", "M": "МΜ", "N": "Ν",
            "O": "ОΟ", "P": "РΡ", "S": "Ѕ", "T": "ТΤ", "X": "ХΧ", "Y": "Υ", "Z": "Ζ",
        }.items()
        for letter in letters
    }
)  # fmt: skip
_SHAPES = str.maketrans("01|i", "olll")


class LookAlikes:
    """Names of tools that look alike, within a server and across servers (an identical name is legitimate)."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._seen: dict[str, Tool] = {}
        for tool in tools:
            self.add(tool)

    def add(self, tool: Tool) -> None:
        self._seen.setdefault(skeleton(tool.name), tool)

    def find(self, tool: Tool) -> tuple[str, Severity, Tool] | None:
        """The tool that this one's name imitates, with id and severity: the names differ only to a machine, or this one
        is another server's name with something like a version at its end.
        """
        first = self._seen.get(skeleton(tool.name))
        if first is not None and _deceives(first.name, tool.name):
            return "look-alike", "high", first
        base = _ENDING.sub("", tool.name)
        first = self._seen.get(skeleton(base)) if base != tool.name else None
        if first is not None and first.server != tool.server and first.name == base:
            return "name-variant", "medium", first
        return None


def _look_alikes(tools: Iterable[Tool]) -> Iterator[Finding]:
    names = LookAlikes()
    for tool in tools:
        if (imitation := names.find(tool)) is not None:
            name, severity, first = imitation
            quote = f"'{_spell(tool.name)}' and '{first.key}'"
            yield Finding(name, severity, tool.server, f"tool {tool.key}", quote)
        names.add(tool)


def _deceives(left: str, right: str) -> bool:
    """Whether two similar names are more than two spellings of one word (`get_user`, `getUser`)."""
    plain = [_SEPARATORS.sub("", name).casefold() for name in (left, right)]
    return plain[0] != plain[1]


def _find_hidden(text: str) -> str | None:
    for match in _HIDDEN.finditer(text):
        if not _is_legitimate(text, match.start()):
            return _quote(text, match.start(), match.end())
    return None


def _is_legitimate(text: str, at: int) -> bool:
    """Whether a character that cannot be seen belongs to the sign before it."""
    before = text[at - 1] if at else " "
    if text[at] == _JOINER:
        return ord(before) > 0x2000
    if not _SELECTOR.match(text[at]) or _HIDDEN.match(before):
        return False
    return ord(before) > 0x2000 or before in _SIGNS or text[at + 1 : at + 2] == _KEYCAP


def _quote(text: str, start: int, end: int) -> str:
    margin = max(0, (_QUOTED - (end - start)) // 2)
    return f"“{_spell(text[max(0, start - margin) : min(len(text), start + _QUOTED)].strip())}”"


def _spell(text: str) -> str:
    """`text` with invisible characters spelled out."""
    return "".join(
        character
        if character.isprintable() and not _HIDDEN.match(character)
        else " "
        if character in "\n\t\r"
        else f"<U+{ord(character):04X}>"
        for character in text
    )


def _texts(listing: Listing) -> Iterator[tuple[str, str]]:
    if listing.instructions:
        yield "instructions", listing.instructions
    yield from ((f"server: {place}", text) for place, text in _definition_texts(listing.server_info))
    for tool in listing.tools:
        yield f"tool {tool.key}: name", tool.name
        yield from ((f"tool {tool.key}: {place}", text) for place, text in _definition_texts(tool.definition))
    others = (("prompt", listing.prompts), ("template", listing.templates), ("resource", listing.resources))
    for kind, entries in others:
        for entry in entries:
            label = f"{kind} {as_text(entry.get('name'))}"
            yield f"{label}: name", as_text(entry.get("name"))
            yield from ((f"{label}: {place}", text) for place, text in _definition_texts(entry))


def _definition_texts(definition: JsonObject) -> Iterator[tuple[str, str]]:
    """Every text of a definition, and its place; the name is looked at by itself."""
    for key, value in definition.items():
        if key not in _DEFINED:
            yield f"{key}: key", key
        if key != "name":
            yield from _walk(value, key)


def _walk(value: Any, place: str, depth: int = 1) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield place, value
    elif depth < 40:
        items = as_object(value).items() if isinstance(value, dict) else enumerate(as_list(value))
        for key, item in items:
            yield from _walk(item, f"{place}.{key}", depth + 1)
            if isinstance(key, str) and not _is_keyword(place):
                yield f"{place}.{key}: name", key


def _is_keyword(place: str) -> bool:
    """Whether the keys at this place are words of the protocol or of JSON Schema."""
    head, _, last = place.partition(".")[0], *place.rpartition(".")[1:]
    return head in _DEFINED and head != "_meta" and last != "properties"


def _is_address(place: str) -> bool:
    """Whether a text is an address, of which only the characters can be wrong."""
    name = place.rpartition(": ")[2]
    return name in _ADDRESSES or (name.startswith("icons.") and name.endswith(".src"))
