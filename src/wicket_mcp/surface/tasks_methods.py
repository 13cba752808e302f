"""The methods of tasks for clients of both eras, over the tasks of servers and those that Wicket keeps itself.

    modern  tools/call answers with a task; tasks/get, tasks/update, tasks/cancel; listening by taskIds
    legacy  tools/call with `task`; tasks/get, tasks/result, tasks/cancel, tasks/list; status notifications

A modern client that declares tasks gets one of Wicket's for a call that is not answered within `promote_after`, unless
it wants progress notifications, which only a running call can send.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from wicket_mcp.calls.task_wait import Followed, Send, cancel_task, wait_for_task
from wicket_mcp.errors import (
    INVALID_PARAMS,
    MISSING_CLIENT_CAPABILITY,
    Crashed,
    Overloaded,
    Refused,
    TimedOut,
    Unavailable,
    UnknownName,
    WicketError,
)
from wicket_mcp.extensions import TASKS, UI, declares
from wicket_mcp.model import META_SUBSCRIPTION, Caller, JsonObject, Principal, as_list, as_object, as_seconds, as_text
from wicket_mcp.surface.answers import build_page
from wicket_mcp.surface.caller import RequestCaller
from wicket_mcp.surface.local_tasks import POLL_MS, LocalTask, TaskCaller
from wicket_mcp.surface.problems import RpcProblem
from wicket_mcp.tasks import Tasks, run_uninterrupted

if TYPE_CHECKING:
    from wicket_mcp.surface.protocol import Protocol, Request

LIST_PAGE = 50  # tasks in one answer
MAX_STATUS = 1000  # characters of an error's text in a task's status
RELATED = "io.modelcontextprotocol/related-task"
ENDED = ("completed", "failed", "cancelled")
LEGACY_CAPABILITY: JsonObject = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}

Begin = Callable[["Request"], Coroutine[Any, Any, JsonObject]]


# Making tasks


async def call_modern(protocol: "Protocol", request: "Request", begin: Begin) -> JsonObject:
    """A call of a modern client that supports tasks: its result if that comes soon, else a task."""
    followed = Followed()
    if isinstance(request.caller, RequestCaller):
        request = replace(request, caller=replace(request.caller, followed=followed))
    starting = Tasks()
    first = starting.start(begin(request), "call", awaited=True)

    async def wait(timeout: float | None) -> bool:
        """Whether the call has ended within this time. A client that leaves meanwhile cancels it."""
        try:
            return bool((await asyncio.wait({first}, timeout=timeout))[0])
        except asyncio.CancelledError:
            await starting.close()
            await run_uninterrupted(_cancel_followed(protocol, request, followed))
            raise

    if await wait(protocol.tasks.promote_after):
        return first.result()

    async def work(task: LocalTask) -> JsonObject:
        try:
            try:
                body = await first
            except asyncio.CancelledError:
                await run_uninterrupted(_cancel_followed(protocol, request, followed))
                raise
            while body.get("resultType") == "input_required":
                replies = await _ask_each(task, as_object(body.get("inputRequests")))
                params = {**request.params, "inputResponses": replies}
                if "requestState" in body:
                    params["requestState"] = body["requestState"]
                body = await begin(request.repeat(params))
            if body.get("resultType") != "task":
                return body
            send = _sender(protocol, request, followed)
            return _for_client(protocol, request.caller, await wait_for_task("", body, send, task.ask, followed))
        finally:
            await starting.close()

    try:
        task = await protocol.tasks.start(request.caller.principal, work, followed=followed)
    except Overloaded:  # the call may have had effects by now: it goes on, and its client waits for it
        await wait(None)
        return first.result()
    return {"resultType": "task", **_modern(protocol, task)}


async def _cancel_followed(protocol: "Protocol", request: "Request", followed: Followed) -> None:
    """Cancel the server's task of a call that was cancelled before its answer, which names the task, was given."""
    if followed.server:
        number = _seal(protocol, followed, request.caller.principal)
        await cancel_task(number, _sender(protocol, request, followed))


def _seal(protocol: "Protocol", followed: Followed, principal: Principal) -> str:
    """Our id of a server's task."""
    fields = as_object(followed.created.get("task")) or followed.created
    return protocol.verbs.task_ids.seal(followed.server, as_text(fields.get("taskId")), principal)


def _sender(protocol: "Protocol", request: "Request", followed: Followed) -> Send:
    """Makes requests about a server's task, by our id, for the client of `request`."""

    async def send(method: str, params: JsonObject) -> JsonObject:
        if method == "tasks/cancel" and followed.abandoned:
            return {}
        return await protocol.verbs.follow(method, params, request.caller, unmetered=True)

    return send


