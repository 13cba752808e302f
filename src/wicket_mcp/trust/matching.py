"""Whether a call's arguments came from a text: this matching carries labels through a model. Pure.

An argument of at least eight characters that occurs inside prose, and is not a whole field of a result (an id, an
address in its own column), came from there. So did a shorter one whose parameter the prose names before it. A text may
also ask for exactly what a call does.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from itertools import islice
from typing import Any

import msgspec

from wicket_mcp import codec
from wicket_mcp.budget import MAX_ADDRESS
from wicket_mcp.model import JsonObject, as_list, as_object, as_text
from wicket_mcp.pauses import rest_between
from wicket_mcp.trust import notation
from wicket_mcp.trust.effects import VERBS, effect_of
from wicket_mcp.trust.notation import MAX_TEXT, cut, decode, fold, strip
from wicket_mcp.trust.sources import OTHERS_WRITE

SHORTEST = 8  # characters of an argument that can be matched
LONGEST = 400  # characters of an argument matched as a whole; in a longer one, only addresses and numbers
MAX_FIELDS = 20_000  # fields of one result that are told apart from prose
MAX_LEAVES = 200_000  # texts, numbers and keys of one result that are examined
MAX_ECHOES = 50  # parts of a call's arguments that are looked for in its error
HALF = 4  # characters of the shorter part of a number that is told in two
SENTENCE = 200  # characters between these two
NEAR = 80  # characters between a verb and what it is about
BESIDE = 40  # characters before a short argument in which its parameter must be named
WORDS = 5  # words that make a sentence
LABEL = 120  # characters of a field of several words that is not a sentence: a postal address, a title

_PARTS = ("content", "contents", "messages")  # of a result, a resource, a prompt
_NESTED = ("content", "resource")
_LINK = ("name", "title", "description", "uri")

_KEY = "\0"  # stands for the name of a field: the text is a key, which is never passed on as a whole field
_COLUMN = re.compile(r"[\w.-]{1,64}")
_ADDRESS = r"(?:https?://|www\.)[^\s\"'<>)\]]+"
_TOKEN = re.compile(
    rf"(?<![\w.+-])[\w.+-]++@[\w-]++\.[\w.]+|{_ADDRESS}|(?<!\w)(?=[^\W\d]*+\d)\w{{8,}}"  # each run is read once
)
_URL = re.compile(rf"^\s*+(?:{_ADDRESS}|[\w-]++(?:\.[\w-]++)++(?:/\S*+)?)\s*+$")
_PROSE = re.compile(r"\S\s+\S+\s+\S+\s+\S")
_SENTENCE = re.compile(r"[.!?](?:\s|$)|\n")
_LONG_WORD = re.compile(r"[^\W\d_]{2,}+")
_BLANK = r"[\s\pZ\x0b\x1c-\x1f\x85]"  # what Python calls a space, for re2
LEAD = (
    r"(?m)(?:^|[.!?:;,\n>\"'(*_-]|\b(?:please|must|should|to|and|then|now|you|can|just|first|kindly|me)\b)"
    rf"{_BLANK}*(?:[\pL\pN_]+ly{_BLANK}+)?"
)


class Text(msgspec.Struct, frozen=True):
    """The text of a result, folded for matching (`notation.py`)."""

    prose: str
    fields: frozenset[str]
    """The keys of its whole fields."""
    letters: str = ""
    """The letters and digits of the prose."""

    def __len__(self) -> int:
        return len(self.prose) + sum(map(len, self.fields))

    @classmethod
    def of(cls, prose: str, fields: Collection[str] = ()) -> "Text":
        return cls(prose, frozenset(fields), strip(prose))

    def has(self, candidate: "Candidate") -> bool:
        """Whether its prose has what may have been copied from it, in this notation or another."""
        if candidate.field:
            return _is_named(candidate.field, candidate.text, self.prose)
        key = candidate.key
        where = self.letters if candidate.is_plain else self.prose
        return key in where or key[::-1] in where or (candidate.is_number and self._has_halves(key))

    def has_field(self, candidate: "Candidate") -> bool:
        return candidate.key in self.fields

    def says(self, candidate: "Candidate") -> bool:
        """Whether it has the candidate at all, as a whole field or in its prose."""
        return self.has_field(candidate) or (candidate.text in self.prose if candidate.field else self.has(candidate))

    def asks_for(self, tool: str) -> bool:
        """Whether it asks for what a tool of this name does."""
        return _requests(tool).search(self.prose.encode("utf-8", "replace")) is not None

    def _has_halves(self, key: str) -> bool:
        """Whether the prose has a beginning of the key and, near it, the rest."""
        first = _longest(lambda size: key[:size] in self.letters, len(key) - HALF)
        last = _longest(lambda size: key[-size:] in self.letters, len(key) - HALF)
        if first < HALF or last < HALF or first + last < len(key):
            return False
        # The shortest that may be halves are wherever longer ones are.
        return _are_near(key[: max(HALF, len(key) - last)], key[min(first, len(key) - HALF) :], self.letters)


class Candidate(msgspec.Struct, frozen=True):
    """Something in an argument that may have been copied from a text."""

    text: str
    """Folded, as it stands in the argument."""
    key: str
    """What two notations of it have in common."""
    field: str = ""
    """For one that is too short to be matched by itself: the name of its field."""

    @classmethod
    def of(cls, text: str) -> "Candidate":
        return cls(text, key_of(text))

    @property
    def is_plain(self) -> bool:
        return self.key.isalnum()

    @property
    def is_number(self) -> bool:
        """Whether it is one word with digits, long enough to be told in two parts."""
        return len(self.key) >= 3 * HALF and self.text == self.key and not self.key.isalpha()


def key_of(text: str) -> str:
    """What two notations of a folded text have in common: its letters and digits.

    Few of them say nothing, and in a sentence the marks between the words are no notation: then the text itself.
    """
    letters = strip(text)
    return letters if len(letters) >= SHORTEST and len(_LONG_WORD.findall(text)) < WORDS else text


def _longest(fits: Callable[[int], bool], most: int) -> int:
    """The largest size up to `most` that fits, if every smaller one fits too."""
    return bisect_left(range(1, most + 1), True, key=lambda size: not fits(size))


def _are_near(first: str, second: str, letters: str) -> bool:
    """Whether both stand within `SENTENCE` characters of each other, in any order."""
    one_at, other_at = letters.find(first), letters.find(second)
    while one_at >= 0 and other_at >= 0:
        if abs(one_at - other_at) <= SENTENCE:
            return True
        if one_at < other_at:
            one_at = letters.find(first, one_at + 1)
        else:
            other_at = letters.find(second, other_at + 1)
    return False


def read(value: Any, trusted: Collection[str] = ()) -> Text:
    """The text of a value, without the fields of these names."""
    prose: dict[str, None] = {}
    fields: set[str] = set()
    size = 0
    leaves = islice(_leaves(value, keys=set()), MAX_LEAVES)
    for name, text in rest_between(leaves):
        folded = fold(text)
        if name in trusted:
            fields.add(key_of(folded))
            continue
        if is_prose(name, text) and folded not in prose:
            prose[folded] = None
            if plain := fold(decode(text)):
                prose[plain] = None
            size += len(folded) + len(plain)
        if name != _KEY and len(fields) < MAX_FIELDS and is_field(name, text):
            fields.add(key_of(folded))
        if size > MAX_TEXT:
            break
    return Text.of("\n".join(prose)[:MAX_TEXT], fields)


def is_prose(name: str, text: str) -> bool:
    """Whether a person wrote it, by the name and look of its field."""
    return _is_written(name, text) or _PROSE.search(text) is not None or len(text) > LONGEST


def is_field(name: str, text: str) -> bool:
    """Whether it is passed on as a whole: an id, an address, a title."""
    return not _is_written(name, text) and len(text) <= LABEL and not _SENTENCE.search(text)


def _is_written(name: str, text: str) -> bool:
    return name in OTHERS_WRITE and len(text) >= SHORTEST


def value_of(body: JsonObject) -> Any:
    """A result as data: its structured content and its texts, parsed if they are JSON.

    The usual text that only repeats the structured content is left out. The text of an error counts, however short.
    """
    structured = body.get("structuredContent")
    known = (structured, as_object(structured).get("result"))
    values = [] if structured is None else [structured]
    parts = [body[name] for name in _PARTS if name in body]
    values += [value for part in parts for value in _values(part) if value not in known]
    if structured is None and not parts:  # of a task, or the answer to another method
        inner = body.get("result")
        return (
            value_of(as_object(inner))
            if isinstance(inner, dict)
            else {name: part for name, part in body.items() if name != "_meta"}
        )
    return [{"message": value} for value in values] if body.get("isError") else values


def _values(part: Any) -> Iterator[Any]:
    """The texts of content, parsed, however deep they lie: blocks, resources, messages."""
    if isinstance(part, str):
        yield parse(part)
    elif isinstance(part, list):
        for item in as_list(part):
            yield from _values(item)
    elif isinstance(part, dict):
        block = as_object(part)
        if block.get("type") == "resource_link":
            yield {name: block[name] for name in _LINK if name in block}
        elif "text" in block:
            yield parse(as_text(block["text"]))
        else:
            yield from (value for name in _NESTED for value in _values(block.get(name)))
            if "structuredContent" in block:  # of a tool's result inside a message
                yield block["structuredContent"]


def drop_echoes(text: Text, arguments: JsonObject) -> Text:
    """The text of an error without what it repeats of its call's arguments: they did not come from it."""
    prose = text.prose
    repeated = (candidate for candidate in candidates_of("", arguments) if not candidate.field)
    for candidate in islice(repeated, MAX_ECHOES):
        prose = prose.replace(candidate.text, " ")
    return Text.of(prose, text.fields)


