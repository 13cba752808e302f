"""The reflective vocabulary: search all servers, invoke any tool, and the user's favourites as tools of their own.

A favourite has the upstream's real schema and the user's own name, title and description. Dotted names
(`broker.search`) are always accepted, and shown if the configuration says so.
"""

import asyncio
import logging
import re
from collections.abc import Collection, Sequence

from wicket_mcp.catalog.view import View
from wicket_mcp.config.read.favourites import Favourite
from wicket_mcp.dialects.base import DialectTool, Table, ToolCall, answer, failure, own_tool, takes
from wicket_mcp.errors import Refused, UnknownName, WicketError
from wicket_mcp.model import JsonObject, Principal, Tool
from wicket_mcp.schema.descriptions import first_sentence
from wicket_mcp.trust.policy import demand
from wicket_mcp.verbs import Verbs

log = logging.getLogger(__name__)

MOST_HITS = 50
_NOT_WIRE = re.compile(r"[^A-Za-z0-9_-]")
_STRING: JsonObject = {"type": "string"}


class ToolNotFound(UnknownName):
    """No such tool, in this vocabulary's words."""

    def __init__(self, name: str, near: Sequence[str] = (), hint: str = "") -> None:
        super().__init__("tool", name, near)
        self.message = f"Tool not found: {name}."
        self.hint = hint or "Use broker.search to discover tools or broker.invoke to call by name."


class ServerNotFound(UnknownName):
    """No such server, in this vocabulary's words."""

    def __init__(self, name: str, near: Sequence[str] = (), hint: str = "") -> None:
        super().__init__("server", name, near)
        self.message, self.hint = f"Server not found: {name}", hint


class Broker:
    """See the module's docstring."""

    name = "broker"
    fixed = False

    def __init__(self, favourites: Sequence[Favourite] = (), *, dotted: bool = False) -> None:
        rows = DialectTool(_SEARCH, self.search, ("discover",)), DialectTool(_INVOKE, self.invoke, ("invoke",))
        self._table = Table("broker", rows)
        self._dotted = dotted
        self._favourites = {_safe(favourite.name): favourite for favourite in favourites}

    async def list(self, verbs: Verbs, principal: Principal) -> list[JsonObject]:
        favourites = self._favourites if principal.may("discover") else {}
        view = await verbs.view(principal, {favourite.server for favourite in favourites.values()})
        pinned = [
            _favourite_tool(name, entry, view.find(entry.server, entry.tool)) for name, entry in favourites.items()
        ]
        listed = [*await self._table.list(verbs, principal), *pinned]
        if self._dotted:
            named = {_safe(entry.name): entry.name for entry in self._favourites.values()}
            named |= {"broker_search": "broker.search", "broker_invoke": "broker.invoke"}
            listed += [{**tool, "name": dotted} for tool in listed if (dotted := named[tool["name"]]) != tool["name"]]
        return listed

    async def call(self, verbs: Verbs, name: str, call: ToolCall) -> JsonObject | None:
        safe = _safe(name)
        if (result := await self._table.call(verbs, safe, call)) is not None:
            return result
        demand(call.caller.principal, "invoke", "calling tools")
        favourite = self._favourites.get(safe)
        if favourite is None:
            raise ToolNotFound(name, hint=(await verbs.current_view(call.caller.principal)).hint())
        try:
            tool = call.tool_of(self.name) or favourite.tool
            return await _invoke(verbs, favourite.server, tool, call, call.arguments)
        except Refused:
            raise  # the upstream's own JSON-RPC error, passed on as one
        except WicketError as problem:
            return failure(problem)

    async def find(self, verbs: Verbs, name: str, principal: Principal) -> Tool | None:
        favourite = self._favourites.get(_safe(name))
        if favourite is None:
            return None
        return (await verbs.view(principal, [favourite.server])).find(favourite.server, favourite.tool)

    async def search(self, verbs: Verbs, call: ToolCall) -> JsonObject:
        query = call.arguments.get("q", "").strip()
        principal = call.caller.principal
        known, unknown = _select_servers(await verbs.current_view(principal), call.arguments.get("servers"))
        if unknown and not known:
            raise ServerNotFound(unknown[0])
        favourites = [favourite for favourite in self._favourites.values() if favourite.server in known]
        entries = [
            _favourite_entry(favourite)
            for favourite in favourites
            if _contains(query, favourite.name, favourite.title, favourite.description)
        ]
        tools = await _matching(verbs, query, known, principal)
        favourite_keys = {(favourite.server, favourite.tool) for favourite in favourites}
        others = [tool for tool in tools if (tool.server, tool.name) not in favourite_keys]
        entries += await asyncio.to_thread(lambda: [_entry(tool) for tool in others])
        problems = [f"Server not found: {name}" for name in unknown]
        for server, problem in (await verbs.current_view(principal)).failures.items():
            if server in known:
                words = f"Failed to list tools from {server}: {problem.splitlines()[0]}"
                log.warning("[broker.search] %s", words)
                problems.append(words)
        result = answer(entries, {"tools": entries})
        result["content"] += [{"type": "text", "text": problem} for problem in problems]
        return result

    async def invoke(self, verbs: Verbs, call: ToolCall) -> JsonObject:
        arguments = call.arguments
        return await _invoke(verbs, arguments["server"], arguments["tool"], call, arguments.get("args"))


