"""One run, from the gateway's side: sends the job, passes on the child's calls, and ends the child in any case.

The child is treated as hostile until it has ended. Every frame is limited and checked, its CPU time is read from the
kernel, and a child that breaks the protocol or stops reading is killed. Knows no language.
"""

import asyncio
import logging
import signal
import time
from typing import Any, cast

from msgspec.structs import replace

from wicket_mcp.budget import MAX_VALUES
from wicket_mcp.codec import LARGE, encode_whole
from wicket_mcp.config.model.scripts import Limits
from wicket_mcp.large_json import decode_off_loop
from wicket_mcp.model import Json
from wicket_mcp.scripts import diagnostics, frames
from wicket_mcp.scripts.api import Api
from wicket_mcp.scripts.calls import Calls, CallTool, TooManyCalls
from wicket_mcp.scripts.child import Child
from wicket_mcp.scripts.limits import KIB, MAX_DEPTH, MAX_FRAME, MAX_SENT, MIB
from wicket_mcp.scripts.outcome import Outcome, Problem, State, Stats
from wicket_mcp.scripts.patience import Patience
from wicket_mcp.scripts.replay import RecordedReply
from wicket_mcp.scripts.worker import FORBIDDEN, NOT_JAILED, Job

log = logging.getLogger(__name__)

_WATCH_EVERY = 0.1
_CPU_GRACE = {"vm": 0.5, "python": 0.1}  # the virtual machines stop by themselves
_CPU_PER_BYTE = 0.5 / MIB  # converting what we sent is not the script's fault
_STALL = 5.0
_FRAME_COST = 256  # extra bytes that a frame counts for: even the smallest takes our time
_FRAMES_AT_ONCE = 64  # then other tasks get a turn


class _Ended(Exception):
    """The run is over, with this problem."""

    def __init__(self, state: State, kind: str, message: str) -> None:
        super().__init__(message)
        self.state: State = state
        self.problem = Problem(kind, message, hint=diagnostics.limit_hint(kind))


