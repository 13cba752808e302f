"""Finds the known names that an unknown name most likely stands for ("did you mean"), and counts things in words.

Used for every kind of name: tools, servers, options, clients, keys. Pure and quick: thousands of candidates are
narrowed by shared letters before any two names are compared in full.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from heapq import nsmallest

_NO_SEPARATORS = dict.fromkeys(map(ord, " \t._-/:@"))
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|[^\W_A-Za-z\d]+")
_LONGEST = 80
_NEAR = 0.5
_SLIPS = 0.34
"""Share of a name's letters that may differ for it to be a typo."""
_COMPARED = 32


def nearest(name: str, candidates: Iterable[str], limit: int = 3) -> list[str]:
    """The candidates that `name` most likely stands for, best first; distant ones are left out."""
    known = list(dict.fromkeys(candidates))
    return nearest_of(name, known, fold_all(known), limit)


def nearest_of(name: str, known: list[str], folded: list[str], limit: int = 3) -> list[str]:
    """`nearest` for callers that keep `fold_all(known)` between calls."""
    name = name[:_LONGEST]
    whole, bare = _Pattern(_fold(name)), _Pattern(_fold(_tail(name)))
    words = _words(name)
    scored: list[tuple[float, str]] = []
    for at in _contenders(whole.text, known, folded):
        candidate = known[at]
        tail = _fold(candidate.rpartition(".")[2])
        score = max(
            whole.likeness(folded[at]),
            0.9 * bare.likeness(tail) + 0.08 * whole.likeness(folded[at]),
            0.9 * _overlap(words, _words(candidate)),
        )
        if score >= _NEAR and _is_plausible(name, candidate[:_LONGEST]):
            scored.append((-score, candidate))
    return [candidate for _, candidate in sorted(scored)[:limit]]


def _is_plausible(name: str, candidate: str) -> bool:
    """Whether one name can be a typo of the other: few letters differ, words are shared, or one is most of the
    other.
    """
    for left, right in ((name, candidate), (_tail(name), _tail(candidate))):
        if _overlap(_words(left), _words(right)) >= _NEAR:
            return True
        short, long = sorted((_fold(left), _fold(right)), key=len)
        if short in long and len(short) >= _NEAR * len(long):
            return True
        if _distance(short, long) <= max(1, round(_SLIPS * len(long))):
            return True
    return False


def stands_alone(name: str, text: str, before: "re.Pattern[str]", after: "re.Pattern[str]") -> bool:
    """Whether a text has this name, not beside a character that `before` or `after` matches."""
    start = text.find(name)
    while start >= 0:
        end = start + len(name)
        if not before.match(text[start - 1 : start]) and not after.match(text, end):
            return True
        start = text.find(name, start + 1)
    return False


def _tail(name: str) -> str:
    return re.split(r"[./]|__", name)[-1]


def _distance(left: str, right: str) -> int:
    """The number of letters to change, add, remove or swap with a neighbour to get from one name to the other."""
    before: list[int] = []
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        above, before, row = before, row, [i]
        for j, b in enumerate(right, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == right[j - 2] and left[i - 2] == b:
                cost = min(cost, above[j - 2] + 1)
            row.append(cost)
    return row[-1]


def _contenders(query: str, known: list[str], folded: list[str]) -> list[int]:
    """Positions of the few candidates that share most with the query: only these are compared in full."""
    if len(known) <= _COMPARED:
        return list(range(len(known)))
    size = min(len(query), 2 if len(query) <= 10 else 3)
    grams = list(dict.fromkeys(query[at : at + size] for at in range(len(query) - size + 1))) if query else []
    grams = grams[:: -(-len(grams) // 10) or 1]
    shared: Counter[int] = Counter()
    for gram in grams:
        shared.update([at for at, name in enumerate(folded) if gram in name])
    enough, total = len(grams) + 1, 0
    sizes = Counter(shared.values())
    while total < _COMPARED and enough > max(1, len(grams) // 4):
        enough -= 1
        total += sizes[enough]
    return nsmallest(
        _COMPARED,
        [at for at, count in shared.items() if count >= enough],
        key=lambda at: (-shared[at] / (len(query) + len(folded[at])), known[at]),
    )


def _fold(name: str) -> str:
    return name.lower().translate(_NO_SEPARATORS)


def fold_all(names: list[str]) -> list[str]:
    return change_each(names, _fold)


def change_each(names: list[str], change: Callable[[str], str]) -> list[str]:
    # One pass over one string: a call for each of thousands of names would cost ten times as much.
    together = change("\n".join(names)).split("\n")
    return together if len(together) == len(names) else [change(name).replace("\n", "_") for name in names]


def _words(name: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(name)}


def _overlap(left: set[str], right: set[str]) -> float:
    return 2 * len(left & right) / (len(left) + len(right)) if left and right else 0.0


class _Pattern:
    """A name to compare with many others: the share of characters that both have in the same order.

    Bit-parallel longest common subsequence: a set bit of `rest` is a character still unmatched.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._masks: dict[str, int] = {}
        for at, char in enumerate(text):
            self._masks[char] = self._masks.get(char, 0) | 1 << at

    def likeness(self, other: str) -> float:
        if not self.text or not other:
            return 0.0
        every = unmatched = (1 << len(self.text)) - 1
        for char in other[:_LONGEST]:
            hit = unmatched & self._masks.get(char, 0)
            unmatched = ((unmatched + hit) | (unmatched - hit)) & every
        return 2 * (len(self.text) - unmatched.bit_count()) / (len(self.text) + len(other))


def count_of(number: int, noun: str) -> str:
    """`1 server`, `1,966 tools`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