async def _invoke(verbs: Verbs, server: str, tool: Tool | str, call: ToolCall, arguments: object) -> JsonObject:
    if isinstance(tool, Tool):
        return (await verbs.call(call.request(tool, arguments))).body
    view = await verbs.current_view(call.caller.principal)
    try:
        name = view.server(server).name
    except UnknownName as problem:
        missing = ServerNotFound(server, problem.near, view.hint())
        missing.rule = problem.rule
        raise missing from None
    key = f"{name}.{tool.removeprefix(f'{name}.')}"
    try:
        return (await verbs.call(call.request(key, arguments))).body
    except UnknownName as problem:
        raise ToolNotFound(tool, problem.near, view.hint()) from None


async def _matching(verbs: Verbs, query: str, servers: Collection[str], principal: Principal) -> list[Tool]:
    """The tools of `servers`, in their order; with a query, those that match it, the best of a server first."""
    view = await verbs.view(principal, servers)
    every = [tool for server in servers for tool in view.by_server.get(server, ())]
    if not query:
        return every
    only = servers if len(servers) < len(view.servers) else None
    hits = (await verbs.search(query, principal=principal, limit=MOST_HITS, servers=only)).hits
    rank = {hit.tool.key: place for place, hit in enumerate(hits)}
    fitting = [tool for tool in every if tool.key in rank or _contains(query, tool.key, tool.title, tool.description)]
    order = {server: place for place, server in enumerate(servers)}
    return sorted(fitting, key=lambda tool: (order[tool.server], rank.get(tool.key, MOST_HITS)))


def _select_servers(view: View, names: Collection[str] | None) -> tuple[list[str], list[str]]:
    """The requested servers (or all) in configured order, and the names that no server has."""
    if not names:
        return list(view.servers), []
    known: set[str] = set()
    unknown: list[str] = []
    for name in names:
        try:
            known.add(view.server(name).name)
        except UnknownName:
            unknown.append(name)
    return [name for name in view.servers if name in known], unknown


def _contains(query: str, *texts: str) -> bool:
    return query.lower() in " ".join(texts).lower()


def _favourite_entry(favourite: Favourite) -> JsonObject:
    return {
        "server": favourite.server,
        "name": favourite.name,
        "title": favourite.title or favourite.name,
        "description": favourite.description,
    }


def _entry(tool: Tool) -> JsonObject:
    words = first_sentence(tool.description, 200)
    return {"server": tool.server, "name": tool.name, "title": tool.title or tool.name, "description": words}


def _favourite_tool(name: str, favourite: Favourite, tool: Tool | None) -> JsonObject:
    """A favourite as a client sees it. It has the upstream's real schema, or an open one if the server cannot be
    asked.
    """
    definition: JsonObject = {"inputSchema": {"type": "object"}, **(tool.definition if tool else {}), "name": name}
    words = favourite.description or favourite.title or (tool.description if tool else f"Tool from {favourite.server}")
    definition["description"] = words
    if favourite.title:
        definition["title"] = favourite.title
    return definition


def _safe(name: str) -> str:
    return _NOT_WIRE.sub("_", name)[:64]


_SEARCH = own_tool(
    "broker_search",
    "Search tools",
    "Searches the tools of all servers, or of the named ones; lists them all without a query.",
    takes(q=_STRING, servers={"type": "array", "items": _STRING}),
    readOnlyHint=True,
)
_INVOKE = own_tool(
    "broker_invoke",
    "Invoke a tool",
    "Calls a tool by its server and name, and gives the server's answer as it is.",
    takes("server", "tool", server=_STRING, tool=_STRING, args={"type": ["object", "string", "null"]}),
    openWorldHint=True,
)
