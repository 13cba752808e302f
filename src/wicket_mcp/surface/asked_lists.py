"""A list request with parameters that Wicket does not know, if one server is served as it is: the server may know them.

Wicket answers list requests from its catalogue. With `unprefixed` there is one server, which gets the request with its
unknown parameters and keys of `_meta`, page by page. Its answer decides which entries the client sees and in which
order, and may add fields to them. What the principal may not see stays hidden, and known fields are those of the
catalogue, which have been checked.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from wicket_mcp.catalog.catalogue import MAX_PAGES
from wicket_mcp.catalog.list_fields import combine
from wicket_mcp.catalog.listing import PageReader
from wicket_mcp.extensions import APP_MARK
from wicket_mcp.model import Caller, JsonObject, as_text

if TYPE_CHECKING:
    from wicket_mcp.surface.protocol import Protocol, Request

MAX_ENTRIES = 10_000
_KNOWN = frozenset({"progressToken", "traceparent", "tracestate", "baggage", APP_MARK})
_RESERVED = "io.modelcontextprotocol/"


class List(NamedTuple):
    """The entries of a list, and the fields beside them."""

    entries: list[JsonObject]
    fields: JsonObject | None


async def ask_server(
    protocol: "Protocol", request: "Request", caller: Caller, key: str, name: str, known: List
) -> List:
    """`known`, as the only server lists it for this request; `known` itself if Wicket knows all that is asked."""
    params = {field: value for field, value in request.unknown.items() if field != "cursor"}
    if not protocol.unprefixed or not (params or _unknown(request.meta)):
        return known

    async def ask(method: str, cursor: JsonObject) -> JsonObject:
        return await protocol.verbs.pass_on(method, {**params, **cursor}, caller, request.meta)

    server, _ = protocol.verbs.addresses.locate("", caller.principal)
    reader = PageReader(ask, MAX_ENTRIES, MAX_PAGES)
    listed = await reader.read(request.method, key)
    by_name = {as_text(entry.get(name)): entry for entry in known.entries}
    named = [(as_text(entry.get(name)), entry) for entry in listed]
    entries = [{**entry, **by_name[name]} for name, entry in named if name in by_name]
    return List(entries, combine({server: next(iter(reader.fields.values()), ())}))


def _unknown(meta: Mapping[str, Any]) -> bool:
    return any(not key.startswith(_RESERVED) and key not in _KNOWN for key in meta)
