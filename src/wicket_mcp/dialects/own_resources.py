"""Wicket's own resources, the same in every vocabulary: what there is, its state, one tool, one backend, one result.

    wicket://overview  backends  tools  recent  stats  health
    wicket://tool/{tool_name}  backend/{backend_name}  backend/{backend_name}/tools  result/{id}

`gatemini://` is an alias. Data of a caller (recent calls, statistics, results) is shown only to that caller.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, unquote

from wicket_mcp.calls.activity import SAMPLE, by_server
from wicket_mcp.catalog.instructions import capability_index
from wicket_mcp.codec import encode
from wicket_mcp.errors import BadArguments, UnknownName, UnknownResult
from wicket_mcp.model import Caller, JsonObject, Tool
from wicket_mcp.schema.descriptions import first_sentence
from wicket_mcp.schema.signature import describe
from wicket_mcp.spelling import count_of, nearest
from wicket_mcp.trust.policy import demand
from wicket_mcp.verbs import Verbs

SCHEMES = ("wicket://", "gatemini://")
_INDEX_BUDGET = 700  # characters of the list of servers in the overview
_LINE = 70
_RECENT = 50
_OF_THE_CALLER = ("recent", "stats", "result")
"""Resources that contain only the caller's own data."""

Page = Callable[[Verbs, Caller], Awaitable[Any]]


def list_resources() -> list[JsonObject]:
    return [
        {"uri": f"wicket://{name}", "name": name, "title": title, "description": words, "mimeType": kind}
        for name, (title, words, kind, _) in _PAGES.items()
    ]


def list_templates() -> list[JsonObject]:
    return [
        {"uriTemplate": f"wicket://{path}", "name": name, "description": words, "mimeType": kind}
        for path, name, words, kind in _TEMPLATES
    ]


async def read(verbs: Verbs, caller: Caller, uri: str) -> JsonObject | None:
    """The content of one of our own resources; None if the address is not ours. Raises UnknownName."""
    scheme = next((scheme for scheme in SCHEMES if uri.startswith(scheme)), None)
    if scheme is None:
        return None
    path, _, query = uri.removeprefix(scheme).partition("?")
    if path.partition("/")[0] not in _OF_THE_CALLER:
        demand(caller.principal, "discover", "reading about servers and tools")
    if path in _PAGES:
        _, _, kind, page = _PAGES[path]
        content = await page(verbs, caller)
    else:
        content = await _item(verbs, caller, [unquote(part) for part in path.split("/")], parse_qs(query), uri)
        kind = "text/plain" if isinstance(content, str) else "application/json"
    text = content if isinstance(content, str) else encode(content).decode()
    return {"contents": [{"uri": uri, "mimeType": kind, "text": text}]}


async def overview(verbs: Verbs, caller: Caller) -> str:
    """What this is and how to continue, within 500 tokens for any catalogue."""
    view = await verbs.view(caller.principal)
    return (
        f"# Wicket\n\nA gateway to {count_of(len(view.tools), 'tool')} of {count_of(len(view.servers), 'server')}. "
        "A client sees a few tools with which it finds, describes and calls all the others.\n\n"
        "- Search by task before listing: a hit says how the tool is called.\n"
        "- wicket://backends has the servers and their state, wicket://backend/{name}/tools the tools of one.\n"
        "- wicket://tool/{name} has the full schema of one tool, for when a hit is not enough.\n"
        "- A result that is too large to show is kept: wicket://result/{id}?path=items[0] reads a part of it.\n"
        "- wicket://health and wicket://recent help when a call fails.\n\n"
        f"Servers (number of tools):\n{capability_index(view, _INDEX_BUDGET)}\n"
    )


async def backends(verbs: Verbs, caller: Caller) -> list[JsonObject]:
    return [
        {"name": status.name, "tool_count": status.tools, "status": status.state, "description": status.description}
        for status in await verbs.servers(caller.principal, connect=True)
    ]


async def tools(verbs: Verbs, caller: Caller) -> list[JsonObject]:
    every = await verbs.tools(caller.principal)
    return await asyncio.to_thread(lambda: [_line(tool) for tool in every])


def _line(tool: Tool) -> JsonObject:
    return {"name": tool.key, "backend": tool.server, "description": first_sentence(tool.description, _LINE)}


async def recent(verbs: Verbs, caller: Caller) -> list[JsonObject]:
    now = time.time()
    return [
        {
            "tool_name": f"{record.server}.{record.tool}",
            "backend_name": record.server,
            "duration_ms": round(record.duration_ms, 1),
            "outcome": record.outcome,
            "seconds_ago": round(now - record.at),
        }
        for record in await verbs.recent(caller.principal, _RECENT)
    ]


