"""What of a server's listing each user's account has, where everybody has an account of their own. Pure.

One listing is kept for a server: all that any account was told of, and beside it which entries each account was told of
(`Listing.accounts`). Whoever has not been there yet sees what all known accounts have in common. Used by the catalogue,
which reads listings, and by whoever shows one.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from wicket_mcp.model import JsonObject, Listing

MOST_ACCOUNTS = 500
"""Of one server, those that were read last."""
_BESIDE_TOOLS = (("resources", "uri"), ("templates", "uriTemplate"), ("prompts", "name"))


def merge(before: Listing | None, listing: Listing, owner: str) -> Listing:
    """The listing as `owner` has just read it, with what it lacks of what other accounts were told of."""
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


def without(listing: Listing, owner: str) -> Listing:
    """The listing, and nothing said of this account any more."""
    return replace(listing, accounts={name: share for name, share in listing.accounts.items() if name != owner})


def share_of(listing: Listing, owner: str) -> frozenset[str] | None:
    """The entries that `owner` sees; None for all."""
    if not listing.accounts:
        return None
    own = listing.accounts.get(owner)
    if own is None:
        own, *others = listing.accounts.values()
        own = own.intersection(*others)
    return own


def shares_of(listings: Mapping[str, Listing], owner: str) -> tuple[tuple[str, frozenset[str]], ...]:
    """What `owner` sees of every server with accounts of its users: equal for those who see the same."""
    shares = ((server, share_of(listing, owner)) for server, listing in listings.items() if listing.accounts)
    return tuple((server, share) for server, share in shares if share is not None)


def narrow(listings: Mapping[str, Listing], shares: tuple[tuple[str, frozenset[str]], ...]) -> Mapping[str, Listing]:
    """The listings as somebody with these shares sees them."""
    return {**listings, **{server: _keep(listings[server], share) for server, share in shares}} if shares else listings


def tool_entry(name: str) -> str:
    return f"tools {name}"


def _keep(listing: Listing, entries: frozenset[str]) -> Listing:
    lists: dict[str, tuple[JsonObject, ...]] = {
        kind: tuple(item for item in getattr(listing, kind) if f"{kind} {item.get(key)}" in entries)
        for kind, key in _BESIDE_TOOLS
    }
    return replace(
        listing,
        tools=tuple(tool for tool in listing.tools if tool_entry(tool.name) in entries),
        resources=lists["resources"],
        templates=lists["templates"],
        prompts=lists["prompts"],
    )


def _entries(listing: Listing) -> frozenset[str]:
    beside = (f"{kind} {item.get(key)}" for kind, key in _BESIDE_TOOLS for item in getattr(listing, kind))
    return frozenset((*(tool_entry(tool.name) for tool in listing.tools), *beside))
