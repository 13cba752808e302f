"""Groups: servers, tags and profiles as named sets of tools, which a client opens when it needs them.

A client that declares the extension gets the typed tools, prompts and resources of servers from `groups/get` only, and
not in the lists (the draft allows one place for each). Everything can be called by its name whether its group was
opened or not. A server with tags is inside the groups of its tags; all others are at the top. Called by `protocol.py`.
"""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from wicket_mcp.catalog.instructions import purpose
from wicket_mcp.catalog.names import wire_names
from wicket_mcp.catalog.view import View
from wicket_mcp.errors import RESOURCE_NOT_FOUND_LEGACY, UnknownName
from wicket_mcp.extensions import UI, app_resource, declares
from wicket_mcp.model import Caller, JsonObject, Tool, as_text
from wicket_mcp.schema.signature import first_sentence
from wicket_mcp.spelling import nearest
from wicket_mcp.surface.answers import build_page
from wicket_mcp.surface.problems import RpcProblem
from wicket_mcp.trust.policy import demand

if TYPE_CHECKING:
    from wicket_mcp.surface.protocol import Protocol, Request

MAX_NAME = 64  # characters, by the draft, which allows small letters, digits and single hyphens


class _Group(NamedTuple):
    """A group, and the server, tag or profile that it stands for."""

    kind: str
    subject: str
    listed: JsonObject
    top: bool = True
    """Whether it is in `groups/list`, and not only inside other groups."""


async def list_groups(protocol: "Protocol", request: "Request", caller: Caller, resume: JsonObject) -> JsonObject:
    demand(caller.principal, "discover", "listing groups")
    groups = _build_groups(await protocol.verbs.view(caller.principal))
    return build_page(request, "groups", [group.listed for group in groups.values() if group.top], "name")


async def get_group(protocol: "Protocol", request: "Request", caller: Caller, resume: JsonObject) -> JsonObject:
    """The tools, prompts and resources of a server or of a profile; for a tag, its servers."""
    demand(caller.principal, "discover", "looking into groups")
    name = request.text("name")
    view = await protocol.verbs.view(caller.principal)
    groups = _build_groups(view)
    if (group := groups.get(name)) is None:
        problem = UnknownName("group", name, nearest(name, groups))
        raise RpcProblem(RESOURCE_NOT_FOUND_LEGACY, str(problem), {"name": name})  # in both eras, by the draft
    if group.kind == "tag":
        members = _tags(view)[group.subject]
        inside = [other.listed for other in groups.values() if other.kind == "server" and other.subject in members]
        return {"contents": {"tools": [], "prompts": [], "resources": [], "groups": inside}}
    hosts = declares(caller.capabilities, UI)  # which have the tools with an interface in their list of tools

    def is_shown(tool: Tool) -> bool:
        return not (hosts and app_resource(tool.definition))

    if group.kind == "profile":
        profile = view.profiles[group.subject]
        servers = [server for server in view.servers if profile.shows_server(server)]
        return _contents(
            protocol, view, servers, profile.instructions, lambda tool: is_shown(tool) and profile.shows(tool)
        )
    listing = view.listings.get(group.subject)
    return _contents(protocol, view, [group.subject], listing.instructions if listing else "", is_shown)


def _build_groups(view: View) -> dict[str, _Group]:
    """All groups by name: those of servers first, then those of tags, then those of profiles."""
    groups: dict[str, _Group] = {}

    def add(kind: str, subject: str, title: str, description: str, *, top: bool = True) -> None:
        words = subject if kind == "server" else f"{kind}-{subject}"
        name = _name(words, groups)
        groups[name] = _Group(kind, subject, {"name": name, "title": title, "description": description}, top)

    for server, config in view.servers.items():
        words = purpose(config, view.listings.get(server), 200) or f"The tools of server {server}."
        add("server", server, config.title or server, words, top=not config.tags)
    for tag, servers in _tags(view).items():
        add("tag", tag, tag, f"Servers: {', '.join(servers)}.")
    for name, profile in view.profiles.items():
        servers = [server for server in view.servers if profile.shows_server(server)]
        words = first_sentence(profile.instructions) or f"A choice of the tools of: {', '.join(servers)}."
        add("profile", name, name, words)
    return groups


def _name(words: str, groups: dict[str, _Group]) -> str:
    """A name for a group that the draft allows and no other group has."""
    plain = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")[:MAX_NAME].rstrip("-") or "group"
    name, number = plain, 1
    while name in groups:
        number += 1
        name = f"{plain[: MAX_NAME - 1 - len(str(number))].rstrip('-')}-{number}"
    return name


def _contents(
    protocol: "Protocol", view: View, servers: list[str], instructions: str, shows: Callable[[Tool], bool]
) -> JsonObject:
    """The entries of these servers that a group shows, under the names that clients call and read them by."""
    addresses = protocol.verbs.addresses
    named = {(tool.server, tool.name): wire for wire, tool in view.spell(wire_names).items()}
    tools = [
        addresses.rewrite_apps({**tool.definition, "name": named[tool.server, tool.name]}, tool.server)
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


def _tags(view: View) -> dict[str, list[str]]:
    tags: dict[str, list[str]] = {}
    for name, config in view.servers.items():
        for tag in config.tags:
            tags.setdefault(tag, []).append(name)
    return tags
