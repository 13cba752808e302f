"""Tasks of servers: passed on to clients that support tasks; for other clients Wicket waits for the result.

A modern client that declares tasks gets the server's task under an id of ours (`task_ids.py`). For every other client,
and for a tool of a legacy server that is called as a task, Wicket waits for the end and returns the plain result. A
modern client that called a tool directly, and could declare tasks, gets the server's error instead.

If a call is cancelled while its server may be creating a task for it, the server gets a moment to name the task, which
is then cancelled. Otherwise it would run on, and nobody would know its id.
"""

import asyncio
from collections.abc import Callable

from msgspec.structs import replace

from wicket_mcp.calls.forward import ask
from wicket_mcp.calls.task_ids import TaskIds
from wicket_mcp.calls.task_wait import LEGACY_TTL_MS, Followed, Send, cancel_task, wait_for_task
from wicket_mcp.errors import Refused
from wicket_mcp.extensions import TASKS, declares, requires_tasks
from wicket_mcp.model import JsonObject, as_object, as_text
from wicket_mcp.request import EMPTY, Handler, Layer, Request, Result
from wicket_mcp.tasks import Tasks, run_uninterrupted

NAMING_TIME = 5.0
"""Seconds for a server to name the task of a call that was cancelled."""


def follow_tasks(ids: TaskIds, has_tasks: Callable[[str], bool]) -> Layer:
    """`has_tasks` says whether a server of this name declares tasks."""

    def layer(inner: Handler) -> Handler:
        async def handle(request: Request) -> Result:
            able = request.caller.capabilities
            returns_task = bool(able) and request.may_be_task and request.caller.resumes and declares(able, TASKS)
            keeps_task = _find_followed(request) is not None  # then the server's task outlives us
            forwarded = _augment(replace(request, declare_tasks=True) if returns_task or keeps_task else request)
            may_create = request.method == "tools/call" and (
                "task" in forwarded.params or (forwarded.declare_tasks and has_tasks(request.server))
            )
            try:
                result = await (_create(inner, forwarded) if may_create else inner(forwarded))
            except Refused as refusal:
                if not requires_tasks(refusal.error) or (request.may_be_task and request.caller.resumes):
                    raise
                forwarded = replace(forwarded, declare_tasks=True)
                result = await _create(inner, forwarded)
            body = result.body
            if body.get("resultType") != "task" and "task" not in forwarded.params:
                return result
            if returns_task and body.get("resultType") == "task":
                if (followed := _find_followed(request)) is not None:
                    followed.know(request.server, body)
                sealed = ids.seal(request.server, str(body.get("taskId")), request.caller.principal)
                return Result({**body, "taskId": sealed}, result.request)
            return Result(await _wait(inner, forwarded, body), result.request) if _is_task(body) else result

        return handle

    return layer


def resolve_task(ids: TaskIds) -> Layer:
    """Translate a task id into its server and the server's own id. Raises UnknownName."""

    def layer(inner: Handler) -> Handler:
        async def handle(request: Request) -> Result:
            server, task = ids.open(request.name, request.caller.principal)
            request.span.server, request.span.name = server, task
            params = {**request.params, "taskId": task}
            result = await inner(replace(request, server=server, params=params, declare_tasks=True))
            body = result.body
            return Result({**body, "taskId": request.name}, result.request) if "taskId" in body else result

        return handle

    return layer


def _augment(request: Request) -> Request:
    """Call a legacy server's tool as a task if it requires that, or if it allows that and the client asked for one."""
    support = as_object(request.tool.definition.get("execution")).get("taskSupport") if request.tool else None
    followed = _find_followed(request)
    if support != "required" and not (support == "optional" and followed is not None and followed.requested):
        return request
    return replace(request, params={**request.params, "task": {"ttl": LEGACY_TTL_MS}})


def _is_task(body: JsonObject) -> bool:
    return body.get("resultType") == "task" or isinstance(body.get("task"), dict)


async def _create(inner: Handler, request: Request) -> Result:
    """The answer to a call that may be a task; one that is created after the call was cancelled is cancelled too."""

    async def send() -> Result:
        return await inner(request)

    creating = Tasks()
    call = creating.start(send(), "create task", awaited=True)
    try:
        return await asyncio.shield(call)
    except asyncio.CancelledError:
        await run_uninterrupted(_cancel_created(call, inner, request))
        raise
    finally:
        await creating.close()


async def _cancel_created(call: "asyncio.Task[Result]", inner: Handler, request: Request) -> None:
    followed = _find_followed(request)
    if followed is not None and followed.abandoned:  # Wicket stops, and cancels nothing
        return
    await asyncio.wait({call}, timeout=NAMING_TIME)
    if call.done() and not call.cancelled() and call.exception() is None and _is_task(body := call.result().body):
        task = as_object(body.get("task")) or body
        await cancel_task(as_text(task.get("taskId")), _sender(inner, request))


def _find_followed(request: Request) -> Followed | None:
    return getattr(request.caller, "followed", None)  # set if the caller keeps a task


def _sender(inner: Handler, request: Request) -> Send:
    """Makes requests about the task of `request`."""
    followed = _find_followed(request)

    async def send(method: str, params: JsonObject) -> JsonObject:
        if method == "tasks/cancel" and followed is not None and followed.abandoned:
            return {}
        about = replace(
            request, method=method, params=params, tool=None, headers=None, resume=EMPTY, declare_tasks=True
        )
        return (await inner(about)).body

    return send


async def _wait(inner: Handler, request: Request, created: JsonObject) -> JsonObject:
    if (followed := _find_followed(request)) is not None:
        followed.know(request.server, created)

    async def answer(method: str, params: JsonObject) -> JsonObject:
        return await ask(request.caller, request.server, method, params)

    return await wait_for_task(request.server, created, _sender(inner, request), answer, followed)
