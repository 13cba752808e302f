"""The accepted definitions of servers ("pins"), and what to do when a server changes them.

The first listing of a server pins everything it offers, by the SHA-256 of its whole canonical form. A later change or a
new entry is accepted, logged, or held, as the server's configuration says. Resources come and go with the data: of them
only pages (`ui://`) are pinned, and those whose text has a problem. A held entry is shown as it was pinned (a new entry
without its own text), so that unaccepted text never reaches an agent, and it cannot be called (`calls/held.py`).
The last accepted definitions of a name stay accepted. Pure, except for loading and saving pins.
"""

import hashlib
import ipaddress
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import unified_diff
from functools import partial
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from wicket_mcp.codec import canonical, decode, encode, pretty
from wicket_mcp.config.model.server import Change, ServerConfig
from wicket_mcp.errors import Internal
from wicket_mcp.extensions import APP_SCHEME
from wicket_mcp.model import META_SERVER_INFO, META_SUBSCRIPTION, JsonObject, Listing, Tool, as_object, as_text
from wicket_mcp.pauses import rest_between
from wicket_mcp.store.base import NOTHING, PinStore
from wicket_mcp.store.model import PINS_OF_NAME, PINS_OF_SERVER, StoredPin
from wicket_mcp.telemetry.log import escape, quote_name
from wicket_mcp.trust.display import restrict
from wicket_mcp.trust.launchers import package_of
from wicket_mcp.trust.lint import LookAlikes, Suspicion, suspect

FIRST_SIGHT = "first sight"
ACCEPTED = "accepted by the configuration"
KINDS = ("tool", "prompt", "template", "instructions", "resource")

_FIRST_FIELDS = {
    "tool": ("name", "title", "description", "inputSchema", "outputSchema", "annotations"),
    "prompt": ("name", "title", "description", "arguments"),
    "template": ("uriTemplate", "name", "title", "description", "mimeType"),
    "instructions": ("text",),
    "resource": ("uri", "name", "title", "description", "mimeType"),
}
"""What the first pins covered. One of them counts until the same fields are pinned with everything else."""
_WHOLE = "whole:"
"""Begins the digest of a whole definition."""
_VOLATILE = {"resource": frozenset({"size"})}
"""Fields that change with the data."""
_VOLATILE_META = frozenset({META_SERVER_INFO, META_SUBSCRIPTION, "traceparent", "tracestate", "baggage"})
"""Keys of `_meta` that are about one answer, not about the definition."""
_VOLATILE_NOTES = frozenset({"lastModified"})
_KNOWN = ("arguments", "icons", "execution")
_NOUNS = {"inputSchema": "parameter", "outputSchema": "output field"}
_TEXTS = ("name", "title", "description", "text", "uriTemplate", "mimeType")
_PLAIN = re.compile(r"[A-Za-z0-9_.\-/]{1,64}")

Entry: TypeAlias = tuple[str, str]
"""Kind and name."""


def held_entry(tool: Tool) -> Entry:
    """The entry by which a held tool is found; a tool with several descriptions has one entry for each."""
    name = tool.own_name or tool.name
    return ("tool", f"{name} {tool.variant}" if tool.variant else name)


class Held(msgspec.Struct, frozen=True):
    """An entry of a server whose current form is not accepted."""

    server: str
    kind: str
    name: str
    digest: str
    definition: JsonObject
    pinned: JsonObject | None
    """The last accepted form; None for a new entry."""
    suspicion: str = ""
    """What the linter found in its text."""
    partial: bool = False
    """Whether of the last accepted form only the first fields are known."""

    @property
    def key(self) -> str:
        return f"{self.server}.{self.name}" if self.name else self.server

    @property
    def words(self) -> str:
        """What changed, without any of the server's own text, so that an agent may read it."""
        if self.pinned is None:
            return self.suspicion or f"it is new: server '{self.server}' did not have it when it was first seen"
        now = _first_fields(self.kind, self.definition) if self.partial else self.definition
        reasons = changes(self.pinned, now) or ["its definition changed"]
        return "; ".join([*reasons, self.suspicion] if self.suspicion else reasons)

    @property
    def remedy(self) -> str:
        return f"Ask the user to look at it and to approve {quote_name(self.key)} in Wicket"

    @property
    def mark(self) -> str:
        """What it is shown with as long as it is held."""
        return f"[Held: {self.words}] {self.remedy}."

    def diff(self) -> str:
        """What changed, word for word, for a person."""
        return difference(self.pinned, self.definition)


