"""Reads what an upstream offers: every page of every list, with limits; a bad entry affects only itself."""

import asyncio
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import Any

from wicket_mcp.budget import MAX_ADDRESS
from wicket_mcp.catalog.list_fields import MAX_BYTES, Pages, exceeds, unknown_fields
from wicket_mcp.codec import encode, is_deep, weighs_over
from wicket_mcp.config.model.config import ServerConfig
from wicket_mcp.errors import METHOD_NOT_FOUND, Refused
from wicket_mcp.large_json import encode_off_loop
from wicket_mcp.model import JsonObject, Listing, Rejected, Tool, as_list, as_object, as_seconds
from wicket_mcp.pauses import rest_between
from wicket_mcp.schema.headers import MARK, invalid_mark
from wicket_mcp.telemetry.log import clean
from wicket_mcp.upstream.era import Greeting

log = logging.getLogger(__name__)
Ask = Callable[[str, JsonObject], Awaitable[JsonObject]]

MAX_NAME = 256  # characters
MAX_SCHEMA_BYTES = 256 * 1024  # the largest real one has 26 KB
MAX_DEFINITION_BYTES = 512 * 1024
MAX_LEVELS = 100  # of lists and objects; less than a message may have, so that none is accepted of which a part was cut
MAX_DESCRIPTION = 16 * 1024  # characters; the longest real one has 9,000
_FREED = 1000  # entries at a time
LOGGED_REJECTIONS = 5  # of one listing; `wicket doctor` has them all
MAX_LISTING_BYTES = 32 * 1024**2  # of all lists of a server together


async def read_listing(server: str, greeting: Greeting, ask: Ask, max_tools: int, max_pages: int) -> Listing:
    """Ask `server` for all its lists. Raises what `ask` raises for tools; the other lists are optional."""
    began = time.time()
    offered = greeting.capabilities
    pages = PageReader(ask, max_tools, max_pages)
    if greeting.fields and not exceeds([greeting.fields]):
        pages.fields["server"] = (greeting.fields,)
    raw_tools = await pages.read("tools/list", "tools")
    resources, templates, prompts = list[JsonObject](), list[JsonObject](), list[JsonObject]()
    if "resources" in offered:
        resources = await pages.read("resources/list", "resources")
        templates = await pages.read("resources/templates/list", "resourceTemplates")
    if "prompts" in offered:
        prompts = await pages.read("prompts/list", "prompts")
    tools, rejected = await asyncio.to_thread(_accept, server, raw_tools)
    resources = await asyncio.to_thread(_choose, resources, "uri", MAX_ADDRESS, rejected)
    templates = await asyncio.to_thread(_choose, templates, "uriTemplate", MAX_ADDRESS, rejected)
    prompts = await asyncio.to_thread(_choose, prompts, "name", MAX_NAME, rejected)
    return Listing(
        server=server,
        server_info=greeting.server_info,
        protocol_version=greeting.behind or greeting.protocol_version,
        instructions=greeting.instructions,
        capabilities=offered,
        tools=tuple(tools),
        resources=tuple(resources),
        templates=tuple(templates),
        prompts=tuple(prompts),
        rejected=(*rejected, *pages.cut),
        listed_at=began,
        ttl=pages.ttl,
        fields=pages.fields,
    )


class PageReader:
    """Follows cursors within limits, and records what was cut, unknown fields and how long the answers are valid."""

    def __init__(self, ask: Ask, max_items: int, max_pages: int) -> None:
        self.cut: list[Rejected] = []
        self.ttl: float | None = None
        self.fields: dict[str, Pages] = {}
        self._ask = ask
        self._max_items = max_items
        self._max_pages = max_pages
        self._bytes_left = MAX_LISTING_BYTES

    async def read(self, method: str, key: str) -> list[JsonObject]:
        items: list[JsonObject] = []
        seen: set[str] = set()
        params: JsonObject = {}
        for _ in range(self._max_pages):
            try:
                page = await self._ask(method, params)
            except Refused as refusal:
                if refusal.rpc_code == METHOD_NOT_FOUND:
                    return items
                raise
            self._bytes_left -= len(await encode_off_loop(page))
            if self._bytes_left < 0:
                size = MAX_LISTING_BYTES // 1024**2
                self.cut.append(Rejected(f"({method})", f"more than {size} MiB; the rest was left out"))
                return items
            self._note_ttl(page)
            self._note_fields(page, method, key)
            items += await asyncio.to_thread(_take_entries, page, key, self._max_items + 1)
            cursor: Any = page.get("nextCursor")
            if len(items) > self._max_items:
                self.cut.append(Rejected(f"({method})", f"more than {self._max_items} entries; the rest was left out"))
                return items[: self._max_items]
            if not isinstance(cursor, str) or not cursor:
                return items
            if cursor in seen:
                self.cut.append(Rejected(f"({method})", "the server's pages repeat without an end"))
                return items
            seen.add(cursor)
            params = {"cursor": cursor}
        self.cut.append(Rejected(f"({method})", f"more than {self._max_pages} pages; the rest was left out"))
        return items

    def _note_fields(self, page: JsonObject, method: str, key: str) -> None:
        if not (fields := unknown_fields(page, key)):
            return
        kind = "templates" if key == "resourceTemplates" else key
        pages = (*self.fields.get(kind, ()), fields)
        if exceeds(pages):
            reason = f"its fields beside the entries have more than {MAX_BYTES // 1024} KiB; the rest was left out"
            self.cut.append(Rejected(f"({method})", reason))
        else:
            self.fields[kind] = pages

    def _note_ttl(self, page: JsonObject) -> None:
        seconds = as_seconds(page.get("ttlMs"))
        if seconds is not None and page["ttlMs"] >= 0:
            self.ttl = seconds if self.ttl is None else min(self.ttl, seconds)


