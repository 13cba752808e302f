"""Finds what the calls of a script depend on: runs it again, with untrusted text replaced, and compares.

No engine can carry labels of text through a script, so they are found by experiment: an argument that changes was
derived from the concealed text, however it was computed. `Reruns` records the answers to the calls of a run and uses
them for the second run, which makes no calls; a third run, with nothing concealed, shows whether the script is
deterministic at all. Knows no rules. `scripting.py` creates one for each script if data flow is tracked.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Generator
from typing import NoReturn

import msgspec

from wicket_mcp.config.model.scripts import Limits
from wicket_mcp.errors import UpstreamError, WicketError
from wicket_mcp.model import Json, JsonObject, as_object
from wicket_mcp.request import Rerun
from wicket_mcp.results.content import size_of
from wicket_mcp.scripts.api import Api
from wicket_mcp.scripts.calls import CallKind
from wicket_mcp.scripts.engine import Scripts, new_seed
from wicket_mcp.tasks import Tasks
from wicket_mcp.trust.concealing import conceal, conceal_body, conceal_error

MAX_KEPT = 4 * 1024**2
"""Characters of answers that are recorded per run; with more, nothing can be found out."""


class Place(msgspec.Struct, frozen=True):
    """Identifies a call of a run: the first, second … of its kind and name."""

    kind: CallKind
    name: str
    number: int


class Kept(msgspec.Struct):
    """A call and its answer, which is a value or an error once it has arrived."""

    rerun: Rerun
    answered: bool = False
    value: Json = None
    problem: WicketError | None = None
    fields: frozenset[str] | None = None
    """The fields of the value without untrusted text; None if there is no untrusted text."""

    def answer(self, value: Json, fields: frozenset[str] | None) -> None:
        self.value, self.fields = value, fields

    def repeat(self, kind: CallKind) -> Json:
        """The answer again. Raises the error again."""
        del kind
        if self.problem is not None:
            raise self.problem
        return self.value

    def conceal(self, kind: CallKind) -> Json:
        """The answer with its untrusted text concealed, also that of an error."""
        if isinstance(self.problem, UpstreamError):
            raise conceal_error(self.problem)
        if self.problem is not None:
            raise self.problem
        if self.fields is None:
            return self.value
        return conceal_body(as_object(self.value), self.fields) if kind == "call" else conceal(self.value, self.fields)


class Reruns:
    """The calls of one run of a script, and its second runs."""

    def __init__(
        self, scripts: Scripts, source: str, language: str, api: Api, limits: Limits, arguments: JsonObject
    ) -> None:
        self.seed = new_seed()
        self._calls: dict[Place, Kept] = {}
        self._counts: Counter[tuple[CallKind, str]] = Counter()
        self._size = 0

        async def run(call: "_Replay") -> None:
            await scripts.run_again(source, language, api, call, limits, arguments, self.seed)

        self._run = run

    @contextlib.contextmanager
    def keep(self, kind: CallKind, name: str, arguments: JsonObject) -> Generator[Kept]:
        """Record one call and its answer, which the caller gives to the record."""
        self._counts[kind, name] += 1
        place = Place(kind, name, self._counts[kind, name])
        record = self._calls[place] = Kept(lambda: self._compare(place, arguments))
        try:
            yield record
        except WicketError as problem:
            record.problem = problem
            raise
        finally:
            record.answered = True
            value = record.value
            self._size += size_of(as_object(value) if kind == "call" else {"structuredContent": value})
            if self._size > MAX_KEPT:
                self._calls.clear()

    async def _compare(self, place: Place, arguments: JsonObject) -> frozenset[str] | None:
        """The arguments of a call that depend on untrusted text; None if that cannot be found out."""
        otherwise = await self._replay(place, Kept.conceal)
        if otherwise is None:
            return None
        changed = frozenset(name for name in arguments if name not in otherwise or otherwise[name] != arguments[name])
        if changed:
            again = await self._replay(place, Kept.repeat)
            if again is None or any(again.get(name) != arguments[name] for name in changed):
                return None  # it uses a clock or random values
        return changed

    async def _replay(self, place: Place, give: Callable[[Kept, CallKind], Json]) -> JsonObject | None:
        """The arguments of that call in a second run; None if the run does not get there."""
        if self._size > MAX_KEPT:
            return None
        tasks, replay = Tasks(), _Replay(self._calls, place, give)
        try:
            running = tasks.start(self._run(replay), "second run of a script")
            await asyncio.wait((running, replay.caught), return_when=asyncio.FIRST_COMPLETED)
            return replay.caught.result() if replay.caught.done() else None
        finally:
            replay.caught.cancel()
            await tasks.close()


class _Replay:
    """Answers the calls of a second run; see `calls.CallTool`."""

    def __init__(self, calls: dict[Place, Kept], target: Place, give: Callable[[Kept, CallKind], Json]) -> None:
        self._calls = calls
        self._target = target
        self._give = give
        self._counts: Counter[tuple[CallKind, str]] = Counter()
        self.caught: asyncio.Future[JsonObject | None] = asyncio.get_running_loop().create_future()
        """The arguments of the call in question; None if the run took another path."""

    async def __call__(self, kind: CallKind, name: str, arguments: JsonObject) -> Json:
        self._counts[kind, name] += 1
        place = Place(kind, name, self._counts[kind, name])
        record = self._calls.get(place)
        if not self.caught.done() and (record is None or place == self._target):
            self.caught.set_result(arguments if place == self._target else None)
        if record is None or not record.answered:
            await _never()
        return self._give(record, kind)


async def _never() -> NoReturn:
    """Block on a call that had no answer in the first run either, until this run is ended."""
    await asyncio.get_running_loop().create_future()
    raise asyncio.CancelledError
