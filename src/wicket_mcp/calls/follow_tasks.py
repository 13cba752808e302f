"""Tasks of servers: passed on to clients that support tasks; for other clients Wicket waits for the result.

A client that declares tasks gets the server's task under an id of ours (`task_ids.py`). For every other client, and for
a tool of a legacy server that can only be called as a task, Wicket waits for the end and returns the plain result. A
modern client that called a tool directly, and could declare tasks, gets the server's error instead.
"""

from msgspec.structs import replace

from wicket_mcp.calls.forward import ask
from wicket_mcp.calls.task_ids import TaskIds
from wicket_mcp.calls.task_wait import LEGACY_TTL_MS, Followed, wait_for_task
from wicket_mcp.errors import Refused
from wicket_mcp.extensions import TASKS, declares, requires_tasks
from wicket_mcp.model import JsonObject, as_object
from wicket_mcp.request import EMPTY, Handler, Layer, Request, Result


def follow_tasks(ids: TaskIds) -> Layer:
    def layer(inner: Handler) -> Handler:
        async def handle(request: Request) -> Result:
            able = request.caller.capabilities
            returns_task = bool(able) and request.may_be_task and declares(able, TASKS)
            keeps_task = getattr(request.caller, "followed", None) is not None  # then the server's task outlives us
            forwarded = _augment(replace(request, declare_tasks=True) if returns_task or keeps_task else request)
            try:
                result = await inner(forwarded)
            except Refused as refusal:
                if not requires_tasks(refusal.error) or (request.may_be_task and request.caller.resumes):
                    raise
                forwarded = replace(forwarded, declare_tasks=True)
                result = await inner(forwarded)
            body = result.body
            if body.get("resultType") != "task" and "task" not in forwarded.params:
                return result
            if returns_task and body.get("resultType") == "task":
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
    """Call a legacy server's tool as a task if it requires that."""
    tool = request.tool
    if tool is None or as_object(tool.definition.get("execution")).get("taskSupport") != "required":
        return request
    return replace(request, params={**request.params, "task": {"ttl": LEGACY_TTL_MS}})


def _is_task(body: JsonObject) -> bool:
    return body.get("resultType") == "task" or isinstance(body.get("task"), dict)


async def _wait(inner: Handler, request: Request, created: JsonObject) -> JsonObject:
    followed: Followed | None = getattr(request.caller, "followed", None)  # set if the caller keeps a task
    if followed is not None:
        followed.know(request.server, created)

    async def send(method: str, params: JsonObject) -> JsonObject:
        if method == "tasks/cancel" and followed is not None and followed.abandoned:
            return {}
        about = replace(
            request, method=method, params=params, tool=None, headers=None, resume=EMPTY, declare_tasks=True
        )
        return (await inner(about)).body

    async def answer(method: str, params: JsonObject) -> JsonObject:
        return await ask(request.caller, request.server, method, params)

    return await wait_for_task(request.server, created, send, answer)
