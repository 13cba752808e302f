"""Skills, groups and tool resolution: extensions that let a client find tools without listing everything.

skills/list, skills/get, resources/directory/read    of all servers, under addresses that name the server
groups/list, groups/get                              servers, tags and profiles, with tools typed in full
tools/resolve                                        the annotations of the tool that a call really leads to
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from wicket_mcp.catalog.instructions import purpose
from wicket_mcp.catalog.list_fields import combine
from wicket_mcp.catalog.names import wire_names
from wicket_mcp.catalog.skills import rewrite_skill
from wicket_mcp.catalog.view import View
from wicket_mcp.errors import INVALID_PARAMS, UnknownName
from wicket_mcp.model import Caller, JsonObject, Tool, as_object, as_text
from wicket_mcp.schema.signature import first_sentence
from wicket_mcp.spelling import nearest
from wicket_mcp.surface.answers import build_page
from wicket_mcp.surface.problems import RpcProblem
from wicket_mcp.trust.policy import demand

if TYPE_CHECKING:
    from wicket_mcp.surface.protocol import Protocol, Request

TAG, PROFILE = "tag:", "profile:"
"""Prefixes of the names of groups that are not servers."""

# Skills


async def list_skills(protocol: "Protocol", request: "Request", caller: Caller, resume: JsonObject) -> JsonObject:
    demand(caller.principal, "discover", "listing skills")
    verbs = protocol.verbs
    skills = [
        rewrite_skill(verbs.addresses, server, entry) for server, entry in await verbs.skills.entries(caller.principal)
    ]
    fields = combine(verbs.skills.fields(caller.principal))
    return build_page(request, "skills", skills, "uri", fields=fields)


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


# Groups


async def list_groups(protocol: "Protocol", request: "Request", caller: Caller, resume: JsonObject) -> JsonObject:
    demand(caller.principal, "discover", "listing groups")
    view = await protocol.verbs.view(caller.principal)
    groups: list[JsonObject] = []
    for name, config in view.servers.items():
        words = purpose(config, view.listings.get(name), 200) or f"The tools of server {name}."
        groups.append({"name": name, "title": config.title or name, "description": words})
    for tag, servers in _tags(view).items():
        groups.append({"name": f"{TAG}{tag}", "title": tag, "description": f"Servers: {', '.join(servers)}."})
    for name, profile in view.profiles.items():
        names = ", ".join(server for server in view.servers if profile.shows_server(server))
        words = first_sentence(profile.instructions) or f"A choice of the tools of: {names}."
        groups.append({"name": f"{PROFILE}{name}", "title": name, "description": words})
    return build_page(request, "groups", groups, "name")


async def get_group(protocol: "Protocol", request: "Request", caller: Caller, resume: JsonObject) -> JsonObject:
    """The tools, prompts and resources of a server or of a profile; for a tag, its servers."""
    demand(caller.principal, "discover", "looking into groups")
    name = request.text("name")
    view = await protocol.verbs.view(caller.principal)
    tags = _tags(view)
    if name.startswith(TAG) and (members := tags.get(name.removeprefix(TAG))) is not None:
        groups = [{"name": member} for member in members]
        return {"contents": {"tools": [], "prompts": [], "resources": [], "groups": groups}}
    if name.startswith(PROFILE) and (profile := view.profiles.get(name.removeprefix(PROFILE))) is not None:
        servers = [server for server in view.servers if profile.shows_server(server)]
        return _contents(protocol, view, servers, profile.instructions, profile.shows)
    if name not in view.servers:
        known = [*view.servers, *(f"{TAG}{tag}" for tag in tags), *(f"{PROFILE}{known}" for known in view.profiles)]
        raise UnknownName("group", name, nearest(name, known))
    listing = view.listings.get(name)
    return _contents(protocol, view, [name], listing.instructions if listing else "", lambda tool: True)


def _contents(
    protocol: "Protocol", view: View, servers: list[str], instructions: str, shows: Callable[[Tool], bool]
) -> JsonObject:
    """The entries of these servers that a group shows, under the names that clients call and read them by."""
    addresses = protocol.verbs.addresses
    named = {(tool.server, tool.name): wire for wire, tool in view.spell(wire_names).items()}
    tools = [
        _definition(protocol, named[tool.server, tool.name], tool)
        for server in servers
        for tool in view.by_server.get(server, ())
        if shows(tool)
    ]
    listings = {server: view.listings[server] for server in servers if server in view.listings}
    prompts = [
        {**entry, "name": addresses.prompt_name(server, as_text(entry.get("name")))}
        for server, listing in listings.items()
        for entry in listing.prompts
    ]
    resources = [
        {**entry, "uri": addresses.address(server, as_text(entry.get("uri")))}
        for server, listing in listings.items()
        for entry in listing.resources
    ]
    body: JsonObject = {"contents": {"tools": tools, "prompts": prompts, "resources": resources, "groups": []}}
    return {"instructions": instructions, **body} if instructions else body


def _definition(protocol: "Protocol", name: str, tool: Tool) -> JsonObject:
    return protocol.verbs.addresses.rewrite_apps({**tool.definition, "name": name}, tool.server)


def _tags(view: View) -> dict[str, list[str]]:
    tags: dict[str, list[str]] = {}
    for name, config in view.servers.items():
        for tag in config.tags:
            tags.setdefault(tag, []).append(name)
    return tags


# Tool resolution

_SCRIPT: JsonObject = {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True}
"""A script's effects are known only after it has run."""


async def resolve_tool(protocol: "Protocol", request: "Request", caller: Caller, resume: JsonObject) -> JsonObject:
    """The annotations of the tool that a call through our menu would reach."""
    demand(caller.principal, "discover", "asking about a tool")
    name, arguments = request.text("name"), as_object(request.params.get("arguments"))
    verbs, menu = protocol.verbs, protocol.menu_for(caller.principal)
    own = {tool["name"]: tool for tool in await menu.list(verbs, caller.principal)} if menu.fixed else {}
    if name == "run_script" and name in own:
        return {"annotations": _SCRIPT}
    if name == "call_tool" and name in own:
        name = as_text(arguments.get("name"))
    elif name in own:
        return {"annotations": as_object(own[name].get("annotations"))}
    tool = await verbs.resolve(name, caller.principal)
    return {"name": tool.key, "annotations": as_object(tool.definition.get("annotations"))}