def difference(before: JsonObject | None, after: JsonObject) -> str:
    """The difference, word for word, for a person."""
    old, new = (escape(pretty(version)).splitlines() if version else [] for version in (before, after))
    return "\n".join(list(unified_diff(old, new, "approved", "now", lineterm="", n=1))[2:])


class Review(msgspec.Struct, frozen=True):
    """A listing as it may be shown, what is held, and what to store and log."""

    listing: Listing
    held: Mapping[Entry, Held]
    pins: tuple[StoredPin, ...]
    told: tuple[str, ...]


class Pins:
    """The accepted definitions of all servers, as last read from the store."""

    def __init__(self, store: PinStore) -> None:
        self._store = store
        self._read = NOTHING
        """The number of the last change that was read."""
        self._loaded = False
        self._known: dict[tuple[str, str], dict[Entry, dict[str, StoredPin]]] = {}
        """By server and source: the last accepted digests of each entry, the newest last."""
        self._news: set[str] = set()
        """The servers of which other processes have accepted something, until somebody takes them."""

    async def load(self) -> None:
        """Read the pins that any process has stored since the last time. Raises Internal."""
        self._read, stored = await self._store.new_pins(self._read)
        self._loaded = True
        for pin in stored:
            known = self._known.get((pin.server, pin.source), {}).get((pin.kind, pin.name), {})
            if pin.kind in KINDS and known.get(pin.digest) != pin:  # a package's hashes do not mean that it was listed
                self._remember(pin)
                self._news.add(pin.server)

    def take_news(self) -> set[str]:
        """The servers of which other processes have accepted something since this was last asked."""
        news, self._news = self._news, set()
        return news

    async def refresh(self) -> None:
        """Needed before any comparison: a server whose pins were not read would look like one never listed. Raises
        Internal if nothing could ever be read; later, what was accepted stays so.
        """
        try:
            await self.load()
        except Internal:
            if not self._loaded:
                raise

    async def save(self, pins: Iterable[StoredPin]) -> None:
        saved = tuple(pins)
        if saved:
            await self._store.save_pins(saved)
            for pin in saved:
                self._remember(pin)

    async def approve(self, held: Held, source: str, by: str) -> None:
        """Accept an entry as it is now."""
        await self.save([_pin(held.server, source, (held.kind, held.name), held.definition, by)])

    def review(self, server: ServerConfig, source: str, listing: Listing, others: Iterable[Tool] = ()) -> Review:
        """Compare a server's current listing with the accepted one."""
        return self.reviewer(server, source, others)(listing)

    def reviewer(self, server: ServerConfig, source: str, others: Iterable[Tool] = ()) -> Callable[[Listing], Review]:
        """`review` with its inputs captured now, to be run in any thread: checking many texts takes a while.

        `others` are the tools of other servers, whose names must not be imitated.
        """
        known = self._known.get((server.name, source))
        accepted = None if known is None else {entry: dict(digests) for entry, digests in known.items()}
        return partial(_review, server, source, accepted, others)

    def _remember(self, pin: StoredPin) -> None:
        entries = self._known.setdefault((pin.server, pin.source), {})
        digests = entries[pin.kind, pin.name] = entries.pop((pin.kind, pin.name), {})  # the newest last
        digests.pop(pin.digest, None)
        digests[pin.digest] = pin
        if len(digests) > PINS_OF_NAME:
            del digests[next(iter(digests))]
        if len(entries) > PINS_OF_SERVER:
            del entries[next(iter(entries))]


