"""The outermost layer: writes one audit record for every request when it ends, whatever the outcome.

Denials, unknown names and bugs are recorded like answers. A record has a digest of the arguments; the arguments
themselves only if the configuration asks for it, masked, for a file or a collector. `Audit` passes each record to its
sinks (the store, a file, the metrics), and knows the running requests. Events of the gateway itself (a failed sign-in,
a revoked key) are recorded here too.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec

from wicket_mcp.calls.cache import META_CACHED
from wicket_mcp.codec import digest, encode
from wicket_mcp.config.model.config import Config
from wicket_mcp.errors import Internal, UpstreamError, WicketError
from wicket_mcp.model import Caller, JsonObject, name_of
from wicket_mcp.request import Handler, Layer, Request, Result, Span
from wicket_mcp.results.content import size_of
from wicket_mcp.store.model import CallRecord
from wicket_mcp.telemetry.log import cut
from wicket_mcp.telemetry.redact import mask_members, mask_strings

MAX_DETAIL = 300
FORWARD = "forward"
"""The last step, from which the server's time is taken."""
MAX_ARGUMENTS = 16 * 1024
"""The most bytes of arguments in a record; for larger arguments only their size is recorded."""
LISTENERS_EVERY = 0.25  # seconds over which records are collected for the listeners
UNASKED_A_MINUTE = 60
"""Records per minute of failed authentications, and of each server's log messages, so that they cannot flood the
audit.
"""

Sink = Callable[[CallRecord], None]
"""Takes one record. Never blocks and never raises."""
Listener = Callable[[Sequence[CallRecord]], None]
"""Takes the records of the last moment. Never blocks and never raises."""


class Running(msgspec.Struct, frozen=True, gc=False):
    """A running request."""

    request: Request
    started: float
    """On the monotonic clock."""


