"""What of a server's definitions and results may steer the program that shows them: icons, links, keys. Pure.

An icon is an https address or an image of its own; any other address would be opened by whoever shows a list. A key
such as `anthropic/requiresUserInteraction` changes how a client treats a tool, so a server may use it only if its
configuration says so (`vendor_keys`). Whatever else a definition has is passed on, pinned and checked (`pins.py`). Of a
result, addresses that would run as a script are left out, and icons as above; a path of a file is passed on.
"""

from typing import Any

from msgspec.structs import replace

from wicket_mcp.budget import MAX_ADDRESS
from wicket_mcp.model import JsonObject, Listing, as_list, as_object, as_text
from wicket_mcp.pauses import rest_between

MAX_IMAGE = 64 * 1024  # characters
_VENDORS = ("anthropic/",)


def restrict(listing: Listing, *, vendor_keys: bool) -> Listing:
    """The listing without what must not reach a client; the same object if there is nothing of that."""

    def shorten(entries: tuple[JsonObject, ...]) -> tuple[JsonObject, ...]:
        return tuple(_restrict(entry, vendor_keys=vendor_keys) for entry in rest_between(entries))

    definitions = shorten(tuple(tool.definition for tool in listing.tools))
    lists = shorten(listing.prompts), shorten(listing.templates), shorten(listing.resources)
    (info,) = shorten((listing.server_info,))
    if (*lists, info, definitions) == (
        *(listing.prompts, listing.templates, listing.resources),
        *(listing.server_info, tuple(tool.definition for tool in listing.tools)),
    ):
        return listing
    tools = tuple(replace(tool, definition=new) for tool, new in zip(listing.tools, definitions, strict=True))
    prompts, templates, resources = lists
    return replace(listing, tools=tools, prompts=prompts, templates=templates, resources=resources, server_info=info)


LINKS = frozenset({"resource_link", "resource"})
"""Kinds of blocks of a result that have an address."""
_SCRIPTS = ("javascript:", "vbscript:")


def restrict_result(body: JsonObject) -> JsonObject:
    """A tool's result without what must not reach a client."""
    return {**body, "content": [_restrict_block(block) for block in as_list(body.get("content"))]}


def _restrict_block(block: Any) -> Any:
    kind = as_object(block).get("type")
    if kind not in LINKS:
        return block
    place = as_object(block) if kind == "resource_link" else as_object(as_object(block).get("resource"))
    if not _is_script(as_text(place.get("uri"))):
        return _restrict(as_object(block), vendor_keys=True)
    text = as_text(place.get("text")) or f"[{as_text(place.get('name')) or 'A resource'}: its address is a script.]"
    return {"type": "text", "text": text}


def _is_script(address: str) -> bool:
    """As browsers read an address: they skip blanks and control characters."""
    return "".join(letter for letter in address[:200] if letter > " ").lower().startswith(_SCRIPTS)


def _restrict(definition: JsonObject, *, vendor_keys: bool) -> JsonObject:
    icons: Any = definition.get("icons")
    if icons is not None and not (isinstance(icons, list) and all(map(_is_icon, as_list(icons)))):
        definition = {**definition, "icons": [icon for icon in as_list(icons) if _is_icon(icon)]}
    meta = as_object(definition.get("_meta"))
    if meta and not vendor_keys and any(key.startswith(_VENDORS) for key in meta):
        definition = {**definition, "_meta": {key: meta[key] for key in meta if not key.startswith(_VENDORS)}}
    return definition


def _is_icon(icon: Any) -> bool:
    source = as_text(as_object(icon).get("src"))
    if source.startswith("data:image/"):
        return len(source) <= MAX_IMAGE
    return source.startswith("https://") and len(source) <= MAX_ADDRESS
