"""How many steps a backtracking matcher takes for a pattern and a text: a model of Python's own, which does not say.

It walks the parsed pattern as `re` does, without its short cuts, so a count is at least as large as the real one and
grows like it. `hostile_texts` are made from the pattern: what it accepts, with a piece of it repeated, and an end that
it refuses. `test_patterns.py` is the caller.
"""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any

PARSER: Any = import_module("re._parser")
MOST = 200_000
"""Steps after which a search is given up: it is not linear."""
MOST_BOUNDED = 64
"""A loop that is taken at most so often is no loop."""
REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")

Tree = Sequence[tuple[Any, Any]]


class TooManyStepsError(Exception):
    """The text is short, so the pattern is not linear."""


class Matcher:
    """One pattern, and the steps that its last scan took."""

    def __init__(self, pattern: "re.Pattern[Any]") -> None:
        source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
        self.tree: Tree = list(PARSER.parse(source, pattern.flags))
        self.flags = pattern.flags
        self.steps = 0
        self._text = ""
        self._groups: dict[int, tuple[int, int]] = {}

    def scan(self, text: str, *, whole: bool) -> int:
        """The steps of all matches from left to right, or of the one attempt at the beginning."""
        self.steps, self._text, at = 0, text, 0
        while at <= len(text):
            self._groups = {}
            end = next(self._ends(self.tree, 0, at), None)
            if whole:
                break
            at = end if end is not None and end > at else at + 1
        return self.steps

    def _ends(self, tree: Tree, index: int, at: int) -> Iterator[int]:
        self.steps += 1
        if self.steps > MOST:
            raise TooManyStepsError
        if index == len(tree):
            yield at
            return
        name, argument = str(tree[index][0]), tree[index][1]
        if name in REPEATS:
            yield from self._repeated(name, argument, tree, index, at)
            return
        for end in self._single(name, argument, at):
            yield from self._ends(tree, index + 1, end)

    def _single(self, name: str, argument: Any, at: int) -> Iterator[int]:
        match name:
            case "AT":
                if self._is_at(str(argument), at):
                    yield at
            case "BRANCH":
                for branch in argument[1]:
                    yield from self._ends(branch, 0, at)
            case "SUBPATTERN":
                for end in self._ends(argument[3], 0, at):
                    if argument[0] is not None:
                        self._groups[argument[0]] = (at, end)
                    yield end
            case "ATOMIC_GROUP":
                yield from list(self._first(argument, at))
            case "ASSERT" | "ASSERT_NOT":
                if self._looks(argument, at) is (name == "ASSERT"):
                    yield at
            case "GROUPREF":
                begin, end = self._groups.get(argument, (0, 0))
                if self._text.startswith(self._text[begin:end], at):
                    yield at + end - begin
            case _:
                if at < len(self._text) and accepts(name, argument, self._text[at], self.flags):
                    yield at + 1

    def _first(self, tree: Tree, at: int) -> Iterator[int]:
        end = next(self._ends(tree, 0, at), None)
        if end is not None:
            yield end

    def _looks(self, argument: tuple[int, Tree], at: int) -> bool:
        direction, tree = argument
        if direction > 0:
            return next(self._ends(tree, 0, at), None) is not None
        width = PARSER.SubPattern(PARSER.State(), list(tree)).getwidth()[0]
        return at >= width and next(self._ends(tree, 0, at - width), None) is not None

    def _repeated(self, name: str, argument: Any, tree: Tree, index: int, at: int) -> Iterator[int]:
        least, most, body = argument
        if name == "POSSESSIVE_REPEAT":
            count = 0
            while count < most and (end := next(self._first(body, at), None)) is not None and end > at:
                at, count = end, count + 1
            if count >= least:
                yield from self._ends(tree, index + 1, at)
            return
        yield from self._loop(
            name == "MIN_REPEAT", (least, most, body), lambda end: self._ends(tree, index + 1, end), at
        )

    def _loop(
        self, lazy: bool, repeat: tuple[int, int, Tree], rest: Callable[[int], Iterator[int]], at: int, count: int = 0
    ) -> Iterator[int]:
        least, most, body = repeat
        if lazy and count >= least:
            yield from rest(at)
        if count < most:
            for end in self._ends(body, 0, at):
                if end > at or count < least:
                    yield from self._loop(lazy, repeat, rest, end, count + 1)
        if not lazy and count >= least:
            yield from rest(at)

    def _is_at(self, place: str, at: int) -> bool:
        text, multiline = self._text, bool(self.flags & re.MULTILINE)
        if place.startswith("AT_BEGINNING"):
            return at == 0 or (multiline and place == "AT_BEGINNING" and text[at - 1] == "\n")
        if place.startswith("AT_END"):
            last = at == len(text) or (place == "AT_END" and text[at:] == "\n")
            return last or (multiline and place == "AT_END" and text[at] == "\n")
        before, after = at > 0 and is_word(text[at - 1]), at < len(text) and is_word(text[at])
        return (before != after) is (place == "AT_BOUNDARY")