async def call_legacy(
    protocol: "Protocol", request: "Request", call: Callable[[Caller], Awaitable[JsonObject]]
) -> JsonObject:
    """A call that a legacy client makes as a task."""
    ttl = as_seconds(as_object(request.params.get("task")).get("ttl"))

    def tell(method: str, params: JsonObject) -> None:
        if request.client is not None:
            request.client.push({"jsonrpc": "2.0", "method": method, "params": params})

    async def work(task: LocalTask) -> JsonObject:
        task.followed.requested = True
        related: JsonObject = {RELATED: {"taskId": protocol.verbs.task_ids.seal("", task.id, task.principal)}}

        def pass_on(method: str, params: JsonObject) -> None:
            tell(method, {**params, "_meta": {**as_object(params.get("_meta")), **related}})

        return await call(TaskCaller(request.caller, task, pass_on))

    task = await protocol.tasks.start(request.caller.principal, work, ttl)
    task.on_change.append(lambda: tell("notifications/tasks/status", _legacy(protocol, task)))
    return {"task": _legacy(protocol, task)}


def offer(tool: JsonObject) -> JsonObject:
    """A tool in a legacy client's list. Wicket makes a task of any call, and waits for servers that insist on one."""
    return {**tool, "execution": {**as_object(tool.get("execution")), "taskSupport": "optional"}}


async def _ask_each(task: LocalTask, questions: JsonObject) -> JsonObject:
    replies = await asyncio.gather(
        *(
            task.ask(as_text(as_object(question).get("method")), as_object(as_object(question).get("params")))
            for question in questions.values()
        )
    )
    return dict(zip(questions, replies, strict=True))


# Following tasks


async def get(protocol: "Protocol", request: "Request", caller: Caller, resume: JsonObject) -> JsonObject:
    task = await _find(protocol, request, caller)
    if task is None:
        body = await _of_server(protocol, request, caller)
        return body if request.modern else _as_legacy(body)
    return _task_detail(protocol, task) if request.modern else _legacy(protocol, task)


async def update(protocol: "Protocol", request: "Request", caller: Caller, resume: JsonObject) -> JsonObject:
    task = await _find(protocol, request, caller)
    if task is None:
        return await _of_server(protocol, request, caller)
    for key, reply in as_object(request.params.get("inputResponses")).items():
        task.answer(key, as_object(reply))
    return {}


async def cancel(protocol: "Protocol", request: "Request", caller: Caller, resume: JsonObject) -> JsonObject:
    task = await _find(protocol, request, caller)
    if request.modern:
        if task is None:
            return await _of_server(protocol, request, caller)
        protocol.tasks.cancel(task)
        return {}
    looking = replace(request, method="tasks/get")
    status = task.status if task is not None else (await _of_server(protocol, looking, caller)).get("status")
    if status in ENDED:
        raise RpcProblem(INVALID_PARAMS, f"The task has ended already: {status}.")
    if task is not None:
        protocol.tasks.cancel(task)
        return _legacy(protocol, task)
    await _of_server(protocol, request, caller)
    return _as_legacy(await _of_server(protocol, looking, caller))


async def result(protocol: "Protocol", request: "Request", caller: Caller, resume: JsonObject) -> JsonObject:
    """Legacy: wait for the result; the task's questions on the way go to this client."""
    related: JsonObject = {RELATED: {"taskId": request.text("taskId")}}
    while (task := await _find(protocol, request, caller)) is None:
        try:
            return await _result_elsewhere(protocol, request, caller, related)
        except Unavailable:
            if protocol.verbs.task_ids.open(request.text("taskId"), caller.principal)[0]:
                raise  # a server's task
            await asyncio.sleep(POLL_MS / 1000)  # its gateway may be gone: then it is ours to say how it ended
    while not task.ended:
        for key, question in list(task.questions.items()):
            meta = {**as_object(question.params.get("_meta")), **related}
            task.answer(key, await caller.ask(question.method, {**question.params, "_meta": meta}))
        if not task.ended and not task.questions:
            await task.wait()
    return _outcome(task.error, task.result, related)


async def _result_elsewhere(
    protocol: "Protocol", request: "Request", caller: Caller, related: JsonObject
) -> JsonObject:
    """Like `result`, for a task that another gateway keeps, which is polled."""
    while True:
        state = await _of_server(protocol, request, caller)
        if state.get("status") in ENDED:
            return _outcome(state.get("error"), state.get("result"), related)
        for key, question in as_object(state.get("inputRequests")).items():
            params = as_object(question.get("params"))
            meta = {**as_object(params.get("_meta")), **related}
            replies = {key: await caller.ask(as_text(question.get("method")), {**params, "_meta": meta})}
            answered = {"taskId": request.text("taskId"), "inputResponses": replies}
            await _of_server(protocol, replace(request, method="tasks/update", params=answered), caller)
        await asyncio.sleep(POLL_MS / 1000)