def parse(text: str) -> Any:
    if text[:1] not in ("[", "{") or len(text) > MAX_TEXT:
        return text[:MAX_TEXT]
    try:
        return codec.decode(text)
    except ValueError:
        return text


def candidates_of(name: str, argument: Any) -> Iterator[Candidate]:
    """What of an argument may have been copied from a text."""
    for field, leaf in _leaves(argument, name.lower()):
        folded = fold(leaf).strip()
        if 0 < len(folded) < SHORTEST:
            yield Candidate(folded, folded, field or _KEY)
        yield from map(Candidate.of, _copies(folded))
        if plain := fold(decode(leaf)).strip():
            yield from map(Candidate.of, _copies(plain))


def _copies(leaf: str) -> Iterator[str]:
    if SHORTEST <= len(leaf) <= LONGEST:
        yield leaf
    tokens = (token for piece in cut(leaf, notation.LONGEST) for token in _TOKEN.findall(piece))
    yield from (token for token in tokens if len(token) >= SHORTEST)
    if not _is_url(leaf):
        return
    address = (leaf.partition("://")[2] or leaf).strip("/")
    host, _, path = address.partition("/")
    folder = address.rpartition("/")[0]
    # An address that goes on where the text's ends can carry data to the text's host.
    places = (address, host if "?" in address or "#" in address else "", folder if "/" in path else "")
    yield from (place for place in places if "." in place and len(place) >= SHORTEST)


