"""Skills of all servers: listed on demand, cached for as long as their server says, verified.

A skill is a folder of files with a description; `skill://x` of server `s` is `skill://s/x` to clients. A server's list
is passed on unchanged; a skill larger than the protocol allows is left out. A file that differs from the listed one is
never returned (`skill_files.py`).
"""

import time
from itertools import filterfalse
from typing import NamedTuple

from wicket_mcp.catalog.addresses import Addresses
from wicket_mcp.catalog.catalogue import Catalogue
from wicket_mcp.catalog.list_fields import Pages, exceeds, unknown_fields
from wicket_mcp.catalog.skill_files import MAX_BYTES, MAX_FILES, find_difference, has_file, is_within_limits
from wicket_mcp.errors import ProtocolViolation, WicketError
from wicket_mcp.extensions import SKILLS, declares
from wicket_mcp.model import JsonObject, Principal, as_list, as_object, as_text
from wicket_mcp.request import Handler, internal

SHORTEST_TTL = 5.0  # seconds for which a list is cached, even if its server says less
MAX_PAGES = 20
TIMEOUT = 10.0


class _Kept(NamedTuple):
    """A server's list."""

    until: float
    """How long it is valid."""
    entries: list[JsonObject]
    """As the server sent them."""
    fields: Pages
    too_large: list[JsonObject]
    """Entries that are left out because they exceed the protocol's limits."""


class Skills:
    """The lists of one gateway."""

    def __init__(self, catalogue: Catalogue, forward: Handler) -> None:
        self._catalogue = catalogue
        self._forward = forward
        self._kept: dict[str, _Kept] = {}

    async def entries(self, principal: Principal) -> list[tuple[str, JsonObject]]:
        """Server and entry of every skill that a principal may see. Servers that cannot be asked are left out."""
        entries: list[tuple[str, JsonObject]] = []
        snapshot = await self._catalogue.complete(None, principal, patience=self._catalogue.patience)
        for server, listing in snapshot.view(principal).listings.items():
            if declares(listing.capabilities, SKILLS):
                entries += [(server, entry) for entry in await self._list(server)]
        return entries

    def fields(self, principal: Principal) -> dict[str, Pages]:
        """The unknown fields beside the entries of each server's list, as it was read last."""
        visible = self._catalogue.view(principal).listings
        return {server: cached.fields for server, cached in self._kept.items() if server in visible and cached.fields}

    async def check(self, server: str, body: JsonObject) -> None:
        """Raises ProtocolViolation if a file differs from the listed one."""
        for content in map(as_object, as_list(body.get("contents"))):
            uri = as_text(content.get("uri"))
            for entry in await self._list(server):
                if has_file(entry, uri) and (difference := find_difference(entry, content)):
                    raise ProtocolViolation(
                        server,
                        f"'{uri}' is not the file that server '{server}' listed: its {difference} differs.",
                        hint="List the skills again; if it still differs, do not use this skill.",
                    )
            for entry in self._kept[server].too_large:
                if has_file(entry, uri):
                    check_limits(server, entry)

    async def _list(self, server: str) -> list[JsonObject]:
        cached = self._kept.get(server)
        if cached is not None and time.monotonic() < cached.until:
            return cached.entries
        ttl, fields, too_large = SHORTEST_TTL, list[JsonObject](), list[JsonObject]()
        entries = list[JsonObject]()
        params: JsonObject = {}
        seen = set[str]()
        try:
            for _ in range(MAX_PAGES):
                page = (await self._forward(internal(server, "skills/list", params, TIMEOUT))).body
                read = [as_object(entry) for entry in as_list(page.get("skills")) if isinstance(entry, dict)]
                entries += filter(is_within_limits, read)
                too_large += filterfalse(is_within_limits, read)
                if (unknown := unknown_fields(page, "skills")) and not exceeds([*fields, unknown]):
                    fields.append(unknown)
                ttl_ms = page.get("ttlMs")
                ttl = max(ttl, ttl_ms / 1000) if isinstance(ttl_ms, int | float) else ttl
                cursor = as_text(page.get("nextCursor"))
                if not cursor or cursor in seen:
                    break
                seen.add(cursor)
                params = {"cursor": cursor}
        except WicketError:
            if cached is not None:  # files are still compared with what was listed last
                self._kept[server] = cached._replace(until=time.monotonic() + SHORTEST_TTL)
                return cached.entries
            entries.clear()
        self._kept[server] = _Kept(time.monotonic() + ttl, entries, tuple(fields), too_large)
        return entries


def check_limits(server: str, entry: JsonObject) -> None:
    """Raises ProtocolViolation for a skill that is larger than the protocol allows."""
    if not is_within_limits(entry):
        most = f"{MAX_FILES} files and {MAX_BYTES // 1024**2} MiB"
        text = f"The skill '{as_text(entry.get('uri'))}' of server '{server}' is larger than {most}."
        raise ProtocolViolation(server, text, hint="Tell the server's author; the protocol allows no more.")


def rewrite_skill(addresses: Addresses, server: str, entry: JsonObject) -> JsonObject:
    """An entry as clients see it: only its own address and those of its files are changed."""
    rewritten = {**entry, "uri": addresses.address(server, as_text(entry.get("uri")))}
    if isinstance(entry.get("resources"), list):
        files = [as_object(resource) for resource in as_list(entry["resources"])]
        rewritten["resources"] = [
            {**file, "uri": addresses.address(server, as_text(file.get("uri")))} for file in files
        ]
    return rewritten


def matches(entries: list[tuple[str, JsonObject]], query: str, most: int = 3) -> list[tuple[str, JsonObject]]:
    """The skills whose name or description shares most words with the query, at least half of them."""
    terms = {word for word in _words(query) if len(word) > 2}
    scored: list[tuple[int, int]] = []
    for position, (_, entry) in enumerate(entries):
        frontmatter = as_object(entry.get("frontmatter"))
        known = _words(f"{frontmatter.get('name', '')} {frontmatter.get('description', '')}")
        shared = sum(any(word[:5] == other[:5] for other in known) for word in terms)
        if shared * 2 >= len(terms) > 0:
            scored.append((-shared, position))
    return [entries[position] for _, position in sorted(scored)[:most]]


def _words(text: str) -> set[str]:
    return set("".join(letter if letter.isalnum() else " " for letter in text.lower()).split())