def _outcome(error: JsonObject | None, result: JsonObject | None, related: JsonObject) -> JsonObject:
    if error is not None:
        raise Refused("", error)
    if result is None:
        raise RpcProblem(INVALID_PARAMS, "The task was cancelled: it has no result.")
    return {**result, "_meta": {**as_object(result.get("_meta")), **related}}


async def list_tasks(protocol: "Protocol", request: "Request", caller: Caller, resume: JsonObject) -> JsonObject:
    """Legacy: the principal's tasks, oldest first; with other gateways, theirs too."""
    elsewhere = await protocol.tasks.recall(caller.principal)
    own = protocol.tasks.of(caller.principal)
    for task in own:
        if task.work is None and not task.ended:
            _take_up(protocol, caller, task)
    others = await asyncio.gather(*(_seen_elsewhere(protocol, request, caller, number) for number in elsewhere))
    entries = [*(_legacy(protocol, task) for task in own), *filter(None, others)]
    entries.sort(key=lambda entry: as_text(entry.get("createdAt")))
    return build_page(request, "tasks", entries, "taskId", LIST_PAGE)


async def _seen_elsewhere(protocol: "Protocol", request: "Request", caller: Caller, number: str) -> JsonObject | None:
    """A task that another gateway keeps; as the store has it if that gateway does not answer."""
    about: JsonObject = {"taskId": protocol.verbs.task_ids.seal("", number, caller.principal)}
    try:
        return _as_legacy(await _of_server(protocol, request.repeat(about), caller, unmetered=True))
    except Unavailable:
        stored = await protocol.tasks.read(number, caller.principal)
        return None if stored is None else _legacy(protocol, stored)
    except (RpcProblem, Refused):
        return None  # its time is over


async def listen(protocol: "Protocol", request: "Request", caller: Caller, ids: list[str]) -> None:
    """Notify a modern client of every change of these tasks, until it is cancelled."""
    meta: JsonObject = {META_SUBSCRIPTION: request.id}

    def tell(state: JsonObject) -> None:
        caller.notify("notifications/tasks", {**state, "_meta": {**as_object(state.get("_meta")), **meta}})

    watching = Tasks()
    try:
        for number in ids:
            watching.start(_watch(protocol, request, caller, number, tell), "watch task")
        await watching.wait()
    finally:
        await watching.close()


async def _watch(
    protocol: "Protocol", request: "Request", caller: Caller, number: str, tell: Callable[[JsonObject], None]
) -> None:
    """Report one task until it has ended: a local one when it changes, a server's one when polling shows a change.

    Nothing is reported of a task that is unknown or whose time is over.
    """
    about = request.repeat({"taskId": number})
    known: tuple[Any, ...] = ()
    while True:
        try:
            task = await _find(protocol, about, caller)
            state = _task_detail(protocol, task) if task is not None else await _poll(protocol, about, caller)
        except (Unavailable, Crashed, TimedOut, Overloaded):  # the task continues without us
            await asyncio.sleep(POLL_MS / 1000)
            continue
        except (RpcProblem, WicketError):
            return
        seen = (state.get("status"), state.get("statusMessage"), sorted(as_object(state.get("inputRequests"))))
        if seen != known:
            known = seen
            tell({key: value for key, value in state.items() if key != "resultType"})
        if state.get("status") in ENDED:
            return
        if task is not None:
            await task.wait()
        else:
            interval = as_seconds(state.get("pollIntervalMs"))
            await asyncio.sleep(max(POLL_MS / 1000 if interval is None else interval, 0.05))


async def _find(protocol: "Protocol", request: "Request", caller: Caller) -> LocalTask | None:
    """Our task that a request names; None for a server's task, or another gateway's. Raises RpcProblem."""
    if request.modern and not declares(caller.capabilities, TASKS):
        required: JsonObject = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
        raise RpcProblem(MISSING_CLIENT_CAPABILITY, f"{request.method} needs the extension {TASKS}.", required)
    try:
        server, number = protocol.verbs.task_ids.open(request.text("taskId"), caller.principal)
    except UnknownName:
        raise _unknown() from None
    elsewhere = protocol.tasks.elsewhere
    if server or (elsewhere is not None and await elsewhere.has(request.text("taskId"))):
        return None
    task = await protocol.tasks.find(number, caller.principal)
    if task is None:
        raise _unknown()
    if task.work is None and not task.ended:
        _take_up(protocol, caller, task)
    return task


