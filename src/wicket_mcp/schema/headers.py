"""Parameters that a modern HTTP request repeats in headers (`x-mcp-header` in a tool's schema), both ways.

As a client we send `Mcp-Param-*` for upstreams that ask for it; as a server we reject a request whose headers and body
disagree, because a proxy may have made decisions from the headers.
"""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any

from wicket_mcp.model import JsonObject, Tool, as_list, as_object
from wicket_mcp.upstream.http_headers import header_value

MARK = "x-mcp-header"
PREFIX = "mcp-param-"

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_ONE = ("items", "contains", "additionalProperties", "propertyNames", "not", "if", "then", "else", "unevaluatedItems")
_MANY = ("allOf", "anyOf", "oneOf", "prefixItems")
_NAMED = ("patternProperties", "dependentSchemas", "$defs", "definitions")
_DEPTH = 32

Place = tuple[str, ...] | None
"""The property names that lead to a schema; None once anything other than a property was crossed."""


def invalid_mark(schema: JsonObject) -> str:
    """Why a tool's header marks cannot be used; empty if they can. A client must not offer such a tool."""
    seen: set[str] = set()
    for place, part in _parts(schema, (), 0):
        if MARK not in part:
            continue
        name: Any = part[MARK]
        if not place:
            return f"{MARK} stands where no argument is"
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            return f"{MARK} of '{'.'.join(place)}' is not a valid header name"
        if part.get("type") not in ("string", "integer", "boolean"):
            return f"{MARK} of '{'.'.join(place)}' needs the type string, integer or boolean"
        if name.lower() in seen:
            return f"{MARK} '{name}' is used twice"
        seen.add(name.lower())
    return ""


def parameter_headers(tool: Tool, arguments: JsonObject) -> dict[str, str] | None:
    """The headers that repeat `arguments`, for a tool that requires any."""
    if not tool.headed:
        return None
    headers: dict[str, str] = {}
    for place, name, _ in _marks(tool.input_schema):
        text = _text(_at(arguments, place))
        if text is not None:
            headers[f"Mcp-Param-{name}"] = header_value(text)
    return headers


def disagreement(tool: Tool, arguments: JsonObject, headers: Mapping[str, list[str]]) -> str:
    """How the `Mcp-Param-*` headers (lower-case name to values) contradict the body; empty if they do not."""
    if not tool.headed:
        return ""
    for place, name, kind in _marks(tool.input_schema):
        values = headers.get(PREFIX + name.lower(), [])
        value = _at(arguments, place)
        text = _text(value)
        where = f"the header Mcp-Param-{name} and the argument '{'.'.join(place)}'"
        if len(values) > 1:
            return f"The header Mcp-Param-{name} appears more than once."
        if bool(values) != (text is not None):
            return f"One of {where} is missing."
        if values and not _agree(decode_header(values[0]), value, text or "", kind):
            return f"{where[0].upper()}{where[1:]} differ."
    return ""


def decode_header(value: str | None) -> str | None:
    """A header value, decoded if it was encoded. None if it is not canonical."""
    if value is None or not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    payload = value[len("=?base64?") : -len("?=")]
    try:
        raw = base64.b64decode(payload, validate=True)
        return raw.decode("utf-8") if base64.b64encode(raw).decode() == payload else None
    except (binascii.Error, UnicodeDecodeError):
        return None


def _marks(schema: JsonObject) -> Iterator[tuple[tuple[str, ...], str, Any]]:
    for place, part in _parts(schema, (), 0):
        if place and isinstance(part.get(MARK), str):
            yield place, part[MARK], part.get("type")


def _parts(schema: Any, place: Place, depth: int) -> Iterator[tuple[Place, JsonObject]]:
    part = as_object(schema)
    if not part or depth > _DEPTH:
        return
    yield place, part
    for name, inner in as_object(part.get("properties")).items():
        yield from _parts(inner, (*place, name) if place is not None else None, depth + 1)
    inside = [part[key] for key in _ONE if key in part]
    inside += [inner for key in _MANY for inner in as_list(part.get(key))]
    inside += [inner for key in _NAMED for inner in as_object(part.get(key)).values()]
    for inner in inside:
        yield from _parts(inner, None, depth + 1)


def _at(arguments: JsonObject, place: tuple[str, ...]) -> Any:
    value: Any = arguments
    for name in place:
        value = as_object(value).get(name)
    return value


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else None


def _agree(header: str | None, value: Any, text: str, kind: Any) -> bool:
    """Whether a header equals the argument; integers compare as numbers, so that 42.0 equals 42."""
    if kind == "integer" and not isinstance(value, str) and re.fullmatch(r"-?\d{1,30}(\.0+)?", header or ""):
        return int((header or "").partition(".")[0]) == value
    return header == text
