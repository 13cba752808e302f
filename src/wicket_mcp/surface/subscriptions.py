"""`subscriptions/listen`: a modern client's stream of changes to lists, resources and tasks.

Acknowledged once everything is watched, so that no later change is missed; then open until the client disconnects or we
shut down. Called by `protocol.py`; knows no transport.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING

from wicket_mcp.budget import MAX_WATCHED
from wicket_mcp.errors import INVALID_PARAMS
from wicket_mcp.extensions import GROUPS, TASKS, declares
from wicket_mcp.model import META_SUBSCRIPTION, Caller, JsonObject, ListKind, as_list, as_object, as_text
from wicket_mcp.surface import tasks_methods
from wicket_mcp.surface.feed import Changes
from wicket_mcp.surface.problems import RpcProblem
from wicket_mcp.tasks import Tasks

if TYPE_CHECKING:
    from wicket_mcp.surface.protocol import Protocol, Request

_FLAGS: Mapping[ListKind, str] = {
    "tools": "toolsListChanged",
    "resources": "resourcesListChanged",
    "prompts": "promptsListChanged",
    "groups": "groupsListChanged",
}


async def listen(protocol: "Protocol", request: "Request", caller: Caller, resume: JsonObject) -> JsonObject:
    honoured = _honour(protocol, request, caller)
    meta: JsonObject = {META_SUBSCRIPTION: request.id}
    # Changes from before the acknowledgment: they are sent after it.
    early: list[tuple[str, JsonObject]] | None = []

    def on_changed(changes: Changes) -> None:
        for kind, fields in protocol.changed_lists(changes, caller.principal).items():
            if _FLAGS[kind] in honoured:
                tagged = {**as_object(fields.get("_meta")), **meta}
                caller.notify(f"notifications/{kind}/list_changed", {**fields, "_meta": tagged})
        if (news := protocol.announcement(changes, caller)) is not None:
            method, params = news
            caller.notify(method, {**params, "_meta": {**as_object(params.get("_meta")), **meta}})

    def on_updated(uri: str, notice: JsonObject) -> None:
        if early is not None:
            early.append((uri, notice))
            return
        tagged = {**as_object(notice.get("_meta")), **meta}
        caller.notify("notifications/resources/updated", {**notice, "uri": uri, "_meta": tagged})

    with ExitStack() as undo:  # also undoes the first watches if a later address is wrong
        for uri in honoured.get("resourceSubscriptions", ()):
            undo.callback(await protocol.verbs.watch(uri, caller, on_updated))
        caller.notify("notifications/subscriptions/acknowledged", {"notifications": honoured, "_meta": meta})
        undo.callback(protocol.feed.subscribe(on_changed))
        before, early = early, None
        for uri, notice in before:
            on_updated(uri, notice)
        await _follow_tasks(protocol, request, caller, honoured.get("taskIds", []))
    return {"_meta": meta}


def _honour(protocol: "Protocol", request: "Request", caller: Caller) -> JsonObject:
    """The parts of a client's subscription that we support. Raises RpcProblem."""
    if not isinstance(request.params.get("notifications"), dict):
        raise RpcProblem(INVALID_PARAMS, "subscriptions/listen needs 'notifications' (object).")
    requested = as_object(request.params["notifications"])
    honoured: JsonObject = {
        flag: True
        for kind, flag in _FLAGS.items()
        if requested.get(flag) is True
        and not (kind == "tools" and protocol.settled)
        and not (kind == "groups" and not declares(caller.capabilities, GROUPS))
    }
    uris = [as_text(uri) for uri in as_list(requested.get("resourceSubscriptions"))]
    if len(uris) > MAX_WATCHED:
        raise RpcProblem(INVALID_PARAMS, f"A client may watch {MAX_WATCHED} resources at most.")
    if uris:
        honoured["resourceSubscriptions"] = uris
    followed = tasks_methods.task_ids(request.params) if declares(caller.capabilities, TASKS) else []
    if len(followed) > MAX_WATCHED:
        raise RpcProblem(INVALID_PARAMS, f"A client may follow {MAX_WATCHED} tasks at most.")
    return {**honoured, "taskIds": followed} if followed else honoured


async def _follow_tasks(protocol: "Protocol", request: "Request", caller: Caller, ids: list[str]) -> None:
    """Report changes of these tasks until we shut down."""
    following = Tasks()
    if ids:
        following.start(tasks_methods.listen(protocol, request, caller, ids), "follow tasks")
    try:
        await protocol.closing.wait()
    finally:
        await following.close()
