"""The entry point of scripts: `Scripts.run(source, language, api, call)` always returns an `Outcome`.

Owns the nursery (and through it every script's process) and the queue in front of it. One fresh process per run, never
reused. Knows only a language's record; the children know the language itself.
"""

import asyncio
import contextlib
import logging
import os
import secrets
from dataclasses import dataclass
from typing import Literal

import msgspec
from msgspec.structs import replace

from wicket_mcp.config.model.scripts import Limits
from wicket_mcp.errors import BadArguments, Overloaded
from wicket_mcp.lanes import Lane
from wicket_mcp.model import Json, JsonObject
from wicket_mcp.scripts import diagnostics, jail, stubs
from wicket_mcp.scripts.api import Api
from wicket_mcp.scripts.calls import CallKind, CallTool
from wicket_mcp.scripts.child import ZygoteError
from wicket_mcp.scripts.languages import LANGUAGES, NAMES, Language, missing_package
from wicket_mcp.scripts.limits import MAX_ARGUMENTS, MAX_VALUE
from wicket_mcp.scripts.nursery import Nursery
from wicket_mcp.scripts.outcome import Outcome, Problem, State
from wicket_mcp.scripts.replay import RecordedReply
from wicket_mcp.scripts.session import Session
from wicket_mcp.scripts.worker import Job, Order, Seed

log = logging.getLogger(__name__)

_QUEUE_PATIENCE = 30.0
_SECOND_RUN_CPU, _SECOND_RUN_WALL = 4, 5  # times the CPU limit
_SECOND_RUN_PATIENCE = 30.0  # a line is worth a wait, but a limited one
_AGAIN_WALL = 10.0  # seconds: the first run is waiting for it
_RLIMIT_CPU_ROOM = 18.0  # above the watched limit: converting 32 MiB of replies takes this long in the worst case


@dataclass(frozen=True, slots=True)
class Status:
    """The state of scripts, for `wicket status`."""

    jail: jail.Strength
    refused: bool
    """Scripts do not run: `scripts.jail = "strict"` and a part of the jail is missing."""
    languages: dict[str, bool]
    running: int
    warm: int

    def __str__(self) -> str:
        able = ", ".join(name for name, installed in self.languages.items() if installed)
        state = "refused (scripts.jail = strict); " if self.refused else ""
        running = f"; {self.running} running" if self.running else ""
        return f"{state}{able}; sandbox: {self.jail}{running}"