def _review(
    server: ServerConfig,
    source: str,
    known: Mapping[Entry, Mapping[str, StoredPin]] | None,
    others: Iterable[Tool],
    listing: Listing,
) -> Review:
    listing = restrict(listing, vendor_keys=server.vendor_keys)
    held: dict[Entry, Held] = {}
    pins: list[StoredPin] = []
    messages: list[str] = []
    knows_first = not any(_is_whole(pin) for pins_ in (known or {}).values() for pin in pins_.values())
    fresh = [
        (entry, key, body, digest)
        for entry, key, body in rest_between(_entries(listing))
        if (digest := digest_of(entry[0], body)) not in (known or {}).get(entry, ())
    ]
    imitated = _imitations(listing, others, {name for (kind, name), *_ in fresh if kind == "tool"})
    for entry, key, body, digest in rest_between(fresh):
        accepted = (known or {}).get(entry)
        last = list(accepted.values())[-1] if accepted else None
        pinned = None if last is None else as_object(decode(last.definition))
        policy = policy_for(server, added=pinned is None)
        doubt = suspect(body, entry[0])
        if accepted and (by := _first_approver(entry[0], body, accepted, doubt)):
            pins.append(_pin(server.name, source, entry, body, by))
            continue
        if entry[0] == "tool" and (doubt is None or doubt.severity != "high"):
            doubt = imitated.get(entry[1]) or doubt
        wrong = doubt.words if doubt is not None and doubt.severity == "high" else ""
        change = Held(server.name, *entry, digest, body, pinned, wrong, last is not None and not _is_whole(last))
        is_news = known is not None and not (_is_data(entry) or (entry[0] == "resource" and knows_first))
        if (policy == "hold" and is_news) or (wrong and _blocks(server, added=pinned is None)):
            held[key] = change
            messages.append(f"{entry[0]} '{change.key}' is held: {change.words}")
            continue
        pins.append(_pin(server.name, source, entry, body, FIRST_SIGHT if known is None else ACCEPTED))
        if is_news and policy == "tell":
            messages.append(f"{entry[0]} '{change.key}' is accepted: {change.words}")
        elif doubt is not None:
            messages.append(f"{entry[0]} '{change.key}' is accepted, but {doubt.words}; see: wicket lint {server.name}")
    doubt = suspect(listing.server_info, "server")
    if doubt is not None and doubt.severity == "high":
        messages.append(f"what server '{server.name}' says of itself is not shown: {doubt.words}")
        listing = replace(listing, server_info=_without_words(listing.server_info))
    return Review(_replace_held(listing, held) if held else listing, held, tuple(pins), tuple(messages))


def _without_words(info: Mapping[str, Any]) -> JsonObject:
    return {key: value for key, value in info.items() if key not in ("title", "description")}


def _imitations(listing: Listing, others: Iterable[Tool], fresh: Collection[str]) -> dict[str, Suspicion]:
    """The tools, among those not accepted yet, whose names imitate others."""
    if not fresh:
        return {}
    names = LookAlikes(tool for tool in rest_between(others) if tool.server != listing.server)
    for tool in listing.tools:
        if tool.name not in fresh:
            names.add(tool)
    suspicions: dict[str, Suspicion] = {}
    for tool in rest_between(listing.tools):
        if tool.name in fresh and (imitation := names.find(tool)) is not None:
            _, severity, other = imitation
            suspicions[tool.name] = Suspicion(severity, f"its name only looks like that of {_safe(other.key)}")
        names.add(tool)
    return suspicions


def policy_for(server: ServerConfig, *, added: bool) -> Change:
    """What happens to a change or a new entry of this server."""
    chosen = server.added if added else server.changed
    return chosen or ("hold" if is_remote(server) else "accept")


def holds(server: ServerConfig) -> bool:
    """Whether entries of this server may be held."""
    return _blocks(server, added=False) or _blocks(server, added=True)


