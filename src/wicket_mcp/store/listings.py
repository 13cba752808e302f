"""Converts a listing to a JSON object and back, for every implementation."""

from typing import Any

from msgspec.structs import replace

from wicket_mcp.codec import encode
from wicket_mcp.model import JsonObject, Listing, Rejected, Tool


def listing_to_json(listing: Listing) -> JsonObject:
    return {
        "server": listing.server,
        "server_info": listing.server_info,
        "protocol_version": listing.protocol_version,
        "instructions": listing.instructions,
        "capabilities": listing.capabilities,
        "tools": [tool.definition for tool in listing.tools],
        "variants": [tool.variant for tool in listing.tools] if listing.accounts else [],
        "headed": [tool.name for tool in listing.tools if tool.headed],
        "resources": listing.resources,
        "templates": listing.templates,
        "prompts": listing.prompts,
        "rejected": [[entry.name, entry.reason] for entry in listing.rejected],
        "listed_at": listing.listed_at,
        "ttl": listing.ttl,
        "fields": listing.fields,
        "accounts": {owner: sorted(share) for owner, share in listing.accounts.items()},
    }


def listing_from_json(body: Any) -> Listing:
    server: str = body["server"]
    headed = frozenset(body.get("headed", ()))
    variants: list[str] = body.get("variants") or [""] * len(body["tools"])
    return Listing(
        server=server,
        server_info=body["server_info"],
        protocol_version=body["protocol_version"],
        instructions=body["instructions"],
        capabilities=body["capabilities"],
        tools=tuple(
            Tool(server, tool["name"], tool, tool["name"] in headed, variant=variant)
            for tool, variant in zip(body["tools"], variants, strict=True)
        ),
        resources=tuple(body["resources"]),
        templates=tuple(body["templates"]),
        prompts=tuple(body["prompts"]),
        rejected=tuple(Rejected(*entry) for entry in body["rejected"]),
        listed_at=body["listed_at"],
        ttl=body["ttl"],
        fields={kind: tuple(pages) for kind, pages in body.get("fields", {}).items()},
        accounts={owner: _share(share, body) for owner, share in body.get("accounts", {}).items()},
    )


def _share(entries: list[str], body: Any) -> frozenset[str]:
    """The entries of an account; earlier versions did not distinguish the descriptions of one tool."""
    if "variants" in body:
        return frozenset(entries)
    return frozenset(f"{entry} #" if entry.startswith("tools ") else entry for entry in entries)


def alike(first: Listing, second: Listing) -> bool:
    """Whether two listings have the same content, whatever their time."""
    bodies = (listing_to_json(replace(listing, listed_at=0.0)) for listing in (first, second))
    return encode(next(bodies)) == encode(next(bodies))
