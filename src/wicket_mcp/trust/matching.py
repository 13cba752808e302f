"""Whether a call's arguments came from a text: this matching carries labels through a model. Pure.

An argument of at least eight characters that occurs inside prose, and is not a whole field of a result (an id, an
address in its own column), came from there. So did a shorter one whose parameter the prose names before it. A text may
also ask for exactly what a call does.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from itertools import islice
from typing import Any

import msgspec

from wicket_mcp.codec import decode
from wicket_mcp.model import JsonObject, as_list, as_object, as_text
from wicket_mcp.trust.effects import VERBS, effect_of
from wicket_mcp.trust.sources import OTHERS_WRITE

SHORTEST = 8  # characters of an argument that can be matched
LONGEST = 400  # characters of an argument matched as a whole; in a longer one, only addresses and numbers
MAX_TEXT = 1024**2  # characters of one result that are examined
MAX_FIELDS = 20_000  # fields of one result that are told apart from prose
MAX_LEAVES = 200_000  # texts, numbers and keys of one result that are examined
MAX_ECHOES = 50  # texts of a call's arguments that are looked for in its error
BESIDE = 40  # characters before a short argument in which its parameter must be named
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
_WORD = re.compile(r"\w+")
_BLANK = r"[\s\pZ\x0b\x1c-\x1f\x85]"  # what Python calls a space, for re2
_LEAD = (
    r"(?m)(?:^|[.!?:;,\n>\"'(*_-]|\b(?:please|must|should|to|and|then|now|you|can|just|first|kindly|me)\b)"
    rf"{_BLANK}*(?:[\pL\pN_]+ly{_BLANK}+)?"
)


class Text(msgspec.Struct, frozen=True):
    """The text of a result, folded for matching: its prose and its whole fields."""

    prose: str
    fields: frozenset[str]

    def __len__(self) -> int:
        return len(self.prose) + sum(map(len, self.fields))


def read(value: Any, trusted: Collection[str] = ()) -> Text:
    """The text of a value, without the fields of these names."""
    prose: dict[str, None] = {}
    fields: set[str] = set()
    size = 0
    for name, text in islice(_leaves(value, keys=set()), MAX_LEAVES):
        if name in trusted:
            fields.add(text.casefold())
            continue
        if is_prose(name, text) and (folded := text.casefold()) not in prose:
            prose[folded] = None
            size += len(folded)
        if name != _KEY and len(fields) < MAX_FIELDS and is_field(name, text):
            fields.add(text.casefold())
        if size > MAX_TEXT:
            break
    return Text("\n".join(prose)[:MAX_TEXT], frozenset(fields))


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
    for _, leaf in islice(_leaves(arguments), MAX_ECHOES):
        for candidate in _candidates(leaf.casefold().strip()):
            prose = prose.replace(candidate, " ")
    return Text(prose, text.fields)


def parse(text: str) -> Any:
    if text[:1] not in ("[", "{") or len(text) > MAX_TEXT:
        return text[:MAX_TEXT]
    try:
        return decode(text)
    except ValueError:
        return text


def comes_from(name: str, argument: Any, text: Text, known: Collection[str], trusted: Collection[Text] = ()) -> bool:
    """Whether an argument occurs in a text's prose, but not as a whole field of any result or in a trusted text.

    A short one counts only if the prose names its parameter before it ("the file with ID '13'"), even if it is also a
    whole field.
    """
    for field, leaf in _leaves(argument, name.lower()):
        folded = leaf.casefold().strip()
        candidates = (candidate for candidate in _candidates(folded) if candidate not in known)
        matching = [candidate for candidate in candidates if candidate in text.prose]
        if 0 < len(folded) < SHORTEST and _is_named(field, folded, text.prose):
            matching.append(folded)
        if any(not any(_says(earlier, candidate) for earlier in trusted) for candidate in matching):
            return True
    return False


def _candidates(leaf: str) -> Iterator[str]:
    """What of an argument may have been copied from a text."""
    if SHORTEST <= len(leaf) <= LONGEST:
        yield leaf
    yield from (token for token in _TOKEN.findall(leaf) if len(token) >= SHORTEST)
    if not _URL.match(leaf):
        return
    address = (leaf.partition("://")[2] or leaf).strip("/")
    host, _, path = address.partition("/")
    folder = address.rpartition("/")[0]
    # An address that goes on where the text's ends can carry data to the text's host.
    places = (address, host if "?" in address or "#" in address else "", folder if "/" in path else "")
    yield from (place for place in places if "." in place and len(place) >= SHORTEST)


def is_address(argument: Any) -> bool:
    """Whether an argument is an address on the network, or has one: fetching it sends something to its host."""
    return any(_URL.match(leaf) for _, leaf in _leaves(argument))


def _is_named(field: str, value: str, prose: str) -> bool:
    """Whether the prose has this value as a word of its own, with a word of the parameter's name just before it."""
    if value not in prose:
        return False
    words = {word for word in re.findall(r"[^\W\d_]+", field) if len(word) > 1}
    return any(
        not words.isdisjoint(_WORD.findall(prose, max(0, start - BESIDE), start)) for start in _places(value, prose)
    )


def _places(value: str, prose: str) -> Iterator[int]:
    """Where the prose has this value as a word of its own."""
    start = prose.find(value)
    while start >= 0:
        end = start + len(value)
        alone = not (_WORD.match(prose[start - 1 : start]) or _WORD.match(prose, end, end + 1))
        if alone:
            yield start
        start = prose.find(value, end if alone else start + 1)


def _says(text: Text, candidate: str) -> bool:
    return candidate in text.fields or candidate in text.prose


def asks_for(tool: str, text: Text) -> bool:
    """Whether a text asks for what a tool of this name does."""
    return _requests(tool).search(text.prose.encode("utf-8", "replace")) is not None


@lru_cache(maxsize=4096)
def _requests(tool: str) -> Any:
    """Sentences that ask for the effect of this tool: its own verb, or one with the same effect.

    An expression of re2, which takes linear time whatever the sentences are.
    """
    words = re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", tool).lower())
    effect = effect_of(tool, {}) or "writes"
    verbs = sorted((set(words) & set().union(*VERBS.values())) | (VERBS[effect] if effect != "writes" else set()))
    nouns = [word for word in words if word not in verbs and len(word) > 2]
    near = rf"[^.\n]{{0,80}}\b(?:{'|'.join(map(re.escape, nouns))})" if nouns and effect == "writes" else r"\b"
    re2: Any = import_module("re2")  # loaded for the first text, not when the gateway starts
    return re2.compile(rf"{_LEAD}(?:{'|'.join(verbs) or re2.escape(tool.encode('utf-8', 'replace').decode())})\b{near}")


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
