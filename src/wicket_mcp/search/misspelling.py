"""Replaces unknown words of a query by known ones that are one typing error away: of the catalogue, else common words.

A typing error is two swapped letters, or one missing, extra or wrong letter. Only lower-case words that neither the
catalogue nor the table of meanings has are considered, and "teh": names and rare words stay unchanged. The index
contains no words but their stems, so every possible correction is tried and looked up, and what it has need not be a
word ("isoe" for "ISO"): one that the table knows goes first. Called by the index; knows no tools.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from string import ascii_lowercase

from wicket_mcp.search.text import STOP, stem

_WORD = re.compile(r"(?<![\w.@/-])[a-z]{3,20}(?![\w@/-]|\.\w)")
_LONG = 4
"""The length from which a word is tried with one letter changed: shorter words are close to too many others."""
_COMMON, _RARE = 15_000, 20_000
"""How common (`Table.commonness`) a word must be to be meant where the catalogue does not have it; and how common one
may be at most that is taken for a small word with two letters swapped ("fro")."""
_FAR_MORE = 5
_MOST = 32  # words that are corrected: each takes a millisecond

Counts = Callable[[Sequence[str]], Sequence[int]]
"""How many tools have each of these words, or how common each is; 0 for an unknown one."""


def correct(query: str, counts: Counts, commonness: Counts, is_word: Callable[[str], bool]) -> str:
    spoken = [word for word in dict.fromkeys(_WORD.findall(query)) if word not in STOP]
    read_as = {word: meant for word in spoken if (meant := _small_word(word, counts, commonness))}
    unknown = [word for word in spoken if word not in read_as and not is_word(word)][:_MOST]
    for word, tools in zip(unknown, counts(unknown) if unknown else (), strict=True):
        meant = word if tools else _guess(word, counts, commonness)
        if meant and not is_word(meant):
            meant = _swap_back(meant, counts, commonness) or _complete(meant, commonness) or meant
        read_as[word] = meant or word
    return _WORD.sub(lambda match: read_as.get(match.group(), match.group()), query) if read_as else query


def _small_word(word: str, counts: Counts, commonness: Counts) -> str:
    """The small word that a rare one is meant for ("teh")."""
    meant = next((swapped for swapped in _swap_letters(word) if swapped in STOP), "")
    return meant if meant and commonness([word])[0] < _RARE and not counts([word])[0] else ""


def _guess(word: str, counts: Counts, commonness: Counts) -> str:
    """The word that is meant: rather with two letters swapped than with one changed, and rather a common word of the
    catalogue than another common word, or what only the catalogue has. Empty if none is known."""
    for slip in (_swap_letters, _change_letters) if len(word) >= _LONG else (_swap_letters,):
        slips = list(dict.fromkeys(slip(word)))
        tools, common = counts(slips), commonness(slips)
        in_both = [count if known else 0 for count, known in zip(tools, common, strict=True)]
        if_common = [known if known > _COMMON else 0 for known in common]
        if_stem = [count if stem(other) == other else 0 for count, other in zip(tools, slips, strict=True)]
        for values in (in_both, if_common, if_stem):
            if any(values):
                return max(zip(values, slips, strict=True), key=itemgetter(0))[1]
    return ""


def _swap_back(word: str, counts: Counts, commonness: Counts) -> str:
    """The common word that has two letters of this one swapped, and that far more tools have ("lits": some have "lit").
    A short word is rather an abbreviation ("dsn")."""
    if len(word) < _LONG:
        return ""
    slips = list(dict.fromkeys(_swap_letters(word)))
    own, *others = counts([word, *slips])
    known = zip(slips, others, commonness(slips), strict=True)
    more = [(tools, slip) for slip, tools, common in known if tools > _FAR_MORE * own and common > _COMMON]
    return max(more, default=(0, ""))[1]


def _complete(word: str, commonness: Counts) -> str:
    """The common word that lacks a letter here, if it has the same stem, and so is in the catalogue too ("creat")."""
    slips = dict.fromkeys(_change_letters(word))
    longer = [slip for slip in slips if len(slip) > len(word) and stem(slip) == stem(word)]
    known = zip(commonness(longer), longer, strict=True)
    return max(((common, slip) for common, slip in known if common), default=(0, ""))[1]


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
