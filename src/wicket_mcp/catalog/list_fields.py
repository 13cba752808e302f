"""Fields beside the entries of servers' lists that Wicket does not know, and how they are combined in one list. Pure.

A field or key of `_meta` on which all pages of all servers that have it agree stays where it was. What differs is kept
by server and page, in `_meta` under LISTS. `listing.py` and `skills.py` collect the fields; the methods that answer
with a list add them.
"""

from collections.abc import Iterable, Mapping

from wicket_mcp.codec import canonical
from wicket_mcp.model import META_SERVER_INFO, JsonObject, as_object

LISTS = "wicket/lists"
MAX_BYTES = 64 * 1024
"""Of the unknown fields of one list of one server."""
_KNOWN = frozenset({"nextCursor", "ttlMs", "cacheScope", "resultType", "_meta"})

Pages = tuple[JsonObject, ...]
"""The unknown fields of each page that has some."""


def unknown_fields(page: JsonObject, key: str) -> JsonObject:
    """The fields of a page of a list that are not its entries and not known."""
    fields = {name: value for name, value in page.items() if name not in _KNOWN and name != key}
    meta = {name: value for name, value in as_object(page.get("_meta")).items() if name != META_SERVER_INFO}
    return {**fields, "_meta": meta} if meta else fields


def exceeds(pages: Iterable[JsonObject]) -> bool:
    """Whether there is more than Wicket keeps."""
    return sum(len(canonical(fields)) for fields in pages) > MAX_BYTES


def combine(by_server: Mapping[str, Pages]) -> JsonObject:
    """The fields of one list that is made of these servers' lists."""
    pages = [fields for server_pages in by_server.values() for fields in server_pages]
    top = _find_common(pages)
    meta = _find_common([as_object(fields.get("_meta")) for fields in pages])
    differing: dict[str, list[JsonObject]] = {}
    for server, own in by_server.items():
        left = [fields for page in own if (fields := _without(page, top, meta))]
        if left:
            differing[server] = left
    if differing:
        meta[LISTS] = differing
    top.pop("_meta", None)
    return {**top, "_meta": meta} if meta else top


def _find_common(pages: list[JsonObject]) -> JsonObject:
    """The fields that have the same value on every page that has them."""
    common: JsonObject = {}
    differing: set[str] = set()
    for fields in pages:
        for name, value in fields.items():
            if canonical(common.setdefault(name, value)) != canonical(value):
                differing.add(name)
    return {name: value for name, value in common.items() if name not in differing}


def _without(page: JsonObject, top: JsonObject, meta: JsonObject) -> JsonObject:
    """What is left of a page's fields when those that all agree on are taken away."""
    fields = {name: value for name, value in page.items() if name not in top and name != "_meta"}
    own = {name: value for name, value in as_object(page.get("_meta")).items() if name not in meta}
    return {**fields, "_meta": own} if own else fields