async def stats(verbs: Verbs, caller: Caller) -> JsonObject:
    records = await verbs.recent(caller.principal, SAMPLE)
    usage = await verbs.usage(caller.principal)
    return {
        "calls": len(records),
        "outcomes": dict(Counter(record.outcome for record in records)),
        "result_characters": sum(record.result_bytes for record in records),
        "backends": {
            name: {
                "calls": totals.calls,
                "failed": totals.failed,
                "cached": totals.cached,
                "p50_ms": totals.p50,
                "p95_ms": totals.p95,
            }
            for name, totals in by_server(records).items()
        },
        "most_used": dict(sorted(usage.items(), key=lambda pair: (-pair[1], pair[0]))[:10]),
    }


async def health(verbs: Verbs, caller: Caller) -> list[JsonObject]:
    measured = by_server(await verbs.recent(caller.principal, SAMPLE))
    entries: list[JsonObject] = []
    for status in await verbs.servers(caller.principal):
        seen = measured.get(status.name)
        entry: JsonObject = {"name": status.name, "status": status.state, "tool_count": status.tools}
        if seen is not None:
            entry |= {"calls": seen.calls, "failed": seen.failed, "p50_ms": seen.p50, "p95_ms": seen.p95}
        entries.append({**entry, "problem": status.problem} if status.problem else entry)
    return entries


async def _item(
    verbs: Verbs, caller: Caller, path: list[str], query: Mapping[str, list[str]], uri: str
) -> JsonObject | list[JsonObject] | str:
    match path:
        case ["tool", name]:
            return describe(await verbs.resolve(name, caller.principal), "full")
        case ["backend", name]:
            return await _backend(verbs, caller, name)
        case ["backend", name, "tools"]:
            offered = await verbs.tools(caller.principal, name)
            return [{"name": tool.name, "description": first_sentence(tool.description)} for tool in offered]
        case ["result", handle]:
            try:
                return await _result(verbs, caller, handle, query)
            except UnknownResult as problem:  # for a client that reads addresses, it is an address that does not exist
                raise UnknownName("resource", uri, hint=problem.hint) from None
        case _:
            known = [*(f"wicket://{name}" for name in _PAGES), *(f"wicket://{template[0]}" for template in _TEMPLATES)]
            raise UnknownName("resource", uri, nearest(uri, known))


async def _backend(verbs: Verbs, caller: Caller, spelling: str) -> JsonObject:
    name = (await verbs.current_view(caller.principal)).server(spelling).name
    offered = await verbs.tools(caller.principal, name)
    server = next(status for status in await verbs.servers(caller.principal) if status.name == name)
    body: JsonObject = {
        "name": name,
        "status": server.state,
        "transport": server.transport,
        "version": server.version,
        "description": server.description,
        "tags": list(server.tags),
        "required_keys": dict(verbs.required_keys(name, caller.principal)),
        "tool_count": len(offered),
        "tools": [tool.name for tool in offered],
    }
    return {**body, "problem": server.problem} if server.problem else body


async def _result(verbs: Verbs, caller: Caller, handle: str, query: Mapping[str, list[str]]) -> str:
    options = {name: values[-1] for name, values in query.items()}
    numbers = {name: options.get(name, "0") for name in ("offset", "limit")}
    if not all(number.isdecimal() and len(number) < 10 for number in numbers.values()):
        raise BadArguments("offset and limit of a result are whole numbers.")
    part = await verbs.read(
        handle,
        caller.principal,
        path=options.get("path", ""),
        grep=options.get("grep", ""),
        offset=int(numbers["offset"]),
        limit=int(numbers["limit"]) or None,
        reader=caller,
    )
    return f"{part.text}\n{part.note}"


_PAGES: Mapping[str, tuple[str, str, str, Page]] = {
    "overview": ("Overview", "What this gateway is, what is behind it, and how to find it.", "text/markdown", overview),
    "backends": ("Backends", "All servers with status and number of tools.", "application/json", backends),
    "tools": ("Tools", "Every tool with its server and one line about it.", "application/json", tools),
    "recent": ("Recent calls", "Your latest calls with outcome and duration.", "application/json", recent),
    "stats": ("Statistics", "Your calls by outcome and server, with latencies.", "application/json", stats),
    "health": (
        "Health",
        "The state of the servers, and what is wrong with those that fail.",
        "application/json",
        health,
    ),
}
_TEMPLATES = (
    ("tool/{tool_name}", "tool", "Full description and schemas of one tool.", "application/json"),
    ("backend/{backend_name}", "backend", "One server: status, version, tools.", "application/json"),
    ("backend/{backend_name}/tools", "backend-tools", "The tools of one server, briefly.", "application/json"),
    ("result/{id}", "result", "A stored large result; ?path=, grep=, offset= and limit= read a part.", "text/plain"),
)