class Audit:
    """Receives records and knows the running requests. One for a gateway, across all configurations."""

    def __init__(self, *sinks: Sink) -> None:
        self._sinks = sinks
        self._listeners: list[Listener] = []
        self._unheard: list[CallRecord] = []
        self._timer: asyncio.TimerHandle | None = None
        self.running: dict[Span, Running] = {}
        self.rejections = 0
        """Requests that failed authentication."""
        self.disclosed: Counter[tuple[str, str]] = Counter()
        """Characters that clients were shown, by dialect and kind (`list`, `call`)."""
        self.whole_arguments = False
        """Whether records carry the arguments themselves, masked."""
        self._unasked: dict[str, tuple[int, int]] = {}
        """By source of unsolicited records: a minute, and how many were recorded in it."""

    def reconfigure(self, config: Config) -> None:
        self.whole_arguments = config.audit.arguments and config.audit.file is not None

    def record(self, record: CallRecord) -> None:
        for sink in self._sinks:
            sink(record)
        if self._listeners:
            self._unheard.append(record)
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(LISTENERS_EVERY, self.flush)

    def listen(self, listener: Listener) -> None:
        """Receive every record from now on: slightly later and in batches, so that no call waits for it."""
        self._listeners.append(listener)

    def flush(self) -> None:
        """Send the listeners the records that they have not received yet."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        unheard, self._unheard = self._unheard, []
        for listener in self._listeners:
            listener(unheard)

    def act(
        self,
        principal: str,
        act: str,
        detail: str = "",
        *,
        outcome: str = "ok",
        method: str = "admin",
        server: str = "",
    ) -> None:
        """Record an action on the gateway itself, by the `id` of a principal."""
        about, name = cut(detail, MAX_DETAIL), name_of(principal)
        holder = principal[len(name) + 1 :]
        self.record(
            CallRecord(time.time(), name, server, act, "", outcome, 0.0, 0, method=method, detail=about, holder=holder)
        )

    def act_on(self, principal: str, act: str, server: str) -> None:
        """Record an action that concerns one server."""
        self.act(principal, act, server, server=server)

    def refuse(self, caller: Caller, method: str, name: str, problem: WicketError) -> None:
        """Record a refusal that came before the pipeline, which records its own."""
        self.record(
            CallRecord(
                time.time(),
                caller.principal.name,
                "",
                cut(name, MAX_DETAIL),
                "",
                problem.code,
                0.0,
                0,
                method,
                caller.client_name,
                cut(problem.message, MAX_DETAIL),
                rule=f"{problem.rule}: deny",
                holder=caller.principal.holder,
            )
        )
        problem.rule = ""

    def disclose(self, caller: Caller, dialect: str, kind: str, characters: int) -> None:
        """Count what a client was shown; a list of tools, which every session begins with, is also recorded."""
        self.disclosed[dialect, kind] += characters
        if kind == "list":
            name, client, holder = caller.principal.name, caller.client_name, caller.principal.holder
            now, method = time.time(), "tools/list"
            self.record(CallRecord(now, name, "", dialect, "", "ok", 0.0, characters, method, client, holder=holder))

    def reject(self, client: str, reason: str) -> None:
        """Record a failed authentication."""
        self.rejections += 1
        if self._may_record(""):
            self.act(f"unknown {client}".strip(), "authenticate", reason, outcome="rejected", method="auth")

    def hear(self, server: str, level: str, words: str) -> None:
        """Record a server's log message that belongs to no call: only the gateway's owner sees it."""
        if self._may_record(server):
            self.act(f"server {server}", "log message", f"{level}: {words}", method="log", server=server)

    def _may_record(self, principal: str) -> bool:
        minute = int(time.monotonic() // 60)
        known, count = self._unasked.get(principal, (minute, 0))
        count = count + 1 if known == minute else 1
        self._unasked[principal] = minute, count
        return count <= UNASKED_A_MINUTE


def audit(log: Audit) -> Layer:
    running = log.running

    def layer(inner: Handler) -> Handler:
        async def handle(request: Request) -> Result:
            span = request.span
            started = time.perf_counter()
            running[span] = Running(request, started)
            try:
                result = await inner(request)
                body = result.body
                span.outcome = "error" if body.get("isError") else "ok"
                if "_meta" in body and META_CACHED in body["_meta"]:
                    span.outcome = "cached"
                span.size = measure(body)
            except WicketError as problem:
                span.outcome, span.detail = problem.code, cut(problem.message, MAX_DETAIL)
                if not span.server and isinstance(problem, UpstreamError):  # whose tools nobody knows yet
                    span.server, span.name = problem.server, request.name.removeprefix(f"{problem.server}.")
                if problem.rule:
                    span.rule, problem.rule = f"{problem.rule}: deny", ""
                raise
            except asyncio.CancelledError:
                span.outcome = "cancelled"
                raise
            except BaseException:
                span.outcome = Internal.code
                raise
            finally:
                del running[span]
                log.record(_record(request, span, started, whole=log.whole_arguments))
            return result

        return handle

    return layer


def _record(request: Request, span: Span, started: float, *, whole: bool) -> CallRecord:
    ended = time.perf_counter()
    if not span.arguments_digest:
        span.arguments_digest, span.arguments_bytes = digest(encode(span.arguments))
    caller = request.caller
    return CallRecord(
        time.time(),
        caller.principal.name,
        span.server,
        span.name or request.name,
        span.arguments_digest,
        span.outcome,
        (ended - started) * 1000,
        span.size,
        request.method,
        caller.client_name,
        span.detail,
        span.run,
        span.upstream * 1000,
        span.arguments_bytes,
        span.rule,
        caller.principal.holder,
        steps=_steps(span, started, ended),
        arguments=_mask(span) if whole else "",
    )


def _steps(span: Span, started: float, ended: float) -> dict[str, float]:
    """The milliseconds of each step in their order: one ends when the next begins, the last when the request ends.

    A step that is entered twice (by a fallback, a sign-in) is summed up; `forward` is without the server's time.
    """
    steps: dict[str, float] = {}
    marks: list[Any] = span.marks
    last, began = "audit", started
    for name, at in zip(marks[::2], marks[1::2], strict=True):
        elapsed = (at - began) * 1000
        steps[last] = steps[last] + elapsed if last in steps else elapsed
        last, began = name, at
    elapsed = (ended - began) * 1000
    steps[last] = steps[last] + elapsed if last in steps else elapsed
    if FORWARD in steps:
        steps[FORWARD] = max(0.0, steps[FORWARD] - span.upstream * 1000)
        steps["server"] = span.upstream * 1000
    return steps


def _mask(span: Span) -> str:
    """The arguments for people to read, without known secrets and without values whose names suggest a secret."""
    if span.arguments_bytes > MAX_ARGUMENTS:  # searching them for secrets would delay everyone
        return encode(f"{span.arguments_bytes:,} bytes, too many for the audit").decode()
    return encode(mask_members(mask_strings(span.arguments))).decode()


def measure(body: JsonObject) -> int:
    """The same as `size_of`, but quicker for the usual result, which is one text."""
    content: Any = body.get("content")
    if isinstance(content, list) and len(cast("list[Any]", content)) == 1 and "structuredContent" not in body:
        block = cast("list[Any]", content)[0]
        if isinstance(block, dict) and isinstance(text := cast("JsonObject", block).get("text"), str):
            return len(text)
    return size_of(body)