def is_address(argument: Any) -> bool:
    """Whether an argument is an address on the network, or has one: fetching it sends something to its host."""
    return any(_is_url(leaf) for _, leaf in _leaves(argument))


def _is_url(leaf: str) -> bool:
    return _URL.match(leaf[:MAX_ADDRESS]) is not None


def _is_named(field: str, value: str, prose: str) -> bool:
    """Whether the prose has this value as a word of its own, with a word of the parameter's name just before it."""
    words = _LONG_WORD.findall(field)
    return any(
        next(_places(word, prose, max(0, start - BESIDE), start), None) is not None
        for start in _places(value, prose, 0, len(prose))
        for word in words
    )


def _places(value: str, prose: str, start: int, end: int) -> Iterator[int]:
    """Where a part of the prose has this value as a word of its own."""
    at = prose.find(value, start, end)
    while at >= 0:
        after = at + len(value)
        alone = not (prose[at - 1 : at].isalnum() or prose[after : after + 1].isalnum())
        if alone:
            yield at
        at = prose.find(value, after if alone else at + 1, end)


class Wish(msgspec.Struct, frozen=True):
    """How a text would ask for the effect of a tool: its own verb, or one with the same effect, and near it a noun."""

    verbs: tuple[str, ...]
    nouns: tuple[str, ...]
    """Empty if the verb alone says it."""


ALL_VERBS: frozenset[str] = frozenset[str]().union(*VERBS.values())


@lru_cache(maxsize=4096)
def wish_for(tool: str) -> Wish:
    words = re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", tool).lower())
    effect = effect_of(tool, {}) or "writes"
    verbs = sorted((set(words) & ALL_VERBS) | (VERBS[effect] if effect != "writes" else set()))
    nouns = [word for word in words if word not in verbs and len(word) > 2]
    return Wish(tuple(verbs), tuple(nouns) if effect == "writes" else ())


@lru_cache(maxsize=4096)
def _requests(tool: str) -> Any:
    """Sentences that ask for the effect of this tool.

    An expression of re2, which takes linear time whatever the sentences are.
    """
    wish = wish_for(tool)
    near = rf"[^.\n]{{0,{NEAR}}}\b(?:{'|'.join(map(re.escape, wish.nouns))})" if wish.nouns else r"\b"
    re2: Any = import_module("re2")  # loaded for the first text, not when the gateway starts
    own_name = re2.escape(tool.encode("utf-8", "replace").decode())
    return re2.compile(rf"{LEAD}(?:{'|'.join(wish.verbs) or own_name})\b{near}")


def _leaves(value: Any, name: str = "", keys: set[str] | None = None) -> Iterator[tuple[str, str]]:
    """Every text in a value, with the name of its field.

    With `keys`, those already met, also every number, and once every key that does not look like a column's name: a key
    of a result can be a text too. A key of an argument counts only if it is an address or a number.
    """
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        for key, item in as_object(value).items():
            if keys is None:
                if _TOKEN.fullmatch(key):
                    yield name, key
            elif key not in keys:
                keys.add(key)
                if not _COLUMN.fullmatch(key):
                    yield _KEY, key
            yield from _leaves(item, key.lower(), keys)
    elif isinstance(value, list):
        for item in as_list(value):
            yield from _leaves(item, name, keys)
    elif keys is not None and isinstance(value, (int, float)) and not isinstance(value, bool):
        yield name, str(value)
