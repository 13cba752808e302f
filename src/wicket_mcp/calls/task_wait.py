"""Waits for a server's task on behalf of a client without tasks: polls it to its end and answers its questions.

Both eras: a modern server returns the result with the task, a legacy one on request, and asks its questions then.
Called by `forward.py`; `send` makes one request of the same server for the same caller.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec

from wicket_mcp.errors import CannotStart, Crashed, Overloaded, Refused, TimedOut, Unavailable, WicketError
from wicket_mcp.model import META_SERVER_INFO, JsonObject, as_object, as_seconds, as_text
from wicket_mcp.tasks import run_uninterrupted

Send = Callable[[str, JsonObject], Awaitable[JsonObject]]
Ask = Callable[[str, JsonObject], Awaitable[JsonObject]]


class Followed(msgspec.Struct):
    """The server's task that a task of ours waits for: what is needed to resume it after a restart."""

    server: str = ""
    created: JsonObject = msgspec.field(default_factory=dict[str, Any])
    """The server's answer to the call, in its era's format."""
    latest: JsonObject = msgspec.field(default_factory=dict[str, Any])
    """What the server said last about its task."""
    requested: bool = False
    """The client asked for a task, so the server is asked for one where it offers that."""
    abandoned: bool = False
    """Wicket stops, and the server's task should continue without it."""
    on_known: Callable[[], None] | None = None
    on_progress: Callable[[], None] | None = None
    """Called when the server says something else about the task's progress."""

    def know(self, server: str, created: JsonObject) -> None:
        self.server, self.created, self.latest = server, created, {}
        if self.on_known is not None:
            self.on_known()

    def learn(self, task: JsonObject) -> None:
        before = self._state.get("statusMessage")
        self.latest = task
        if self.on_progress is not None and task.get("statusMessage") != before:
            self.on_progress()

    @property
    def _state(self) -> JsonObject:
        return self.latest or as_object(self.created.get("task")) or self.created

    def passed_fields(self) -> JsonObject:
        """What the server says about its task beside the fields that a task of ours has itself."""
        state = self._state
        fields = {name: value for name, value in state.items() if name not in _KNOWN}
        meta = {name: v for name, v in as_object(state.get("_meta")).items() if name not in (META_SERVER_INFO, RELATED)}
        return {**fields, "_meta": meta} if meta else fields


_KNOWN = frozenset({"taskId", "status", "createdAt", "lastUpdatedAt", "ttl", "ttlMs"}) | {
    *("pollInterval", "pollIntervalMs", "result", "error", "inputRequests", "resultType", "_meta"),
}
POLL = 1.0  # seconds between two polls, unless the server sets another interval
SHORTEST_POLL, LONGEST_POLL = 0.02, 30.0
_PAUSES = (0.2, 0.6, 1.8, 5.4, 16.2)  # seconds before a server that cannot be reached is asked again
LEGACY_TTL_MS = 3_600_000
"""How long a legacy server is asked to keep a task for us."""
RELATED = "io.modelcontextprotocol/related-task"
_PAST = ("completed", "failed", "cancelled")


async def wait_for_task(
    server: str, created: JsonObject, send: Send, ask: Ask, followed: Followed | None = None
) -> JsonObject:
    """The plain result. Raises Refused for a task that failed, Crashed for one that was cancelled by the server.

    `followed` learns what the server says on the way.
    """
    legacy = isinstance(created.get("task"), dict)
    task = as_object(created["task"]) if legacy else created
    number = as_text(task.get("taskId"))
    replies: JsonObject = {}
    try:
        while task.get("status") not in _PAST:
            if task.get("status") != "input_required":
                await asyncio.sleep(_pause(task))
            elif legacy:  # it asks questions while we wait for its result
                with suppress(TimedOut):  # it works on after the answers, and is polled again
                    return await _take_result(server, task, number, send, legacy=True)
            else:
                await _answer(task, number, send, ask, replies)
            task = await _insist(send, "tasks/get", {"taskId": number})
            if followed is not None:
                followed.learn(task)
        return await _take_result(server, task, number, send, legacy=legacy)
    except asyncio.CancelledError:
        await run_uninterrupted(cancel_task(number, send))
        raise


async def _take_result(server: str, task: JsonObject, number: str, send: Send, *, legacy: bool) -> JsonObject:
    if task.get("status") == "cancelled":
        raise Crashed(server, f"Server '{server}' cancelled its task.", hint="It may have acted in part.")
    if legacy:
        body = await _insist(send, "tasks/result", {"taskId": number})
        meta = {key: value for key, value in as_object(body.get("_meta")).items() if key != RELATED}
        return {**{key: value for key, value in body.items() if key != "_meta"}, **({"_meta": meta} if meta else {})}
    if task.get("status") == "failed":
        raise Refused(server, as_object(task.get("error")) or {"code": -32603, "message": "the task failed"})
    return as_object(task.get("result"))


async def _answer(task: JsonObject, number: str, send: Send, ask: Ask, replies: JsonObject) -> None:
    """Answer what is not in `replies` yet: a server may show a question a little longer than until its answer."""
    questions = as_object(task.get("inputRequests"))
    unanswered = [key for key in questions if key not in replies]
    for key in unanswered:
        fields = as_object(questions[key])
        replies[key] = await ask(as_text(fields.get("method")), as_object(fields.get("params")))
    if unanswered:
        answers = {key: replies[key] for key in unanswered}
        await _insist(send, "tasks/update", {"taskId": number, "inputResponses": answers})
    else:
        await asyncio.sleep(_pause(task))


async def _insist(send: Send, method: str, params: JsonObject) -> JsonObject:
    """Ask about a task again if its server cannot be reached for a moment: the task continues without us, and asking
    twice does no harm. Raises the first problem if the server has forgotten the task meanwhile.
    """
    problem: WicketError | None = None
    for pause in (*_PAUSES, None):
        try:
            return await send(method, params)
        except Refused:
            if problem is None:
                raise
            raise problem from None
        except (Unavailable, Crashed, TimedOut, Overloaded) as lost:
            problem = problem or lost
            waited = isinstance(lost, TimedOut) and method == "tasks/result"
            if pause is None or waited or isinstance(lost, CannotStart):
                raise
            await asyncio.sleep(pause)
    raise AssertionError("unreachable: the last turn of the loop returns or raises")


async def cancel_task(number: str, send: Send) -> None:
    """Cancel a server's task if it can be cancelled still."""
    try:
        await send("tasks/cancel", {"taskId": number})
    except WicketError:
        return  # it will end by itself, or has ended


def _pause(task: JsonObject) -> float:
    seconds = as_seconds(task.get("pollIntervalMs", task.get("pollInterval")))
    return min(max(POLL if seconds is None else seconds, SHORTEST_POLL), LONGEST_POLL)
