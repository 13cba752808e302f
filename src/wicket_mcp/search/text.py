"""Words of tool text and of queries: identifier splitting, folding, stemming.

Pure and deterministic: a segment written today must match a query tomorrow, so any change here that alters a term must
also raise `segment.VERSION`. Knows nothing about tools or indexes.
"""

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_WORD = (  # `re` compiles it at the first search, so that a start does not wait for it
    r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+"  # fooBar, HTTPServer, v2
    r"|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"  # scripts written without spaces: a character is a word
    r"|[^\W\d_a-zA-Z]+"  # every other alphabet: a run of letters
)

MAX_QUERY = 4000

_STOP = """
    a about all also an and any are as at be but by can could did do does for from got had has have here
    how i if in into is it its just let like me my need no not of on or our please should so some than that
    the then there these this those to us use used using want was we were what when where which who will
    with would you your
"""
STOP = frozenset(_STOP.split())


REMEMBERED = 16_384
LONGEST_REMEMBERED = 40
"""Letters of a cached word: each entry then takes at most 2 KB, and all together 32 MB."""


def remember_words(function: Callable[P, T]) -> Callable[P, T]:
    """Cache a function's results for words of normal length; longer ones are computed each time."""
    remembered = lru_cache(maxsize=REMEMBERED)(function)

    def look_up(*words: P.args, **_: P.kwargs) -> T:
        for word in words:
            if len(word) > LONGEST_REMEMBERED:  # pyright: ignore[reportArgumentType]
                return function(*words, **_)
        return remembered(*words)  # pyright: ignore[reportCallIssue]

    return look_up


def words(text: str) -> list[str]:
    """Lower-case words in order; identifiers split at case, digit and punctuation boundaries, accents folded."""
    if not text.isascii():
        text = fold(text)
    return [word.lower() for word in re.findall(_WORD, text)]


def fold(text: str) -> str:
    """The text without accents."""
    decomposed = unicodedata.normalize("NFKD", text)
    plain = "".join(c for c in decomposed if unicodedata.category(c) != "Mn")
    return unicodedata.normalize("NFC", plain)


_SUFFIXES = (
    ("ization", "ize"), ("ational", "ate"), ("fulness", "ful"), ("iveness", "ive"), ("ousness", "ous"),
    ("ations", "ate"), ("ation", "ate"), ("ators", "ate"), ("ator", "ate"), ("ities", "ity"),
    ("ingly", ""), ("edly", ""), ("ings", ""), ("ing", ""), ("ied", "y"), ("ies", "y"), ("ed", ""),
    ("ers", ""), ("er", ""), ("sses", "ss"), ("es", ""), ("s", ""), ("ly", ""),
)  # fmt: skip
_SHORTEST = 3


@remember_words
def stem(word: str) -> str:
    """A light English stem: inflected forms get the same stem; other alphabets and short words stay unchanged."""
    if len(word) <= _SHORTEST or not word.isascii() or not word.isalpha() or word.endswith(("ss", "us", "is")):
        return word
    for suffix, instead in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= _SHORTEST:
            base = word[: -len(suffix)] + instead
            break
    else:
        base = word
    if len(base) > _SHORTEST and base[-1] == base[-2] and base[-1] not in "ls":
        return base[:-1]
    if len(base) > _SHORTEST and base.endswith("e"):
        return base[:-1]
    return base
