"""One run, from the gateway's side: sends the job, answers the child's calls, and ends it whatever it does.

The child is hostile until proven dead. Every frame is bounded and checked, every call is counted and looked up
again, its CPU time is read from the kernel, and a child that breaks the protocol or stops reading is killed.
Knows no language.
"""

import asyncio
import logging
import signal
import time
from dataclasses import replace
from typing import Any, Literal, Protocol, TypeAlias, cast

import msgspec

from wicket import codec
from wicket.errors import UnknownName, WicketError
from wicket.model import Json, JsonObject
from wicket.scripts import diagnostics, frames
from wicket.scripts.api import HELPERS, Api
from wicket.scripts.limits import MAX_ARGUMENTS, MAX_DEPTH, MAX_FRAME, MAX_REPLIES, MAX_REPLY, MIB, Limits
from wicket.scripts.nursery import Child
from wicket.scripts.outcome import CallRecord, Outcome, Problem, State, Stats
from wicket.scripts.values import fit, unwrap
from wicket.scripts.worker import NOT_JAILED, Job
from wicket.tasks import Tasks

log = logging.getLogger(__name__)

CallKind: TypeAlias = Literal["call", "search", "describe", "result"]

_WATCH_EVERY = 0.1
_CPU_GRACE = {"vm": 0.5, "python": 0.1}  # the virtual machines stop by themselves, and know the line
_CPU_PER_BYTE = 0.5 / MIB  # conversion of what we sent is not the script's fault
_STALL = 5.0
_HELPER_KINDS: dict[tuple[str, str], CallKind] = {
    ("tools", "search"): "search",
    ("tools", "describe"): "describe",
    ("results", "get"): "result",
}


class CallTool(Protocol):
    """Where a script's calls go. `call` returns a tool's result object; the helpers return any JSON.

    `name` is the tool's key (`server.tool`) for `call`, and empty otherwise. Raises WicketError.
    """

    async def __call__(self, kind: CallKind, name: str, arguments: JsonObject) -> Json: ...


class _Ended(Exception):
    """The run is over, with this problem."""

    def __init__(self, state: State, kind: str, message: str) -> None:
        super().__init__(message)
        self.state: State = state
        self.problem = Problem(kind, message, hint=diagnostics.limit_hint(kind))