def _blocks(server: ServerConfig, *, added: bool) -> bool:
    """Whether a definition with a problem of high severity is held: also one of a package whose version is fixed."""
    chosen = server.added if added else server.changed
    return policy_for(server, added=added) == "hold" or (not chosen and package_of(server) is not None)


def is_remote(server: ServerConfig) -> bool:
    """Whether others control what this server will say: a remote address, or an unpinned package."""
    if server.url is not None:
        host = urlsplit(server.url).hostname or ""
        try:
            return not ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host != "localhost" and not host.endswith(".localhost")
    package = package_of(server)
    return package is not None and not package.pinned


def digest_of(kind: str, definition: Mapping[str, Any]) -> str:
    """SHA-256 over the canonical form of the whole definition, without what is volatile."""
    return _WHOLE + _digest(_lasting(kind, definition))


def _lasting(kind: str, definition: Mapping[str, Any]) -> JsonObject:
    """The fields of a definition that stay as long as nobody changes it."""
    volatile = _VOLATILE.get(kind, ())
    fields = {name: value for name, value in definition.items() if name not in volatile}
    for name, passing in (("_meta", _VOLATILE_META), ("annotations", _VOLATILE_NOTES)):
        part = fields.get(name)
        if isinstance(part, dict) and not passing.isdisjoint(as_object(part)):
            fields[name] = {key: value for key, value in as_object(part).items() if key not in passing}
    return {name: value for name, value in fields.items() if value != {} or name != "_meta"}


def _first_fields(kind: str, definition: Mapping[str, Any]) -> JsonObject:
    return {field: definition[field] for field in _FIRST_FIELDS[kind] if field in definition}


def _first_approver(
    kind: str, definition: JsonObject, accepted: Mapping[str, StoredPin], doubt: Suspicion | None
) -> str:
    """Who accepted a definition when pins covered the first fields alone; empty if nobody did.

    Not if these are pinned with everything else by now, or if the problem with the definition is not in them.
    """
    first = _first_fields(kind, definition)
    digest = _digest(first)
    if digest not in accepted or (doubt is not None and doubt.severity == "high" and suspect(first, kind) != doubt):
        return ""
    wholes = (as_object(decode(pin.definition)) for pin in accepted.values() if _is_whole(pin))
    superseded = any(_first_fields(kind, whole) == first for whole in wholes)
    return "" if superseded else accepted[digest].approved_by


def _is_whole(pin: StoredPin) -> bool:
    return pin.digest.startswith(_WHOLE)


