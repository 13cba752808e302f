"""What remains of a text that is too old to be kept: eight bytes for each place where a value may begin or end. Pure.

A value is found by its first and its last eight letters and digits, in any notation (`notation.py`); a short one only
if it has a digit and a word of its field's name stands before it. Also remembered: the whole fields, and what the text
asked for. A fingerprint is a hash under a key of this process: it shows nothing, and no text can be made to fit it.
"""

import re
from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from importlib import import_module
from itertools import accumulate
from typing import Any

import msgspec

from wicket_mcp.pauses import rest_between
from wicket_mcp.trust.matching import ALL_VERBS, BESIDE, LEAD, NEAR, SHORTEST, Candidate, Text, wish_for
from wicket_mcp.trust.notation import find_in_pieces, split, strip

_NAMES = 4  # words before a short value that may name its field
_SHORT = re.compile(rf"(?<!\w)(?=[^\W\d]{{0,{SHORTEST - 1}}}+\d)\w{{1,{SHORTEST - 1}}}+(?!\w)")
_LETTERS = re.compile(r"[^\W\d_]{2,}+")


class Fingerprints(msgspec.Struct, frozen=True, eq=False):
    """What is known of a text whose words are not kept; asked like a `Text`."""

    marks: "array[int]"
    """Ascending."""

    def __len__(self) -> int:
        return len(self.marks)

    @classmethod
    def of(cls, text: Text) -> "Fingerprints":
        return cls(array("q", sorted({hash(mark) for mark in rest_between(_marks_of(text))})))

    def within(self, marks: Collection[int]) -> "Fingerprints":
        """Those that are among others: to ask for many values at once, in one pass."""
        return Fingerprints(array("q", sorted(frozenset(marks).intersection(self.marks))))

    def has(self, candidate: Candidate) -> bool:
        return self.has_marks(ways_of(candidate))

    def has_marks(self, ways: Iterable[Iterable[int]]) -> bool:
        """Whether it has all the marks of one of these notations."""
        return any(all(mark in self for mark in way) for way in ways)

    def has_field(self, candidate: Candidate) -> bool:
        return _field_mark(candidate) in self

    def says(self, candidate: Candidate) -> bool:
        return self.has_field(candidate) or (not candidate.field and self.has(candidate))

    def asks_for(self, tool: str) -> bool:
        wish = wish_for(tool)
        forms = [f"{noun}{ending}" for noun in wish.nouns for ending in ("", "s", "es")]
        requests = (f"!{verb} {form}" for verb in wish.verbs for form in forms or ("",))
        return any(hash(request) in self for request in requests)

    def __contains__(self, mark: int) -> bool:
        place = bisect_left(self.marks, mark)
        return place < len(self.marks) and self.marks[place] == mark


def ways_of(candidate: Candidate) -> list[list[int]]:
    """The notations of a value, each as the marks that a text in that notation has."""
    if candidate.field:
        names = _LETTERS.findall(candidate.field)
        return [[hash(f"#{name} {candidate.text}")] for name in names]
    letters = strip(candidate.text)
    if len(letters) < SHORTEST:
        return []
    return [[hash(mark) for mark in _ends(key)] for key in (letters, letters[::-1])]


def marks_for(candidate: Candidate) -> Iterator[int]:
    """All marks that may tell something about a value."""
    yield _field_mark(candidate)
    for way in ways_of(candidate):
        yield from way


def _field_mark(candidate: Candidate) -> int:
    return hash(f"={candidate.key}")


def _ends(key: str) -> tuple[str, str]:
    return f"<{key[:SHORTEST]}", f">{key[-SHORTEST:]}"


def _marks_of(text: Text) -> Iterator[str]:
    words = list(split(text.prose))
    letters = "".join(words)
    for end, word in zip(accumulate(map(len, words)), words, strict=True):
        start = end - len(word)
        yield f"<{letters[start : start + SHORTEST]}"
        yield f">{letters[max(0, end - SHORTEST) : end]}"
    yield from (f"={field}" for field in text.fields)
    for short in find_in_pieces(_SHORT, text.prose):
        before = _LETTERS.findall(text.prose, max(0, short.start() - BESIDE), short.start())
        yield from (f"#{name} {short[0]}" for name in before[-_NAMES:])
    yield from _requests_in(text.prose)


def _requests_in(prose: str) -> Iterator[str]:
    """What a text asks for: the verb, and the verb with each word that follows it in its sentence."""
    for request in _request_pattern().finditer(prose.encode("utf-8", "replace")):
        verb, following = (part.decode("utf-8", "ignore") for part in request.groups())
        yield f"!{verb} "
        yield from (f"!{verb} {word}" for word in _LETTERS.findall(following))


@cache
def _request_pattern() -> Any:
    re2: Any = import_module("re2")  # loaded for the first text, not when the gateway starts
    return re2.compile(rf"{LEAD}({'|'.join(sorted(ALL_VERBS, key=len, reverse=True))})\b([^.\n]{{0,{NEAR}}})")