class Session:
    """The conversation with one child."""

    def __init__(self, child: Child, job: Job, api: Api, call: CallTool, limits: Limits) -> None:
        self._child, self._job, self._api, self._call, self._limits = child, job, api, call, limits
        self._tasks = Tasks()
        self._slots = asyncio.Semaphore(limits.in_flight)
        self._records: list[CallRecord] = []
        self._ids: set[int] = set()
        self._printed: list[str] = []
        self._printed_size = 0
        self._replies: list[bytes] = []
        self._reply_bytes = 0
        self._moved = 0
        self._killed: _Ended | None = None
        self._stalled_since: float | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def run(self) -> Outcome:
        began = time.perf_counter()
        watch: asyncio.TimerHandle | None = None
        loop = asyncio.get_running_loop()

        def look() -> None:
            nonlocal watch
            self._watch()
            watch = loop.call_later(_WATCH_EVERY, look)

        try:
            reader, self._writer = await asyncio.open_connection(sock=self._child.sock, limit=2 * MAX_FRAME)
            watch = loop.call_later(_WATCH_EVERY, look)
            self._writer.write(frames.pack(frames.JOB, msgspec.json.encode(self._job)))
            async with asyncio.timeout(self._limits.wall):
                outcome = await self._converse(reader)
        except TimeoutError:
            outcome = self._failed(
                _Ended("limit", "wall", f"The script took longer than {self._limits.wall:g} seconds.")
            )
        except _Ended as ended:
            outcome = self._failed(ended)
        finally:
            if watch is not None:
                watch.cancel()
            self._child.kill()
            if self._writer is not None:
                self._writer.transport.abort()
            await self._tasks.close()
        return self._complete(outcome, began)

    async def _converse(self, reader: asyncio.StreamReader) -> Outcome:
        while True:
            try:
                kind, payload = await frames.read(reader, MAX_FRAME)
                self._moved += len(payload)
                match kind:
                    case frames.CALLS:
                        self._take_calls(frames.parse(payload, MAX_DEPTH + 4))
                    case frames.PRINTED:
                        self._take_printed(frames.parse(payload, 1))
                    case frames.DONE:
                        return self._done(frames.parse(payload, MAX_DEPTH + 2), len(payload))
                    case frames.FAILED:
                        return self._error(frames.parse(payload, MAX_DEPTH))
                    case _:
                        raise frames.BadFrame(f"a frame of kind {kind!r}")
            except frames.BadFrame as error:
                log.warning("script process %d broke the protocol: %s", self._child.pid, error)
                raise self._killed or _Ended("crash", "crash", f"The script's process sent {error}.") from None
            except (asyncio.IncompleteReadError, ConnectionError):
                raise await self._post_mortem() from None

    # The child speaks

    def _take_calls(self, calls: Json) -> None:
        if not isinstance(calls, list) or not calls:
            raise frames.BadFrame("calls that are not a list")
        for call in cast("list[Any]", calls):
            match call:
                case [int() as number, str() as server, str() as tool, arguments] if (
                    not isinstance(number, bool)
                    and 0 < number < 2**31
                    and number not in self._ids
                    and isinstance(arguments, dict)
                ):
                    self._ids.add(number)
                    self._take_call(number, server, tool, cast("JsonObject", arguments))
                case _:
                    raise frames.BadFrame("a call of the wrong shape")

    def _take_call(self, number: int, server: str, tool: str, arguments: JsonObject) -> None:
        if len(self._records) >= self._limits.calls:
            raise _Ended("limit", "calls", f"The script made more than {self._limits.calls} calls.")
        if max(len(server), len(tool)) > 256:
            raise frames.BadFrame("a name that is too long")
        label = f"{server}.{tool}"
        index = len(self._records)
        self._records.append(CallRecord(label, "unfinished"))
        self._tasks.start(self._serve(number, index, server, tool, arguments), f"script call {label}")

    def _take_printed(self, text: Json) -> None:
        if not isinstance(text, str):
            raise frames.BadFrame("printed text that is not text")
        room = self._limits.printed + 256 - self._printed_size  # 256: the child's own note that it cut
        if room > 0:
            self._printed.append(text[:room])
            self._printed_size += len(text)

    def _done(self, body: Json, size: int) -> Outcome:
        if not isinstance(body, dict):
            raise frames.BadFrame("an answer of the wrong shape")
        known = cast("dict[str, Any]", body)
        return self._outcome(
            "done",
            value=known.get("value"),
            has_value="value" in known,
            large=size > self._limits.output,
            stats=_stats(known.get("stats")),
        )

    def _error(self, report: Json) -> Outcome:
        if not isinstance(report, dict):
            raise frames.BadFrame("an error of the wrong shape")
        known = cast("dict[str, Any]", report)
        found = diagnostics.problem(known, self._job.source, self._job.language, self._api)
        state: State = "limit" if found.kind in diagnostics.LIMIT_KINDS else "error"
        return self._outcome(state, problem=found, stats=_stats(known))

    # Its calls are served

    async def _serve(self, number: int, index: int, server: str, tool: str, arguments: JsonObject) -> None:
        async with self._slots:
            began = time.perf_counter()
            ok, value, label = await self._answer(server, tool, arguments)
            payload = self._encode_reply(ok, value)
            if payload is None:
                ok, payload = False, codec.encode(f"{label}: the answer is too large for a script")
            error = "" if ok else codec.decode(payload)[:300]
            ms = (time.perf_counter() - began) * 1000
            self._records[index] = CallRecord(label, "ok" if ok else "failed", error, ms)
        self._reply_bytes += len(payload)
        self._replies.append(b"[%d,%s,%s]" % (number, b"true" if ok else b"false", payload))
        if len(self._replies) == 1:
            # Whatever else finishes in this turn of the loop goes in the same frame.
            asyncio.get_running_loop().call_soon(self._flush)

    async def _answer(self, server: str, tool: str, arguments: JsonObject) -> tuple[bool, Json, str]:
        """Success, value or message, and the label under which the call is recorded."""
        label = f"{server}.{tool}"
        try:
            if len(codec.encode(arguments)) > 2 * MAX_ARGUMENTS:
                return False, f"{label}: the arguments are too large", label
            if server in HELPERS and (server, tool) != ("tools", "call"):
                kind = _HELPER_KINDS.get((server, tool))
                if kind is None:
                    raise UnknownName("function", label, [f"{server}.{name}" for name in HELPERS[server]])
                return True, await self._call(kind, "", arguments), label
            if server in HELPERS:
                target = self._api.find_key(str(arguments.get("name", "")))
                inner: Any = arguments.get("arguments")
                arguments = cast("JsonObject", inner) if isinstance(inner, dict) else {}
            else:
                target = self._api.find(server, tool)
            label = target.key
            body = await self._call("call", target.key, cast("JsonObject", fit(arguments, target.input_schema)))
            ok, value = unwrap(cast("JsonObject", body))
        except WicketError as error:
            return False, f"{label}: {error}", label
        except Exception:  # the boundary: a defect in a call must not take the run with it
            log.exception("call of %s by a script failed", label)
            return False, f"{label}: internal error in the gateway; its log has the cause", label
        return ok, value if ok else f"{label}: {value}", label

    def _encode_reply(self, ok: bool, value: Json) -> bytes | None:
        try:
            payload = codec.encode(value)
        except (TypeError, ValueError, RecursionError):
            return None
        most = MAX_REPLY if self._reply_bytes < MAX_REPLIES else 0
        if ok and (len(payload) > most or frames.deeper(value, MAX_DEPTH * 2)):
            return None
        return payload

    def _flush(self) -> None:
        replies, self._replies = self._replies, []
        if self._writer is None or self._writer.is_closing() or not replies:
            return
        frame = frames.pack(frames.REPLIES, b"[%s]" % b",".join(replies))
        self._moved += len(frame)
        self._writer.write(frame)

    # It is watched

    def _watch(self) -> None:
        limits = self._limits
        allowed = limits.cpu + _CPU_GRACE[self._child.order.kind] + self._moved * _CPU_PER_BYTE
        if self._child.cpu_seconds() > allowed:
            self._kill(_Ended("limit", "cpu", f"The script used more than {limits.cpu:g} s of processor time."))
        waiting = self._writer.transport.get_write_buffer_size() if self._writer else 0
        if not waiting:
            self._stalled_since = None
        elif self._stalled_since is None:
            self._stalled_since = time.monotonic()
        elif time.monotonic() - self._stalled_since > limits.cpu + _STALL:
            self._kill(_Ended("crash", "crash", "The script's process stopped reading."))

    def _kill(self, reason: _Ended) -> None:
        self._killed = self._killed or reason
        self._child.kill()

    async def _post_mortem(self) -> _Ended:
        """Why a child is gone that did not say goodbye."""
        if self._killed:
            return self._killed
        try:
            async with asyncio.timeout(_STALL):
                end = await asyncio.shield(self._child.ended)
        except TimeoutError:
            return _Ended("crash", "crash", "The script's process closed its connection.")
        if end.code == NOT_JAILED:
            return _Ended("error", "jail", "The jail for scripts could not be set up on this system.")
        if end.code == -signal.SIGXCPU:
            return _Ended("limit", "cpu", f"The script used more than {self._limits.cpu:g} s of processor time.")
        if end.code == -signal.SIGABRT:
            return _Ended("limit", "memory", "The script ran out of memory.")
        if end.code == -signal.SIGSYS:
            log.warning("script process %d tried a forbidden system call and was ended", self._child.pid)
            return _Ended("crash", "crash", "The script's process did something forbidden and was ended.")
        how = f"signal {-end.code}" if end.code < 0 else f"code {end.code}"
        return _Ended("crash", "crash", f"The script's process ended unexpectedly ({how}).")

    # The end

    def _failed(self, ended: _Ended) -> Outcome:
        problem = ended.problem
        if problem.kind == "cpu":
            problem = diagnostics.place_loop(problem, self._job.source)
        return self._outcome(ended.state, problem=problem)

    def _outcome(self, state: State, **known: Any) -> Outcome:
        return Outcome(state, self._job.language, **known)

    def _complete(self, outcome: Outcome, began: float) -> Outcome:
        return replace(
            outcome,
            printed="".join(self._printed),
            calls=tuple(self._records),
            stats=replace(outcome.stats, wall_ms=(time.perf_counter() - began) * 1000),
        )


def _stats(said: Any) -> Stats:
    known = cast("dict[str, Any]", said) if isinstance(said, dict) else {}
    cpu, peak = known.get("cpu"), known.get("peak")
    return Stats(
        cpu_ms=cpu * 1000 if isinstance(cpu, float) else 0.0,
        peak_bytes=peak * 1024 if isinstance(peak, int) and 0 <= peak < 2**32 else 0,
    )
