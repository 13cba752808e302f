"""Features for matching by letters: stems, pairs of neighbouring stems, and four-letter pieces of words.

Pieces match misspelt, joined and unusual words; pairs reward words that occur together. Every feature is a number (a
hash), so an index contains no strings. Its weight is the square root of its kind's weight, because it counts once for
the tool and once for the query.
"""

import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

from wicket_mcp.search.text import STOP, remember_words, stem

STEM, PAIR, PIECE = 1.0, 1.5**0.5, 0.3**0.5
_PIECE_LENGTH = 4


def number(text: str) -> int:
    """A feature's number, the same in every process. Collisions are rarer than synonyms."""
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


@remember_words
def _stem_number(word: str) -> int:
    return number(stem(word))


@remember_words
def _piece_numbers(word: str) -> tuple[int, ...]:
    marked = f"<{word}>"
    return tuple(number(f"#{marked[i : i + _PIECE_LENGTH]}") for i in range(max(1, len(marked) - _PIECE_LENGTH + 1)))


@remember_words
def _pair_number(first: str, second: str) -> int:
    return number(f"{stem(first)} {stem(second)}")


def stem_numbers(words: Iterable[str]) -> list[int]:
    """The numbers of the words' stems, without words that carry no meaning."""
    return [_stem_number(word) for word in words if word not in STOP]


class Features:
    """Counts of the features of one text, by kind; texts of several fields are added with their weights."""

    __slots__ = ("pairs", "pieces", "stems")

    def __init__(self) -> None:
        self.stems: Counter[int] = Counter()
        self.pairs: Counter[int] = Counter()
        self.pieces: Counter[int] = Counter()

    def add(self, words: Sequence[str], weight: float = 1.0) -> "Features":
        telling = [word for word in words if word not in STOP]
        _tally(self.stems, map(_stem_number, telling), weight)
        _tally(self.pairs, map(_pair_number, telling, telling[1:]), weight)
        _tally(self.pieces, chain.from_iterable(map(_piece_numbers, telling)), weight)
        return self

    def kinds(self) -> tuple[tuple[Counter[int], float], ...]:
        return (self.stems, STEM), (self.pairs, PAIR), (self.pieces, PIECE)


def _tally(into: Counter[int], numbers: Iterable[int], weight: float) -> None:
    if weight == 1.0:
        into.update(numbers)
        return
    for feature, count in Counter(numbers).items():
        into[feature] += weight * count  # pyright: ignore[reportArgumentType]
