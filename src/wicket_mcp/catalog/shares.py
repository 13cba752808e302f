"""Which entries of a server's listing each user's account has, if every user has an account. Pure.

One listing is kept per server: the entries of all accounts, and which entries each account has (`Listing.accounts`). A
tool that accounts describe differently is listed once for each description (`Tool.variant`), and no user sees the
description of another account. A user without a listing sees what all known accounts have in common; for a tool with
several descriptions, or of the only account, only its name. Used by the catalogue, which reads listings, and by the
code that shows one.
"""

import hashlib
from collections.abc import Mapping

from msgspec.structs import replace

from wicket_mcp.codec import canonical
from wicket_mcp.model import JsonObject, Listing, Tool, name_of

MOST_ACCOUNTS = 500
"""Per server, those that were read last."""
_MARK = " #"
_UNTOLD: JsonObject = {
    "description": "Each account sees its own description of this tool. Sign in to see it.",
    "inputSchema": {"type": "object"},
}
_BESIDE_TOOLS = (("resources", "uri"), ("templates", "uriTemplate"), ("prompts", "name"))


def merge(before: Listing | None, listing: Listing, owner: str) -> Listing:
    """The listing as `owner` has just read it, plus the entries of other accounts that it lacks."""
    listing = replace(listing, tools=tuple(map(with_variant, listing.tools)))
    own = _entries(listing)
    if before is None:
        return replace(listing, accounts={owner: own})
    others = [(name, share) for name, share in before.accounts.items() if name != owner][-MOST_ACCOUNTS + 1 :]
    accounts = {**dict(others), owner: own}
    others_share = _keep(before, frozenset(entry for _, share in others for entry in share if entry not in own))
    return replace(
        listing,
        tools=listing.tools + others_share.tools,
        resources=listing.resources + others_share.resources,
        templates=listing.templates + others_share.templates,
        prompts=listing.prompts + others_share.prompts,
        accounts=accounts,
    )


def of_present_holders(listings: Mapping[str, Listing], holders: Mapping[str, str]) -> dict[str, Listing]:
    """The listings without the accounts of those whose name somebody else has now; `holders` has the latter."""
    current = {server: _of_present_holders(listing, holders) for server, listing in listings.items()}
    return {server: listing for server, listing in current.items() if listing is not None}


def _of_present_holders(listing: Listing, holders: Mapping[str, str]) -> Listing | None:
    """None if no account is left: what nobody has is not what everybody has."""
    accounts = listing.accounts.items()
    present = {owner: share for owner, share in accounts if holders.get(name_of(owner), owner) == owner}
    if len(present) == len(accounts):
        return listing
    return replace(_keep(listing, frozenset[str]().union(*present.values())), accounts=present) if present else None


def share_of(listing: Listing, owner: str) -> frozenset[str] | None:
    """The entries that `owner` sees; None for all."""
    if not listing.accounts:
        return None
    own = listing.accounts.get(owner)
    return _common(tuple(listing.accounts.values())) if own is None else own


def _common(shares: tuple[frozenset[str], ...]) -> frozenset[str]:
    """What all accounts have in common, and the bare names of tools that all have with different descriptions.

    Of a single account nothing is known to be common: only the names of its tools.
    """
    first, *others = shares
    if not others:
        return frozenset(_bare(entry) for entry in first if entry.startswith("tools "))
    alike = first.intersection(*others)
    names = [frozenset(map(_bare, share)) for share in shares]
    alike_names = frozenset(map(_bare, alike))
    return alike | {name for name in names[0].intersection(*names[1:]) if name not in alike_names}


def shares_of(listings: Mapping[str, Listing], owner: str) -> tuple[tuple[str, frozenset[str]], ...]:
    """What `owner` sees of every server with user accounts: equal for users who see the same."""
    shares = ((server, share_of(listing, owner)) for server, listing in listings.items() if listing.accounts)
    return tuple((server, share) for server, share in shares if share is not None)


def narrow(listings: Mapping[str, Listing], shares: tuple[tuple[str, frozenset[str]], ...]) -> Mapping[str, Listing]:
    """The listings as a user with these shares sees them."""
    return {**listings, **{server: _keep(listings[server], share) for server, share in shares}} if shares else listings


def tool_entry(tool: Tool) -> str:
    return f"tools {tool.own_name or tool.name}{_MARK}{tool.variant}"


def with_variant(tool: Tool) -> Tool:
    """The tool, with a mark that distinguishes its description from others of the same name."""
    return replace(tool, variant=_digest(tool.definition))


def _bare(entry: str) -> str:
    """The entry of a tool without its variant; other entries have no variants."""
    return f"{entry.rpartition(_MARK)[0]}{_MARK}" if entry.startswith("tools ") else entry


def _name_only_tools(listing: Listing, entries: frozenset[str]) -> tuple[Tool, ...]:
    """The tools of which only the name is shown."""
    described = {tool_entry(tool) for tool in listing.tools}
    bare = sorted(entry for entry in entries if entry.startswith("tools ") and entry.endswith(_MARK))
    names = [entry[len("tools ") : -len(_MARK)] for entry in bare if entry not in described]
    return tuple(Tool(listing.server, name, {**_UNTOLD, "name": name}) for name in names)


def _keep(listing: Listing, entries: frozenset[str]) -> Listing:
    lists: dict[str, tuple[JsonObject, ...]] = {
        kind: tuple(item for item in getattr(listing, kind) if _entry(kind, item.get(key), item) in entries)
        for kind, key in _BESIDE_TOOLS
    }
    return replace(
        listing,
        tools=(*(tool for tool in listing.tools if tool_entry(tool) in entries), *_name_only_tools(listing, entries)),
        resources=lists["resources"],
        templates=lists["templates"],
        prompts=lists["prompts"],
        instructions=listing.instructions if _words(listing) in entries else "",
        fields=listing.fields if _fields(listing) in entries else {},
    )


def _entries(listing: Listing) -> frozenset[str]:
    beside = (_entry(kind, item.get(key), item) for kind, key in _BESIDE_TOOLS for item in getattr(listing, kind))
    return frozenset((*(tool_entry(tool) for tool in listing.tools), *beside, _words(listing), _fields(listing)))


def _words(listing: Listing) -> str:
    return _entry("instructions", "", {"text": listing.instructions})


def _fields(listing: Listing) -> str:
    return _entry("fields", "", dict(listing.fields))


def _entry(kind: str, name: object, body: JsonObject) -> str:
    """An entry that is not a tool: with another description or name it is a different entry."""
    return f"{kind} {name}{_MARK}{_digest(body)}"


def _digest(body: JsonObject) -> str:
    return hashlib.blake2b(canonical(body), digest_size=8).hexdigest()