def is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def accepts(name: str, argument: Any, character: str, flags: int) -> bool:
    if flags & re.IGNORECASE:
        variants = {character, character.lower(), character.upper()}
        positive = [one for one in variants if len(one) == 1]
        return any(accepts(name, argument, variant, flags & ~re.IGNORECASE) for variant in positive)
    match name:
        case "LITERAL":
            return ord(character) == argument
        case "NOT_LITERAL":
            return ord(character) != argument
        case "ANY":
            return character != "\n" or bool(flags & re.DOTALL)
        case "RANGE":
            return argument[0] <= ord(character) <= argument[1]
        case "CATEGORY":
            category = str(argument)
            member = {"SPACE": character.isspace(), "DIGIT": character.isdigit(), "WORD": is_word(character)}
            return member[category.rpartition("_")[2]] is not ("_NOT_" in category)
        case "IN":
            negated = str(argument[0][0]) == "NEGATE"
            return any(accepts(str(part), value, character, flags) for part, value in argument[negated:]) is not negated
        case _:
            raise NotImplementedError(name)


CANDIDATES = "a0 _-./:@\"'\\\n\tAZ,;=<>(){}[]!#$%&*+?^|~`éß中٣\u200b\u00a0\x00\x1b"


def example(tree: Tree, flags: int, times: int) -> str:
    """A text that the pattern accepts but for what it only looks at, with each loop taken `times` times."""
    parts: list[str] = []
    for kind, argument in tree:
        match str(kind):
            case "BRANCH":
                parts.append(max((example(branch, flags, times) for branch in argument[1]), key=len))
            case "SUBPATTERN":
                parts.append(example(argument[3], flags, times))
            case "ATOMIC_GROUP":
                parts.append(example(argument, flags, times))
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                least, most, body = argument
                parts.append(example(body, flags, times) * min(max(least, min(times, most)), 40))
            case "LITERAL":
                parts.append(chr(argument))
            case "AT" | "ASSERT" | "ASSERT_NOT" | "GROUPREF":
                pass
            case name:
                parts.append(next((c for c in CANDIDATES if accepts(name, argument, c, flags)), "x"))
    return "".join(parts)


def atoms(tree: Tree, flags: int) -> Iterator[str]:
    """A character for each place of the pattern that takes one."""
    for kind, argument in tree:
        match str(kind):
            case "BRANCH":
                for branch in argument[1]:
                    yield from atoms(branch, flags)
            case "SUBPATTERN":
                yield from atoms(argument[3], flags)
            case "ATOMIC_GROUP":
                yield from atoms(argument, flags)
            case "ASSERT" | "ASSERT_NOT":
                yield from atoms(argument[1], flags)
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                yield from atoms(argument[2], flags)
            case "LITERAL":
                yield chr(argument)
            case "AT" | "GROUPREF":
                pass
            case name:
                yield from [c for c in CANDIDATES if accepts(name, argument, c, flags)][:2]


def has_loop(tree: Tree) -> bool:
    """Without one a pattern reads a bounded part of the text at each place."""
    for kind, argument in tree:
        match str(kind):
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                inner, loops = [argument[2]], argument[1] > MOST_BOUNDED
            case "BRANCH":
                inner, loops = argument[1], False
            case "SUBPATTERN":
                inner, loops = [argument[3]], False
            case "ATOMIC_GROUP":
                inner, loops = [argument], False
            case "ASSERT" | "ASSERT_NOT":
                inner, loops = [argument[1]], False
            case _:
                inner, loops = [], False
        if loops or any(map(has_loop, inner)):
            return True
    return False


def pumps(matcher: Matcher) -> Iterator[tuple[str, str, str]]:
    """A head, what is repeated behind it, and an end."""
    found: set[tuple[str, str, str]] = set()
    accepted = example(matcher.tree, matcher.flags, 2)[:20]
    letters = list(dict.fromkeys(atoms(matcher.tree, matcher.flags)))[:10]
    pieces = {(at, accepted[at : at + width]) for at in range(len(accepted)) for width in (1, 2, 4)}
    pieces |= {(at, letter) for at in range(0, len(accepted) + 1, 1 + len(accepted) // 6) for letter in letters}
    pieces |= {(0, one + two) for one in letters[:5] for two in letters[:5]}
    for at, piece in sorted(pieces):
        for end in ("", "\x00"):
            found.add((accepted[:at], piece, end))
    yield from sorted(found)


def growth(pattern: "re.Pattern[Any]", *, whole: bool) -> tuple[float, str]:
    """The worst ratio of the steps for 72 repetitions to those for 24, and the text of the latter."""
    matcher = Matcher(pattern)
    worst = (0.0, "")
    if not has_loop(matcher.tree):
        return worst
    for head, piece, end in pumps(matcher):
        texts = [head + piece * times + end for times in (24, 72)]
        try:
            short, long = (matcher.scan(text, whole=whole) for text in texts)
        except TooManyStepsError:
            return float("inf"), texts[0]
        worst = max(worst, (long / short, texts[0]))
    return worst


sys.setrecursionlimit(max(sys.getrecursionlimit(), 20_000))
