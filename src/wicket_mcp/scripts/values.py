"""Converts a tool's answer for a script, and a script's arguments for a tool.

Pure functions over JSON. A script wants the data, not the envelope: structured content, else text that is JSON, else
the text. A tool wants the types of its schema, which a language cannot always express: Lua has one empty table, and its
numbers may have the wrong type.
"""

from typing import Any, cast

from wicket_mcp.model import Json, JsonObject
from wicket_mcp.results.content import blocks_of, parse_text, text_of, texts_of
from wicket_mcp.scripts.frames import deeper
from wicket_mcp.scripts.limits import MAX_DEPTH


def unwrap(body: JsonObject) -> tuple[bool, Json]:
    """Whether a tool's result is a success, and its data; a failure's data is its text.

    A script gets structured content as the tool's schema declares it, and the whole of a result with several blocks: it
    may need the images too.
    """
    blocks = blocks_of(body)
    if body.get("isError"):
        return False, "\n".join(filter(None, texts_of(body))) or "the tool reported an error without a message"
    structured: Any = body.get("structuredContent")
    if structured is not None:
        return True, structured
    text = text_of(blocks[0]) if len(blocks) == 1 and blocks[0].get("type") == "text" else None
    if text is None:
        return True, body
    value = parse_text(text)
    return True, text if deeper(value, MAX_DEPTH) else value


def fit(value: Json, schema: Json, depth: int = 0) -> Json:
    """`value` with empty objects turned into lists, and whole floats into integers, if `schema` requires it."""
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        return value
    known = cast("dict[str, Any]", schema)
    kind = known.get("type")
    if value == {} and isinstance(value, dict) and kind == "array":
        return []
    if isinstance(value, float) and kind == "integer" and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        fields: Any = known.get("properties")
        if isinstance(fields, dict):
            inner = cast("dict[str, Any]", fields)
            return {k: fit(v, inner.get(k), depth + 1) for k, v in cast("dict[str, Any]", value).items()}
    elif isinstance(value, list) and "items" in known:
        return [fit(item, known["items"], depth + 1) for item in cast("list[Any]", value)]
    return cast("Json", value)