def _take_entries(page: JsonObject, key: str, most: int) -> list[JsonObject]:
    """The first entries of a page. The page loses all: to free many at once would hold the event loop."""
    entries = as_list(page.get(key))
    definitions = list(islice((as_object(entry) for entry in entries if isinstance(entry, dict)), most))
    while entries:
        del entries[-_FREED:]
    return definitions


def tool_of(server: str, definition: JsonObject) -> Tool:
    """A tool from its definition, which was accepted earlier."""
    return Tool(server, definition["name"], definition, headed=MARK.encode() in encode(definition["inputSchema"]))


def _accept(server: str, entries: list[JsonObject]) -> tuple[list[Tool], list[Rejected]]:
    tools: dict[str, Tool] = {}
    rejected: list[Rejected] = []
    for entry in rest_between(entries):
        name: Any = entry.get("name")
        if reason := _unusable(entry):
            rejected.append(_leave_out(name, reason))
        elif name in tools:
            rejected.append(_leave_out(name, "a second tool of this name; the first one counts"))
        else:
            description: Any = entry.get("description")
            if isinstance(description, str) and len(description) > MAX_DESCRIPTION:
                entry = {**entry, "description": f"{description[:MAX_DESCRIPTION]}…"}
                rejected.append(Rejected(clean(name, 80), f"its description was cut at {MAX_DESCRIPTION} characters"))
            tools[name] = tool_of(server, entry)
    return list(tools.values()), rejected


def _choose(entries: Sequence[JsonObject], key: str, longest: int, rejected: list[Rejected]) -> list[JsonObject]:
    """The entries of another list that can be named and are no larger than a tool may be."""
    chosen: list[JsonObject] = []
    for entry in entries:
        name: Any = entry.get(key)
        if not isinstance(name, str) or not name:
            reason = f"it has no {key}"
        elif len(name) > longest:
            reason = f"its {key} is longer than {longest} characters"
        elif weighs_over(entry, MAX_DEFINITION_BYTES):
            reason = f"its definition is larger than {MAX_DEFINITION_BYTES // 1024} KiB"
        elif is_deep(encode(entry), entry, MAX_LEVELS):
            reason = f"its definition is nested more than {MAX_LEVELS} levels deep"
        else:
            chosen.append(entry)
            continue
        rejected.append(_leave_out(name, reason))
    return chosen


def _leave_out(name: Any, reason: str) -> Rejected:
    return Rejected(clean(str(name)[:200], 80), f"left out: {reason}")


def _unusable(entry: JsonObject) -> str:
    """Why this entry cannot be a tool; empty if it can.

    A schema without `type: object` is accepted as one: the published GitLab server omits it on every tool, and strict
    clients lose all of them.
    """
    name: Any = entry.get("name")
    schema: Any = entry.get("inputSchema")
    if not isinstance(name, str) or not name:
        return "it has no name"
    if len(name) > MAX_NAME:
        return f"its name is longer than {MAX_NAME} characters"
    if not isinstance(schema, dict):
        return f"its inputSchema is {_kind(schema)}, not an object"
    if as_object(schema).get("type", "object") != "object":
        return "its inputSchema does not describe an object"
    encoded = encode(schema)
    if len(encoded) > MAX_SCHEMA_BYTES:
        return f"its inputSchema is larger than {MAX_SCHEMA_BYTES // 1024} KiB"
    whole = encode({**entry, "description": ""})
    if len(whole) > MAX_DEFINITION_BYTES:
        return f"its definition is larger than {MAX_DEFINITION_BYTES // 1024} KiB"
    if is_deep(whole, entry, MAX_LEVELS):
        return f"its definition is nested more than {MAX_LEVELS} levels deep"
    return invalid_mark(as_object(schema)) if MARK.encode() in encoded else ""


def _kind(value: Any) -> str:
    return "missing" if value is None else f"a {type(value).__name__}"


def log_rejections(listing: Listing) -> None:
    """Log the first entries of a listing that were left out or cut."""
    for entry in listing.rejected[:LOGGED_REJECTIONS]:
        log.warning("server '%s': '%s': %s", listing.server, entry.name, entry.reason)
    if (more := len(listing.rejected) - LOGGED_REJECTIONS) > 0:
        log.warning("server '%s': %d more such entries; see: wicket doctor", listing.server, more)


def fingerprint(server: ServerConfig) -> str:
    """A hash of what a listing depends on: a changed command or address invalidates the stored listing, as does giving
    users accounts of their own, because the shared account's listing is none of theirs. Contains no secret.
    """
    identity = [
        server.command,
        server.args,
        server.cwd,
        server.url,
        server.transport,
        sorted(server.env),
        sorted(server.headers),
        *(["user"] if server.credentials == "user" else []),
    ]
    return hashlib.blake2b(encode(identity), digest_size=16).hexdigest()
