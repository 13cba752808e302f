"""Replaces unknown words of a query by known ones that are one typing error away: of the catalogue, else common words.

A typing error is two swapped letters, or one missing, extra or wrong letter. Only lower-case words that neither the
catalogue nor the table of meanings has are considered: names and rare words stay unchanged. The index contains no
words, so every possible correction is tried and looked up. Called by the index; knows no tools.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from string import ascii_lowercase

from wicket_mcp.search.text import STOP

_WORD = re.compile(r"(?<![\w.@/-])[a-z]{3,20}(?![\w@/-]|\.\w)")
_LONG = 4
"""The length from which a word is tried with one letter changed: shorter words are close to too many others."""

Counts = Callable[[Sequence[str]], Sequence[int]]
"""How many tools have each of these words, or how common each is; 0 for an unknown one."""


def correct(query: str, counts: Counts, commonness: Counts, is_word: Callable[[str], bool]) -> str:
    unknown = [word for word in dict.fromkeys(_WORD.findall(query)) if word not in STOP and not is_word(word)]
    read_as: dict[str, str] = {}
    for word, tools in zip(unknown, counts(unknown) if unknown else (), strict=True):
        if not tools and (meant := _guess(word, counts) or _guess(word, commonness)):
            read_as[word] = meant
    return _WORD.sub(lambda match: read_as.get(match.group(), match.group()), query) if read_as else query


def _guess(word: str, counts: Counts) -> str:
    """The word that is meant; empty if none of those that are one typing error away is known."""
    return _most_common(_swap_letters(word), counts) or (
        _most_common(_change_letters(word), counts) if len(word) >= _LONG else ""
    )


def _most_common(candidates: Iterator[str], counts: Counts) -> str:
    """The candidate with the highest count; empty if none has any."""
    words = list(dict.fromkeys(candidates))
    count, word = max(zip(counts(words), words, strict=True), key=lambda pair: pair[0])
    return word if count else ""


def _swap_letters(word: str) -> Iterator[str]:
    """All words with two neighbouring letters swapped: the most common and most certain typing error."""
    return (word[:at] + word[at + 1] + word[at] + word[at + 2 :] for at in range(len(word) - 1))


def _change_letters(word: str) -> Iterator[str]:
    """All words with one letter added, removed or changed."""
    for at in range(len(word)):
        head, tail = word[:at], word[at:]
        yield head + tail[1:]
        for letter in ascii_lowercase:
            yield head + letter + tail
            yield head + letter + tail[1:]
    yield from (word + letter for letter in ascii_lowercase)
