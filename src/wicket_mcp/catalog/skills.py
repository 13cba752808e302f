"""Skills of all servers: listed on demand, cached for as long as their server says, verified.

A skill is a folder of files with a description; `skill://x` of server `s` is `skill://s/x` to clients. A server's list
is passed on unchanged; a skill larger than the protocol allows is left out. A file that differs from the listed one, or
cannot be compared because the list cannot be read, is never returned (`skill_files.py`). With user accounts, each user
has a list.
"""

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from itertools import filterfalse
from typing import NamedTuple

from wicket_mcp.catalog.addresses import Addresses
from wicket_mcp.catalog.catalogue import Catalogue
from wicket_mcp.catalog.list_fields import Pages, exceeds, unknown_fields
from wicket_mcp.catalog.skill_files import MAX_BYTES, MAX_FILES, find_difference, has_file, is_within_limits
from wicket_mcp.errors import ProtocolViolation, Refused, Unavailable, WicketError
from wicket_mcp.extensions import SKILLS, declares
from wicket_mcp.model import JsonObject, Principal, as_list, as_object, as_seconds, as_text
from wicket_mcp.request import GATEWAY, Handler, internal
from wicket_mcp.tasks import Tasks

SHORTEST_TTL = 5.0  # seconds for which a list is cached, even if its server says less
FAILURE_TTL = 60.0  # seconds after which a server that could not be asked is asked again
MAX_PAGES = 20
MAX_UNLISTED = 100  # skills of a server that are remembered although it does not list them
MAX_DEPTH = 8  # folders of a skill above a file
TIMEOUT = 10.0


class _Kept(NamedTuple):
    """A server's list."""

    until: float
    """How long it is valid."""
    entries: list[JsonObject]
    """As the server sent them."""
    fields: Pages = ()
    too_large: Sequence[JsonObject] = ()
    """Entries that are left out because they exceed the protocol's limits."""
    problem: WicketError | None = None
    """Why there is no list."""
    ttl: float | None = None
    """Seconds for which its server says that it is valid; None if it does not say."""


