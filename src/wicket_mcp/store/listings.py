"""A listing as a JSON object and back, for every implementation alike."""

from typing import Any

from wicket_mcp.model import JsonObject, Listing, Rejected, Tool


def listing_to_json(listing: Listing) -> JsonObject:
    return {
        "server": listing.server,
        "server_info": listing.server_info,
        "protocol_version": listing.protocol_version,
        "instructions": listing.instructions,
        "capabilities": listing.capabilities,
        "tools": [tool.definition for tool in listing.tools],
        "headed": [tool.name for tool in listing.tools if tool.headed],
        "resources": listing.resources,
        "templates": listing.templates,
        "prompts": listing.prompts,
        "rejected": [[entry.name, entry.reason] for entry in listing.rejected],
        "listed_at": listing.listed_at,
        "ttl": listing.ttl,
        "accounts": {owner: sorted(share) for owner, share in listing.accounts.items()},
    }


def listing_from_json(body: Any) -> Listing:
    server: str = body["server"]
    headed = frozenset(body.get("headed", ()))
    return Listing(
        server=server,
        server_info=body["server_info"],
        protocol_version=body["protocol_version"],
        instructions=body["instructions"],
        capabilities=body["capabilities"],
        tools=tuple(Tool(server, tool["name"], tool, tool["name"] in headed) for tool in body["tools"]),
        resources=tuple(body["resources"]),
        templates=tuple(body["templates"]),
        prompts=tuple(body["prompts"]),
        rejected=tuple(Rejected(*entry) for entry in body["rejected"]),
        listed_at=body["listed_at"],
        ttl=body["ttl"],
        accounts={owner: frozenset(share) for owner, share in body.get("accounts", {}).items()},
    )