class Scripts:
    """Runs agents' scripts. One per gateway; the first run starts the zygote."""

    def __init__(
        self, limits: Limits | None = None, *, jail: Literal["auto", "strict"] | None = None, most: int = 0
    ) -> None:
        self.limits = limits or Limits()
        self._jail = jail
        self._nursery = Nursery()
        width = most or max(16, 4 * (os.cpu_count() or 1))
        # One principal's long scripts leave a quarter of the width to others.
        self._lane = Lane("scripts", width=width, share=max(1, width * 3 // 4), waiting=4 * width)
        self._second_runs = asyncio.Semaphore(os.cpu_count() or 1)
        self._warned = False

    def __repr__(self) -> str:
        return f"<Scripts {self._nursery!r}>"

    def use(self, limits: Limits) -> None:
        """Apply other limits to new scripts; waiting processes with the old limits are ended."""
        self.limits = limits
        self._nursery.cool(limits.memory, limits.cpu + _RLIMIT_CPU_ROOM)

    def status(self) -> Status:
        strength = jail.strength()
        return Status(
            strength,
            self._strict and not strength.complete,
            {name: not missing_package(language) for name, language in LANGUAGES.items()},
            self._nursery.busy,
            self._nursery.warm,
        )

    @property
    def _strict(self) -> bool:
        return (self._jail or self.limits.jail) == "strict"

    @property
    def peak_memory(self) -> int:
        """The most memory that any script's process used, in bytes, according to the kernel."""
        return self._nursery.peak

    @property
    def zygote_pid(self) -> int | None:
        """The process that scripts are forked from, while it runs."""
        return self._nursery.pid

    async def run(
        self,
        source: str,
        language: str,
        api: Api,
        call: CallTool,
        limits: Limits | None = None,
        arguments: JsonObject | None = None,
        *,
        principal: str = "",
        seed: Seed | None = None,
    ) -> Outcome:
        """Run one script to its end, for `principal`. Raises nothing except cancellation, which kills the script.

        `seed` initialises its random numbers, so that a second run can use the same ones.
        """
        limits = limits or self.limits
        known = NAMES.get(language.lower())
        if known is None:
            names = ", ".join(LANGUAGES)
            unknown = Problem("language", f"'{language}' scripts cannot be run.", hint=f"Use one of {names}.")
            return _refuse(language.lower(), unknown)
        if refusal := self._refusal(source, known, limits):
            return _refuse(known.name, refusal)
        try:
            async with asyncio.timeout(_QUEUE_PATIENCE):
                await self._lane.acquire(principal)
        except (TimeoutError, Overloaded):
            return _refuse(known.name, _limit("busy", "Too many scripts are running."))
        try:
            return await self._run(source, known, api, call, limits, arguments or {}, seed or new_seed())
        finally:
            self._lane.release(principal)

    async def run_again(
        self, source: str, language: str, api: Api, call: CallTool, limits: Limits, arguments: JsonObject, seed: Seed
    ) -> None:
        """Run an already running script a second time, to see the calls that it makes, without queueing again.

        Ends when the run ends, is cancelled or takes too long.
        """
        known = NAMES[language.lower()]
        job = _job(source, known, api, limits, arguments, seed)
        short = replace(limits, wall=min(limits.wall, _AGAIN_WALL))
        async with self._second_runs:
            with contextlib.suppress(ZygoteError):
                child = await self._nursery.take(_order(known, limits), keep_warm=False)
                await Session(child, job, api, call, short).run()

    async def _run(
        self,
        source: str,
        language: Language,
        api: Api,
        call: CallTool,
        limits: Limits,
        arguments: JsonObject,
        seed: Seed,
    ) -> Outcome:
        job = _job(source, language, api, limits, arguments, seed)
        order = _order(language, limits)
        usual = (limits.memory, limits.cpu) == (self.limits.memory, self.limits.cpu)
        try:
            child = await self._nursery.take(order, keep_warm=usual)
        except ZygoteError as error:
            return _refuse(language.name, Problem("crash", f"No process for the script: {error}."), "crash")
        session = Session(child, job, api, call, limits)
        outcome = await session.run()
        problem, recorded = outcome.problem, session.recorded
        if problem is None or problem.kind != "cpu" or language.places_errors or recorded is None:
            return outcome
        line = await self._find_line(order, job, recorded, limits)
        return replace(outcome, problem=diagnostics.with_line(problem, line, source)) if line else outcome

    async def _find_line(self, order: Order, job: Job, recorded: list[RecordedReply], limits: Limits) -> int | None:
        """The line at which CPU time ran out, found by a second, slower run that replays the calls' answers."""
        replay = msgspec.structs.replace(job, recorded=recorded, stubs="")
        short = msgspec.structs.replace(
            limits, cpu=limits.cpu * _SECOND_RUN_CPU + 1, wall=min(limits.wall, limits.cpu * _SECOND_RUN_WALL + 2)
        )
        try:
            async with asyncio.timeout(min(limits.wall, _SECOND_RUN_PATIENCE)):
                await self._second_runs.acquire()  # each needs a whole core to finish soon
        except TimeoutError:
            return None
        try:
            child = await self._nursery.take(order, keep_warm=False)
            problem = (await Session(child, replay, Api(), _never, short).run()).problem
        except ZygoteError:
            return None
        finally:
            self._second_runs.release()
        return problem.line if problem is not None and problem.kind == "cpu" else None

    async def close(self) -> None:
        """End every script and the zygote."""
        await self._nursery.close()

    def _refusal(self, source: str, language: Language, limits: Limits) -> Problem | None:
        if missing := missing_package(language):
            return Problem(
                "missing_engine", f"Running {language.name} needs {missing}.", hint=f"Install it: {language.install}"
            )
        size = len(source.encode("utf-8", "replace"))
        if size > limits.source:
            return _limit("source", f"The script has {size} bytes; {limits.source} are accepted.")
        return self._jail_refusal()

    def _jail_refusal(self) -> Problem | None:
        strength = jail.strength()
        if strength.complete:
            return None
        if self._strict:
            return Problem(
                "jail",
                f"Scripts are switched off: the jail is {strength}.",
                hint='Use a newer Linux kernel, or set scripts.jail = "auto".',
            )
        if not self._warned:
            self._warned = True
            log.warning("scripts run in a jail that is %s", strength)
        return None


def _job(source: str, language: Language, api: Api, limits: Limits, arguments: JsonObject, seed: Seed) -> Job:
    return Job(
        language=language.name,
        source=source,
        servers=api.find_mentions(source),
        cpu=limits.cpu,
        memory=limits.memory,
        calls=limits.calls,
        printed=limits.printed,
        max_arguments=MAX_ARGUMENTS,
        max_value=MAX_VALUE,
        args=arguments,
        stubs=stubs.python(api, source) if language.kind == "python" else "",
        positions=stubs.positions(api, source) if language.kind == "python" else {},
        interfaces=stubs.interfaces(api, source) if language.interfaces else {},
        seed=seed,
    )


def _order(language: Language, limits: Limits) -> Order:
    return Order(language.kind, limits.memory, limits.cpu + _RLIMIT_CPU_ROOM)


async def _never(kind: CallKind, name: str, arguments: JsonObject) -> Json:
    raise BadArguments("A second run makes no calls.")


def new_seed() -> Seed:
    return _word(), _word(), _word(), _word()


def _word() -> int:
    return secrets.randbits(32) or 1


def _limit(kind: str, message: str) -> Problem:
    return Problem(kind, message, hint=diagnostics.limit_hint(kind))


def _refuse(language: str, problem: Problem, state: State | None = None) -> Outcome:
    return Outcome(
        state or ("limit" if problem.kind in diagnostics.LIMIT_KINDS else "error"), language, problem=problem
    )
