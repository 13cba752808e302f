"""A script's calls, from the frame to the reply: checked, looked up, made, and recorded.

The child is not trusted, so each call's shape and number are checked and its tool is looked up here again. Answers are
recorded, up to a limit, for a second run of the same script. Knows no process.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeAlias, cast

import msgspec

from wicket_mcp import codec
from wicket_mcp.budget import MAX_NAME, check_length
from wicket_mcp.config.model.scripts import Limits
from wicket_mcp.errors import CallerError, Overloaded, Unavailable, UnknownName, WicketError
from wicket_mcp.model import Json, JsonObject, Tool
from wicket_mcp.scripts import frames
from wicket_mcp.scripts.api import HELPERS, Api
from wicket_mcp.scripts.limits import MAX_ARGUMENTS, MAX_DEPTH, MAX_REPLIES, MAX_REPLY, MIB
from wicket_mcp.scripts.outcome import CallRecord, CallState
from wicket_mcp.scripts.replay import RecordedReply
from wicket_mcp.scripts.values import fit, unwrap
from wicket_mcp.tasks import Tasks

log = logging.getLogger(__name__)

CallKind: TypeAlias = Literal["call", "search", "describe", "result"]

_MOST_RECORDED = 4 * MIB
_NOT_SENT = (CallerError, Overloaded, Unavailable)
_HELPER_KINDS: dict[tuple[str, str], CallKind] = {
    ("tools", "search"): "search",
    ("tools", "describe"): "describe",
    ("results", "get"): "result",
}


class CallTool(Protocol):
    """Makes a script's calls. `call` returns a tool's result object; the helpers return any JSON.

    `name` is the tool's key (`server.tool`) for `call`, and empty otherwise. Raises WicketError. One that may ask a
    person has a `patience`, which stops the run's clock meanwhile.
    """

    async def __call__(self, kind: CallKind, name: str, arguments: JsonObject) -> Json: ...


class TooManyCalls(Exception):
    """A child made more calls than allowed, whatever its own count says."""


class Calls:
    """The calls of one script. `reply` is called with each frame of replies."""

    def __init__(self, api: Api, call: CallTool, limits: Limits, reply: Callable[[bytes], None]) -> None:
        self._api, self._call, self._limits, self._reply = api, call, limits, reply
        self._tasks = Tasks()
        self._slots = asyncio.Semaphore(limits.in_flight)
        self._lookups = asyncio.Lock()
        self._numbers: set[int] = set()
        self._replies: list[bytes] = []
        self._reply_bytes = 0
        self.records: list[CallRecord] = []
        self._recorded: list[RecordedReply] = []

    @property
    def recorded(self) -> list[RecordedReply] | None:
        """The answers, in order; None if they were too large to keep."""
        return self._recorded if self._reply_bytes <= _MOST_RECORDED else None

    def take(self, calls: Json) -> None:
        """Start the calls of one frame. Raises BadFrame and TooManyCalls."""
        if not isinstance(calls, list) or not calls:
            raise frames.BadFrame("calls that are not a list")
        for call in cast("list[Any]", calls):
            match call:
                case [int() as number, str() as server, str() as tool, arguments] if (
                    not isinstance(number, bool)
                    and 0 < number < 2**31
                    and number not in self._numbers
                    and isinstance(arguments, dict)
                ):
                    self._numbers.add(number)
                    self._start(number, server, tool, cast("JsonObject", arguments))
                case _:
                    raise frames.BadFrame("a call of the wrong shape")

    async def wait(self) -> None:
        """Wait until every call has ended by itself."""
        await self._tasks.wait()

    async def close(self) -> None:
        await self._tasks.close()

    def _start(self, number: int, server: str, tool: str, arguments: JsonObject) -> None:
        if len(self.records) >= self._limits.calls:
            raise TooManyCalls
        if max(len(server), len(tool)) > 256:
            raise frames.BadFrame("a name that is too long")
        label = f"{server}.{tool}"
        index = len(self.records)
        self.records.append(CallRecord(label, "unfinished"))
        self._tasks.start(self._serve(number, index, server, tool, arguments), f"script call {label}")

    async def _serve(self, number: int, index: int, server: str, tool: str, arguments: JsonObject) -> None:
        async with self._slots:
            began = time.perf_counter()
            state, value, label = await self._answer(server, tool, arguments)
            payload = self._encode(state == "ok", value)
            if payload is None:
                state, payload = "failed", codec.encode(f"{label}: the answer is too large for a script")
            ok = state == "ok"
            error = "" if ok else codec.decode(payload).removeprefix(f"{label}: ")[:300]
            ms = (time.perf_counter() - began) * 1000
            self.records[index] = CallRecord(label, state, error, ms)
        self._reply_bytes += len(payload)
        self._keep(RecordedReply(number, server, tool, ok, msgspec.Raw(payload)))
        self._replies.append(b"[%d,%s,%s]" % (number, b"true" if ok else b"false", payload))
        if len(self._replies) == 1:
            # Calls that finish in the same turn of the loop go in the same frame.
            asyncio.get_running_loop().call_soon(self._flush)

    def _keep(self, reply: RecordedReply) -> None:
        if self._reply_bytes <= _MOST_RECORDED:
            self._recorded.append(reply)
        else:
            self._recorded.clear()

    async def _answer(self, server: str, tool: str, arguments: JsonObject) -> tuple[CallState, Json, str]:
        """The outcome (value or message), and the label under which the call is recorded."""
        label = f"{server}.{tool}"
        try:
            if len(codec.encode(arguments)) > 2 * MAX_ARGUMENTS:
                return "not_sent", f"{label}: the arguments are too large", label
            if server in HELPERS and (server, tool) != ("tools", "call"):
                kind = _HELPER_KINDS.get((server, tool))
                if kind is None:
                    raise UnknownName("function", label, [f"{server}.{name}" for name in HELPERS[server]])
                if self._reply_bytes >= MAX_REPLIES:  # a reply would not be accepted anyway
                    return "not_sent", f"{label}: the script has been answered {MAX_REPLIES // MIB} MiB", label
                return "ok", await self._call(kind, "", arguments), label
            if server in HELPERS:
                name = str(arguments.get("name", ""))
                check_length(name, MAX_NAME, "A name")
                target = self._api.get_key(name) or await self._look_up(self._api.find_key, name)
                inner: Any = arguments.get("arguments")
                arguments = cast("JsonObject", inner) if isinstance(inner, dict) else {}
            else:
                target = self._api.get(server, tool) or await self._look_up(self._api.find, server, tool)
            label = target.key
            body = await self._call("call", target.key, cast("JsonObject", fit(arguments, target.input_schema)))
            ok, value = unwrap(cast("JsonObject", body))
        except WicketError as error:
            return "not_sent" if isinstance(error, _NOT_SENT) else "failed", _prefix(label, str(error)), label
        except Exception:  # the boundary: a bug in a call must not end the run
            log.exception("call of %s by a script failed", label)
            return "failed", f"{label}: internal error in the gateway; its log has the cause", label
        return ("ok", value, label) if ok else ("failed", f"{label}: {value}", label)

    async def _look_up(self, find: Callable[..., Tool], *names: str) -> Tool:
        """A tool by an inexact name, one lookup at a time: finding similar names takes a while."""
        async with self._lookups:
            return await asyncio.to_thread(find, *names)

    def _encode(self, ok: bool, value: Json) -> bytes | None:
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
        self._reply(frames.pack(frames.REPLIES, b"[%s]" % b",".join(replies)))


def _prefix(label: str, message: str) -> str:
    """A message that begins with the call's name, once."""
    return message if message.startswith(f"{label}: ") else f"{label}: {message}"