def _digest(definition: JsonObject) -> str:
    return hashlib.sha256(canonical(definition)).hexdigest()


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The fields that differ, in our own words."""
    texts: list[str] = []
    for name in {**after, **before}:
        old, new = before.get(name), after.get(name)
        if old == new and (name in before) == (name in after):
            continue
        if name in _TEXTS:
            texts.append(f"its {name} changed ({len(as_text(old))} to {len(as_text(new))} characters)")
        elif name == "annotations":
            texts += _changed_flags(as_object(old), as_object(new))
        elif name in ("inputSchema", "outputSchema"):
            texts += _changed_fields(as_object(old), as_object(new), _NOUNS[name])
        elif name == "_meta":
            texts += _changed_entries(as_object(old), as_object(new), "its '_meta' key ")
        elif name in _KNOWN:
            texts.append(f"its {name} {_change(name, before, after)}")
        else:
            texts += _changed_entries(
                {name: old} if name in before else {}, {name: new} if name in after else {}, "its field "
            )
    return texts


def _changed_entries(before: JsonObject, after: JsonObject, noun: str) -> list[str]:
    names = [
        name for name in {**after, **before} if name not in before or name not in after or before[name] != after[name]
    ]
    return [f"{noun}{_safe(name)} {_change(name, before, after)}" for name in names]


def _change(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    return "changed" if name in before and name in after else "was added" if name in after else "was removed"


def _changed_flags(before: JsonObject, after: JsonObject) -> list[str]:
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return [f"its {_safe(name)} went from {_flag(before.get(name))} to {_flag(after.get(name))}" for name in names]


def _changed_fields(before: JsonObject, after: JsonObject, noun: str) -> list[str]:
    texts = _changed_entries(as_object(before.get("properties")), as_object(after.get("properties")), f"the {noun} ")
    others = [{name: value for name, value in schema.items() if name != "properties"} for schema in (before, after)]
    if others[0] != others[1] or not texts:
        texts.append(f"the schema of its {noun}s changed")
    return texts


def _safe(name: str) -> str:
    return f"'{name}'" if _PLAIN.fullmatch(name) else "(an unusual name)"


def _flag(value: Any) -> str:
    return {True: "true", False: "false", None: "unset"}.get(value, "a text") if not isinstance(value, str) else "text"


def _entries(listing: Listing) -> Iterable[tuple[Entry, Entry, JsonObject]]:
    """What is pinned, with the entry by which it is found if held, and its definition."""
    for tool in listing.tools:
        yield ("tool", tool.name), held_entry(tool), tool.definition
    for prompt in listing.prompts:
        entry = ("prompt", as_text(prompt.get("name")))
        yield entry, entry, prompt
    for template in listing.templates:
        entry = ("template", as_text(template.get("uriTemplate")))
        yield entry, entry, template
    for resource in listing.resources:
        entry = ("resource", as_text(resource.get("uri")))
        if not _is_data(entry) or suspect(resource, "resource") is not None:
            yield entry, entry, resource
    if listing.instructions:
        yield ("instructions", ""), ("instructions", ""), {"text": listing.instructions}


def _is_data(entry: Entry) -> bool:
    """Whether it comes and goes with the server's data, and is not pinned unless its text has a problem."""
    kind, name = entry
    return kind == "resource" and not name.startswith(APP_SCHEME)


def _pin(server: str, source: str, entry: Entry, body: JsonObject, by: str) -> StoredPin:
    kind, name = entry
    definition = encode(_lasting(kind, body))
    return StoredPin(server, source, kind, name, digest_of(kind, body), definition, by, time.time())


def _replace_held(listing: Listing, held: Mapping[Entry, Held]) -> Listing:
    """The listing with held entries marked, in their accepted forms; of a new entry only its name is shown."""
    instructions = held.get(("instructions", ""))
    texts = Counter(tool.name for tool in listing.tools)
    return replace(
        listing,
        tools=tuple(_mark(tool, held.get(held_entry(tool)), alone=texts[tool.name] == 1) for tool in listing.tools),
        prompts=tuple(_mark_entries(listing.prompts, "prompt", "name", held)),
        templates=tuple(_mark_entries(listing.templates, "template", "uriTemplate", held)),
        resources=tuple(_mark_entries(listing.resources, "resource", "uri", held)),
        instructions=as_text((instructions.pinned or {}).get("text")) if instructions else listing.instructions,
    )


def _mark(tool: Tool, held: Held | None, *, alone: bool) -> Tool:
    """The tool as it was accepted; for a tool with several descriptions it is unknown whose was accepted."""
    if held is None:
        return tool
    if held.pinned is None or not alone:
        return replace(
            tool, definition={"name": tool.name, "description": held.mark, "inputSchema": {"type": "object"}}
        )
    return replace(
        tool, definition={**held.pinned, "description": f"{held.mark} {as_text(held.pinned.get('description'))}"}
    )


def _mark_entries(
    entries: Iterable[JsonObject], kind: str, key: str, held: Mapping[Entry, Held]
) -> Iterable[JsonObject]:
    for entry in entries:
        change = held.get((kind, name := as_text(entry.get(key))))
        if change is None:
            yield entry
        else:
            accepted = change.pinned or {key: name, "name": name}
            yield {**accepted, "description": f"{change.mark} {as_text(accepted.get('description'))}".rstrip()}