class Session:
    """The conversation with one child."""

    def __init__(self, child: Child, job: Job, api: Api, call: CallTool, limits: Limits) -> None:
        self._child, self._job, self._api, self._limits = child, job, api, limits
        self._calls = Calls(api, call, limits, self._reply)
        self._patience: Patience = getattr(call, "patience", None) or Patience()
        self._printed: list[str] = []
        self._printed_size = 0
        self._sent = 0
        self._heard = 0
        self._frames = 0
        self._cpu_before: float | None = None
        self._killed: _Ended | None = None
        self._stalled_since: float | None = None
        self._writer: asyncio.StreamWriter | None = None

    @property
    def recorded(self) -> list[RecordedReply] | None:
        """The answers to the script's calls, for a second run; None if they were too large to keep."""
        return self._calls.recorded

    async def run(self) -> Outcome:
        began = time.perf_counter()
        watch: asyncio.TimerHandle | None = None
        loop = asyncio.get_running_loop()
        outcome: Outcome | None = None

        def look() -> None:
            nonlocal watch
            self._watch()
            watch = loop.call_later(_WATCH_EVERY, look)

        try:
            reader, self._writer = await asyncio.open_connection(sock=self._child.sock, limit=2 * MAX_FRAME)
            watch = loop.call_later(_WATCH_EVERY, look)
            self._writer.write(frames.pack(frames.JOB, encode_whole(self._job)))
            async with self._patience.limit(self._limits.wall):
                outcome = await self._outcome(reader)
                self._hang_up()
                if outcome.state != "crash":  # started calls continue: the author must know their outcome
                    await self._calls.wait()
        except TimeoutError:
            late = _Ended("limit", "wall", f"The script took longer than {self._limits.wall:g} seconds.")
            outcome = outcome or self._fail(late)
        finally:
            if watch is not None:
                watch.cancel()
            self._hang_up()
            await self._calls.close()
        return self._complete(outcome, began)

    async def _outcome(self, reader: asyncio.StreamReader) -> Outcome:
        try:
            return await self._converse(reader)
        except _Ended as ended:
            return self._fail(ended)

    async def _converse(self, reader: asyncio.StreamReader) -> Outcome:
        while True:
            try:
                kind, payload = await frames.read(reader, MAX_FRAME)
                await self._count(len(payload))
                match kind:
                    case frames.CALLS:
                        self._calls.take(await _parse(payload, MAX_DEPTH + 4))
                    case frames.PRINTED:
                        self._take_printed(await _parse(payload, 1))
                    case frames.DONE:
                        return self._finish(await _parse(payload, MAX_DEPTH + 2))
                    case frames.FAILED:
                        return self._error(await _parse(payload, MAX_DEPTH))
                    case frames.BEGUN if self._cpu_before is None and not self._calls.records:
                        self._cpu_before = self._child.cpu_seconds()
                    case _:
                        raise frames.BadFrame(f"a frame of kind {kind!r}")
            except frames.BadFrame as error:
                log.warning("script process %d broke the protocol: %s", self._child.pid, error)
                raise self._killed or _Ended("crash", "crash", f"The script's process sent {error}.") from None
            except TooManyCalls:
                message = f"The script made more than {self._limits.calls} calls."
                raise _Ended("limit", "calls", message) from None
            except (asyncio.IncompleteReadError, ConnectionError):
                raise await self._post_mortem() from None

    # Messages from the child

    async def _count(self, size: int) -> None:
        self._frames += 1
        self._heard += size + _FRAME_COST
        # What an honest child may need besides its arguments: each call and each printed character in its own frame.
        most = MAX_SENT + self._limits.calls * KIB + self._limits.printed * (_FRAME_COST + 8)
        if self._heard > most:
            raise _Ended("limit", "output", f"The script sent more than {MAX_SENT // MIB} MiB.")
        if self._frames % _FRAMES_AT_ONCE == 0:
            await asyncio.sleep(0)

    def _take_printed(self, text: Json) -> None:
        if not isinstance(text, str):
            raise frames.BadFrame("printed text that is not text")
        room = self._limits.printed + 256 - self._printed_size  # 256: the child's own note that it truncated
        if room > 0:
            self._printed.append(text[:room])
            self._printed_size += len(text)

    def _finish(self, body: Json) -> Outcome:
        if not isinstance(body, dict):
            raise frames.BadFrame("an answer of the wrong shape")
        known = cast("dict[str, Any]", body)
        return self._end(
            "done",
            value=known.get("value"),
            has_value="value" in known,
            stats=_stats(known.get("stats")),
        )

    def _error(self, report: Json) -> Outcome:
        if not isinstance(report, dict):
            raise frames.BadFrame("an error of the wrong shape")
        known = cast("dict[str, Any]", report)
        problem = diagnostics.problem(known, self._job.source, self._job.language, self._api)
        state: State = "limit" if problem.kind in diagnostics.LIMIT_KINDS else "error"
        return self._end(state, problem=problem, stats=_stats(known))

    # Replies to the child

    def _reply(self, frame: bytes) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._sent += len(frame)
            self._writer.write(frame)

    def _hang_up(self) -> None:
        self._child.kill()
        if self._writer is not None:
            self._writer.transport.abort()

    # Watching the child

    def _watch(self) -> None:
        limits = self._limits
        allowed = limits.cpu + _CPU_GRACE[self._child.order.kind] + self._sent * _CPU_PER_BYTE
        if self._child.cpu_seconds() - (self._cpu_before or 0.0) > allowed:
            self._kill(_Ended("limit", "cpu", f"The script used more than {limits.cpu:g} s of processor time."))
        if self._child.crowded:
            self._kill(_Ended("crash", "crash", "The script's process started too many others."))
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
        """Why a child ended without a final message."""
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
        if end.code in (-signal.SIGSYS, FORBIDDEN):
            log.warning("script process %d tried a forbidden system call and was ended", self._child.pid)
            return _Ended("crash", "crash", "The script's process did something forbidden and was ended.")
        how = f"signal {-end.code}" if end.code < 0 else f"code {end.code}"
        return _Ended("crash", "crash", f"The script's process ended unexpectedly ({how}).")

    # The end

    def _fail(self, ended: _Ended) -> Outcome:
        return self._end(ended.state, problem=ended.problem)

    def _end(self, state: State, **known: Any) -> Outcome:
        return Outcome(state, self._job.language, **known)

    def _complete(self, outcome: Outcome, began: float) -> Outcome:
        return replace(
            outcome,
            printed="".join(self._printed),
            calls=tuple(self._calls.records),
            stats=replace(outcome.stats, wall_ms=(time.perf_counter() - began) * 1000),
        )


async def _parse(payload: bytes, depth: int) -> Json:
    """The JSON of a frame; a large one is parsed off the loop. Raises BadFrame."""
    if len(payload) < LARGE:
        return frames.parse(payload, depth)
    try:
        value = await decode_off_loop(payload, most=MAX_VALUES)
    except ValueError as problem:
        raise frames.BadFrame(str(problem)) from None
    if await asyncio.to_thread(frames.deeper, value, depth):
        raise frames.BadFrame(f"JSON nested deeper than {depth}")
    return value


def _stats(value: Any) -> Stats:
    known = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    cpu, peak = known.get("cpu"), known.get("peak")
    return Stats(
        cpu_ms=cpu * 1000 if isinstance(cpu, float) else 0.0,
        peak_bytes=peak * 1024 if isinstance(peak, int) and 0 <= peak < 2**32 else 0,
    )
