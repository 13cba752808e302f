"""How a client learns what there is: the list of tools, and the extensions that spare it the list.

tools/list                                           of the menu that the client is served
skills/list, skills/get, resources/directory/read    of all servers, under addresses that name the server
tools/resolve                                        the annotations of the tool that a call really leads to
"""

from typing import TYPE_CHECKING

from wicket_mcp.catalog.list_fields import combine
from wicket_mcp.catalog.skills import rewrite_skill
from wicket_mcp.dialects.vendor_keys import add_keys
from wicket_mcp.errors import INVALID_PARAMS, UnknownName
from wicket_mcp.extensions import GROUPS, UI, declares
from wicket_mcp.model import LATEST_LEGACY_VERSION, Caller, JsonObject, as_object, as_text
from wicket_mcp.surface import tasks_methods
from wicket_mcp.surface.answers import build_page
from wicket_mcp.surface.asked_lists import List, ask_server
from wicket_mcp.surface.problems import RpcProblem
from wicket_mcp.trust.policy import demand

if TYPE_CHECKING:
    from wicket_mcp.surface.protocol import Protocol, Request

# Tools

TOOLS_PAGE = 5000  # tools in one answer: many clients read the first page only, and would miss the rest


async def list_tools(protocol: "Protocol", request: "Request", caller: Caller, resume: JsonObject) -> JsonObject:
    verbs, menu, _, disclose, _, menus, budgets = protocol.served
    if menus:
        menu = menus.get(caller.principal.profile, menu)
    tools = await menu.list(verbs, caller.principal)
    disclose(caller, menu.name, "list", size := menu.size_of(tools))
    if budgets is not None:
        await budgets.spend(caller.principal, size)
    if menu.vendor_keys:
        tools = [add_keys(tool) for tool in tools]
    grouped = not menu.fixed and not protocol.unprefixed and declares(caller.capabilities, GROUPS)
    if grouped:
        tools = [tool for tool in tools if menu.is_own(tool["name"])]
    if declares(caller.capabilities, UI):
        from wicket_mcp.dialects import apps  # noqa: PLC0415  (few clients show interfaces)

        tools = [menu.keep_for_models(tool) for tool in tools]
        tools = [*tools, *await apps.list_tools(verbs, caller.principal, {tool["name"] for tool in tools})]
    of_servers = not menu.fixed and caller.principal.may("discover")
    fields = verbs.addresses.fields("tools", caller.principal) if of_servers else None
    if of_servers:
        tools, fields = await ask_server(protocol, request, caller, "tools", "name", List(tools, fields))
    if request.legacy_version == LATEST_LEGACY_VERSION and not protocol.unprefixed:
        tools = [tasks_methods.offer(tool) for tool in tools]
    return build_page(request, "tools", tools, "name", TOOLS_PAGE, fields=fields)


# Skills


async def list_skills(protocol: "Protocol", request: "Request", caller: Caller, resume: JsonObject) -> JsonObject:
    demand(caller.principal, "discover", "listing skills")
    verbs = protocol.verbs
    skills = [
        rewrite_skill(verbs.addresses, server, entry) for server, entry in await verbs.skills.entries(caller.principal)
    ]
    known = List(skills, combine(verbs.skills.fields(caller.principal)))
    entries, fields = await ask_server(protocol, request, caller, "skills", "uri", known)
    return build_page(request, "skills", entries, "uri", fields=fields)


async def get_skill(protocol: "Protocol", request: "Request", caller: Caller, resume: JsonObject) -> JsonObject:
    verbs, uri = protocol.verbs, request.text("uri")
    demand(caller.principal, "discover", "reading about skills")
    for server, entry in await verbs.skills.entries(caller.principal):
        skill = rewrite_skill(verbs.addresses, server, entry)
        if skill["uri"] == uri:
            return {"skill": skill}
    try:  # a server may have skills that it does not list
        return await verbs.get_skill(uri, caller, request.meta)
    except UnknownName:
        raise RpcProblem(INVALID_PARAMS, f"No skill has the address {uri[:200]}.", {"uri": uri}) from None


async def read_directory(protocol: "Protocol", request: "Request", caller: Caller, resume: JsonObject) -> JsonObject:
    uri = request.text("uri")
    params = {key: value for key, value in request.params.items() if key not in ("uri", "_meta")}
    return await protocol.verbs.fetch("resources/directory/read", uri, params, caller, request.meta, resume)


# Tool resolution

_SCRIPT: JsonObject = {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True}
"""A script's effects are known only after it has run."""


async def resolve_tool(protocol: "Protocol", request: "Request", caller: Caller, resume: JsonObject) -> JsonObject:
    """The annotations of the tool that a call through our menu would reach."""
    demand(caller.principal, "discover", "asking about a tool")
    name, arguments = request.text("name"), as_object(request.params.get("arguments"))
    verbs, menu = protocol.verbs, protocol.menu_for(caller.principal)
    own = {tool["name"]: tool for tool in await menu.list_own(verbs, caller.principal)}
    if name == "run_script" and name in own:
        return {"annotations": _SCRIPT}
    if name == "call_tool" and name in own:
        name = as_text(arguments.get("name"))
    elif name in own:
        return {"annotations": as_object(own[name].get("annotations"))}
    tool = await verbs.resolve(name, caller.principal)
    return {"name": tool.key, "annotations": as_object(tool.definition.get("annotations"))}
