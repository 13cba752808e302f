"""Conversations with a state machine, written down: `>>` goes in, `<<` must come out.

    assert Transcript(life.on) >> Needed(now=0) << Connect(generation=1, after=0.0)

Everything that comes out must be written down. Where it differs, the assertion prints both conversations as a diff.
"""

import difflib
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

Event = TypeVar("Event")


class Transcript(Generic[Event]):
    """Feeds events to `take` at once, and keeps what was expected beside what came."""

    def __init__(self, take: Callable[[Event], Iterable[object]]) -> None:
        self._take = take
        self._expected: list[str] = []
        self._actual: list[str] = []

    def __rshift__(self, event: Event) -> "Transcript[Event]":
        line = f">> {event!r}"
        self._expected.append(line)
        self._actual.append(line)
        self._actual += (f"<< {command!r}" for command in self._take(event))
        return self

    def __lshift__(self, command: object) -> "Transcript[Event]":
        self._expected.append(f"<< {command!r}")
        return self

    def __bool__(self) -> bool:
        diff = list(difflib.ndiff(self._expected, self._actual))
        assert self._expected == self._actual, "\n".join(["the conversation differs (- expected, + came):", *diff])
        return True