def _take_up(protocol: "Protocol", caller: Caller, task: LocalTask) -> None:
    """Continue a task from before a restart by following the server's task that it stands for."""
    followed = task.followed
    if not followed.server:
        lost = "Wicket was restarted while this task ran; it may have acted in part."
        protocol.tasks.fail(task, Crashed("wicket", lost, hint="Check what was done, then call again."))
        return
    sealed = _seal(protocol, followed, task.principal)
    behalf = TaskCaller(caller, task)

    async def send(method: str, params: JsonObject) -> JsonObject:
        if method == "tasks/cancel" and followed.abandoned:
            return {}
        return await protocol.verbs.follow(method, {**params, "taskId": sealed}, behalf, unmetered=True)

    async def work(task: LocalTask) -> JsonObject:
        body = await wait_for_task(followed.server, followed.created, send, task.ask, followed)
        return _for_client(protocol, behalf, body)

    protocol.tasks.resume(task, work)


async def _poll(protocol: "Protocol", request: "Request", caller: Caller) -> JsonObject:
    """A server's task, asked for by Wicket itself."""
    return await _of_server(protocol, request, caller, unmetered=True)


async def _of_server(
    protocol: "Protocol", request: "Request", caller: Caller, *, unmetered: bool = False
) -> JsonObject:
    """What a server says about its task, or another gateway of the cluster about its own."""
    method = request.method if request.method in ("tasks/update", "tasks/cancel") else "tasks/get"
    try:
        server, _ = protocol.verbs.task_ids.open(request.text("taskId"), caller.principal)
        if not server and protocol.tasks.elsewhere is not None:
            return await protocol.tasks.elsewhere.ask(method, request.params, caller.principal)
        body = await protocol.verbs.follow(method, request.params, caller, request.meta, unmetered=unmetered)
    except UnknownName:
        raise _unknown() from None
    if isinstance(body.get("result"), dict):
        body = {**body, "result": {"resultType": "complete", **_for_client(protocol, caller, body["result"])}}
    return body


def _for_client(protocol: "Protocol", caller: Caller, result: JsonObject) -> JsonObject:
    """The result of a server's task as a call's would be given to this client."""
    if not declares(caller.capabilities, UI):
        return result
    from wicket_mcp.surface import app_pages  # noqa: PLC0415  (few clients show interfaces)

    return app_pages.confine_result(protocol.verbs, caller, result)


def _unknown() -> RpcProblem:
    return RpcProblem(INVALID_PARAMS, "This task is unknown, or its time is over.")


# The formats of each era


def _modern(protocol: "Protocol", task: LocalTask) -> JsonObject:
    return {
        **task.followed.passed_fields(),
        "taskId": protocol.verbs.task_ids.seal("", task.id, task.principal),
        "status": task.status,
        "createdAt": _time(task.created_at),
        "lastUpdatedAt": _time(task.updated_at),
        "ttlMs": int(task.ttl * 1000),
        "pollIntervalMs": POLL_MS,
    }


def _task_detail(protocol: "Protocol", task: LocalTask) -> JsonObject:
    body = _modern(protocol, task)
    if task.status == "completed":
        body["result"] = {"resultType": "complete", **as_object(task.result)}
    elif task.status == "failed":
        body |= {"error": task.error, "statusMessage": as_text(as_object(task.error).get("message"))}
    elif task.questions:
        requests = {
            key: {"method": question.method, "params": question.params} for key, question in task.questions.items()
        }
        body |= {"status": "input_required", "inputRequests": requests}
    return body


def _legacy(protocol: "Protocol", task: LocalTask) -> JsonObject:
    return _as_legacy(_task_detail(protocol, task))


def _as_legacy(task: JsonObject) -> JsonObject:
    """A modern task in the legacy format. There, a task whose result is an error has failed."""
    renamed = {"ttlMs": "ttl", "pollIntervalMs": "pollInterval"}
    left_out = ("result", "error", "inputRequests", "resultType")
    fields = {renamed.get(key, key): value for key, value in task.items() if key not in left_out}
    result = as_object(task.get("result"))
    if result.get("isError") is True:
        texts = [as_text(as_object(block).get("text")) for block in as_list(result.get("content"))]
        fields |= {"status": "failed", "statusMessage": "\n".join(filter(None, texts))[:MAX_STATUS]}
    return fields


def _time(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def wants_task(request: "Request") -> bool:
    """Whether a call of a modern client may be answered with a task of ours."""
    return declares(request.caller.capabilities, TASKS) and request.meta.get("progressToken") is None


def task_ids(params: JsonObject) -> list[str]:
    """The tasks that a client subscribes to, each once."""
    return list(dict.fromkeys(map(as_text, as_list(as_object(params.get("notifications")).get("taskIds")))))