class Skills:
    """The lists of one gateway."""

    def __init__(self, catalogue: Catalogue, forward: Handler) -> None:
        self._catalogue = catalogue
        self._forward = forward
        self._kept: dict[tuple[str, str], _Kept] = {}
        """By server and, if every user has an account there, user."""
        self._unlisted: dict[tuple[str, str], dict[str, JsonObject]] = {}
        """Skills that a server described but does not list, by address."""
        self._reading: dict[tuple[str, str], asyncio.Task[_Kept]] = {}
        self._tasks = Tasks()

    async def close(self) -> None:
        await self._tasks.close()

    async def entries(
        self, principal: Principal, patience: float | None = None, only: str | None = None
    ) -> list[tuple[str, JsonObject]]:
        """Server and entry of every skill that a principal may see, of all servers or `only` this one. Servers that
        cannot be asked are left out, and so are those that have not answered after `patience` seconds; their answers
        are kept for the next time.
        """
        snapshot = await self._catalogue.complete(None, principal, patience=self._catalogue.patience)
        listings = snapshot.view(principal).listings
        servers = [
            server
            for server, listing in listings.items()
            if only in (None, server) and declares(listing.capabilities, SKILLS)
        ]
        lists = {server: self._read(server, principal) for server in servers}
        if waiting := [reading for reading in lists.values() if isinstance(reading, asyncio.Task)]:
            await asyncio.wait(waiting, timeout=patience)
        entries: list[tuple[str, JsonObject]] = []
        for server, skill_list in lists.items():
            if isinstance(skill_list, asyncio.Task):
                if not skill_list.done():
                    continue
                skill_list = await skill_list
            entries += [(server, entry) for entry in skill_list.entries]
        return entries

    def fields(self, principal: Principal) -> dict[str, Pages]:
        """The unknown fields beside the entries of each server's list, as it was read last."""
        return {server: skills.fields for server, skills in self._visible(principal).items() if skills.fields}

    def shortest_ttl(self, principal: Principal) -> float | None:
        """Seconds for which the lists that a principal sees are valid; None if no server says so."""
        declared = [skills.ttl for skills in self._visible(principal).values() if skills.ttl is not None]
        return min(declared, default=None)

    def _visible(self, principal: Principal) -> dict[str, _Kept]:
        """Each server's list, as it was read last."""
        keys = {server: self._key(server, principal) for server in self._catalogue.view(principal).listings}
        return {server: self._kept[key] for server, key in keys.items() if key in self._kept}

    def remember(self, server: str, entry: JsonObject, principal: Principal) -> None:
        """A skill as its server described it: its files are compared with it, also if it is not listed."""
        known = self._unlisted.setdefault(self._key(server, principal), {})
        if len(known) >= MAX_UNLISTED:
            known.pop(next(iter(known)))
        known[as_text(entry.get("uri"))] = entry

    async def check(self, server: str, uri: str, body: JsonObject, principal: Principal) -> None:
        """Raises ProtocolViolation if the answer to a request for a file is not the listed file, and Unavailable if
        its server does not say what it should be.
        """
        listing = self._catalogue.now.listings.get(server)
        if listing is not None and not declares(listing.capabilities, SKILLS):
            return
        contents = [as_object(content) for content in as_list(body.get("contents"))]
        for content in contents:
            if content.get("uri") != uri:
                other = as_text(content.get("uri"))[:200]
                text = f"Server '{server}' answered with '{other}' when it was asked for '{uri}' of a skill."
                raise ProtocolViolation(server, text, hint="Do not use this skill; tell the server's author.")
        for entry in await self._find(server, uri, principal):
            check_limits(server, entry)
            for content in contents:
                if difference := find_difference(entry, content):
                    raise ProtocolViolation(
                        server,
                        f"'{uri}' is not the file that server '{server}' listed: its {difference} differs.",
                        hint="List the skills again; if it still differs, do not use this skill.",
                    )

    async def _find(self, server: str, uri: str, principal: Principal) -> list[JsonObject]:
        """The skills that name this file, listed or not. Raises Unavailable."""
        key = self._key(server, principal)
        if (failed := self._kept.get(key)) is not None and failed.problem is not None:
            del self._kept[key]  # it has just answered, so it is worth asking again
        skill_list = self._read(server, principal)
        skill_list = await asyncio.shield(skill_list) if isinstance(skill_list, asyncio.Task) else skill_list
        if skill_list.problem is not None:
            raise _unverifiable(server, uri, skill_list.problem)
        listed = [*skill_list.entries, *skill_list.too_large]
        if naming := [entry for entry in listed if has_file(entry, uri)]:
            return naming
        known = {as_text(entry.get("uri")) for entry in listed}
        unlisted = self._unlisted.get(key, {})
        for address in _manifests(uri):
            if address in known:
                return []  # a file that its skill does not name
            if address not in unlisted and (entry := await self._describe(server, uri, address, principal)):
                self.remember(server, entry, principal)
                unlisted = self._unlisted[key]
            if address in unlisted:
                return [unlisted[address]] if has_file(unlisted[address], uri) else []
        return []

    async def _describe(self, server: str, uri: str, address: str, principal: Principal) -> JsonObject:
        """A server's description of the skill at this address; empty if it has none. Raises Unavailable."""
        request = internal(server, "skills/get", {"uri": address}, TIMEOUT, self._reader(server, principal))
        try:
            entry = as_object((await self._forward(request)).body.get("skill"))
        except Refused:
            return {}
        except WicketError as problem:
            raise _unverifiable(server, uri, problem) from None
        return entry if entry.get("uri") == address else {}

    def _key(self, server: str, principal: Principal) -> tuple[str, str]:
        return server, "" if (reader := self._reader(server, principal)) is GATEWAY else reader.id

    def _reader(self, server: str, principal: Principal) -> Principal:
        """On whose behalf a server is asked."""
        config = self._catalogue.servers.get(server)
        return principal if config is not None and config.credentials == "user" else GATEWAY

    def _read(self, server: str, principal: Principal) -> "_Kept | asyncio.Task[_Kept]":
        """A server's list, or the request for it that is under way."""
        key = self._key(server, principal)
        cached = self._kept.get(key)
        if cached is not None and time.monotonic() < cached.until:
            return cached
        if key not in self._reading:
            work = self._list(server, self._reader(server, principal), cached)
            reading = self._reading[key] = self._tasks.start(work, f"list skills of {server}", awaited=True)
            reading.add_done_callback(partial(self._keep, key))
        return self._reading[key]

    def _keep(self, key: tuple[str, str], reading: "asyncio.Task[_Kept]") -> None:
        self._reading.pop(key, None)
        if not reading.cancelled() and reading.exception() is None:
            self._kept[key] = reading.result()

    async def _list(self, server: str, reader: Principal, cached: _Kept | None) -> _Kept:
        ttls, fields, too_large = list[float](), list[JsonObject](), list[JsonObject]()
        entries = list[JsonObject]()
        params: JsonObject = {}
        seen = set[str]()
        try:
            for _ in range(MAX_PAGES):
                page = (await self._forward(internal(server, "skills/list", params, TIMEOUT, reader))).body
                read = [as_object(entry) for entry in as_list(page.get("skills")) if isinstance(entry, dict)]
                entries += filter(is_within_limits, read)
                too_large += filterfalse(is_within_limits, read)
                if (unknown := unknown_fields(page, "skills")) and not exceeds([*fields, unknown]):
                    fields.append(unknown)
                if (ttl := as_seconds(page.get("ttlMs"))) is not None:
                    ttls.append(ttl)
                cursor = as_text(page.get("nextCursor"))
                if not cursor or cursor in seen:
                    break
                seen.add(cursor)
                params = {"cursor": cursor}
        except WicketError as problem:
            until = time.monotonic() + FAILURE_TTL
            if cached is not None:  # files are still compared with what was listed last
                return cached._replace(until=until)
            return _Kept(until, [], problem=problem)
        ttl = min(ttls, default=None)
        until = time.monotonic() + max(SHORTEST_TTL, ttl or 0.0)
        return _Kept(until, entries, tuple(fields), too_large, ttl=ttl)


def _manifests(uri: str) -> list[str]:
    """The addresses that the manifest of the skill of this file may have, the nearest first."""
    scheme, separator, path = uri.partition("://")
    folders = path.split("/")[:-1]
    above = ["/".join(folders[:depth]) for depth in range(len(folders), 0, -1)]
    return [f"{scheme}{separator}{folder}/SKILL.md" for folder in above[:MAX_DEPTH]]


def _unverifiable(server: str, uri: str, problem: WicketError) -> Unavailable:
    text = f"'{uri}' cannot be compared with what server '{server}' says of its skills: {problem}"
    return Unavailable(
        server, text, hint="Try again; if it fails again, tell the server's author that skills/list fails."
    )


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
