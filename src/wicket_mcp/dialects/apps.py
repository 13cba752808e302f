"""Tools with an interface (MCP Apps), listed beside the menu for clients that declare the extension.

A tool that is called by way of `call_tool` cannot open its interface: the host must see the tool itself. Its interface
then calls tools of its own server by the names that the server gave them, through the host; the request names the
server of the interface (`surface/app_methods.py`). Clients without the extension can neither see nor call these tools.
"""

from collections.abc import Collection
from typing import Any

from wicket_mcp.catalog.names import bare_names, wire_names
from wicket_mcp.catalog.view import View
from wicket_mcp.dialects.base import ToolCall, failure
from wicket_mcp.errors import Refused, WicketError
from wicket_mcp.extensions import app_resource, is_for_apps_only
from wicket_mcp.model import JsonObject, Principal, Tool, as_object
from wicket_mcp.verbs import Verbs


async def list_tools(verbs: Verbs, principal: Principal, listed: Collection[str]) -> list[JsonObject]:
    """The tools that a host needs to see, without those of the menu."""
    if not principal.may("discover"):
        return []
    return [
        verbs.addresses.rewrite_apps({**tool.definition, "name": name}, tool.server)
        for name, tool in names(verbs, await verbs.view(principal)).items()
        if name not in listed and (app_resource(tool.definition) or is_for_apps_only(tool.definition))
    ]


async def call(verbs: Verbs, name: str, call: ToolCall) -> JsonObject | None:
    """The result of a tool of a server with an interface; None if there is no such tool."""
    view = await verbs.view(call.caller.principal)
    tool = names(verbs, view).get(name)
    return None if tool is None else await _call(verbs, tool, call)


async def call_own(verbs: Verbs, server: str, name: str, call: ToolCall) -> JsonObject | None:
    """The result of a tool that a server's interface calls, by the server's name or by the name in our list; None if
    the server has no such tool.
    """
    view = await verbs.view(call.caller.principal, [server])
    listed = names(verbs, view).get(name)
    for tool in view.app_tools:
        if tool.server == server and _is_for_apps(tool) and (name in (tool.name, tool.key) or tool == listed):
            return await _call(verbs, tool, call)
    return None


async def _call(verbs: Verbs, tool: Tool, call: ToolCall) -> JsonObject:
    try:
        return (await verbs.call(call.request(tool, call.arguments, whole=True, may_be_task=True))).body
    except Refused:
        raise  # the upstream's own JSON-RPC error, passed on as one
    except WicketError as problem:
        return failure(problem)


def names(verbs: Verbs, view: View) -> dict[str, Tool]:
    """The app tools under their names in the flat list, so that a tool never has two names."""
    naming = bare_names if verbs.addresses.unprefixed else wire_names
    known = {(tool.server, tool.name): name for name, tool in view.spell(naming).items()} if view.app_tools else {}
    named = {known.get((tool.server, tool.name), ""): tool for tool in view.app_tools}
    named.pop("", None)
    only_for_apps = [tool for tool in view.app_tools if is_for_apps_only(tool.definition)]
    return {**naming(only_for_apps), **named}


def _is_for_apps(tool: Tool) -> bool:
    visibility: Any = as_object(as_object(tool.definition.get("_meta")).get("ui")).get("visibility")
    return not isinstance(visibility, list) or "app" in visibility
