"""What a script gets of a tool's answer, and what a tool gets of a script's arguments.

Pure functions over JSON. A script wants the data, not the envelope: structured content, else text that is JSON,
else the text. A tool wants what its schema says where a language cannot say it: Lua has one empty table, and
one kind of number reads as another.
"""

from typing import Any, cast

from wicket_mcp import codec
from wicket_mcp.model import Json, JsonObject
from wicket_mcp.scripts.frames import deeper
from wicket_mcp.scripts.limits import MAX_DEPTH


def unwrap(body: JsonObject) -> tuple[bool, Json]:
    """Whether a tool's result is a success, and its data; a failure's data is its text."""
    blocks = cast("list[Any]", body.get("content")) if isinstance(body.get("content"), list) else []
    texts = [_text(block) for block in blocks]
    if body.get("isError"):
        said = "\n".join(text for text in texts if text)
        return False, said or "the tool reported an error without a message"
    structured: Any = body.get("structuredContent")
    if structured is not None:
        return True, structured
    if len(texts) != 1 or texts[0] is None:
        return True, body
    return True, _json_or_text(texts[0])


def fit(value: Json, schema: Json, depth: int = 0) -> Json:
    """`value` with empty objects made lists, and whole floats integers, where `schema` asks for them."""
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        return value
    known = cast("dict[str, Any]", schema)
    wanted = known.get("type")
    if value == {} and isinstance(value, dict) and wanted == "array":
        return []
    if isinstance(value, float) and wanted == "integer" and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        fields: Any = known.get("properties")
        if isinstance(fields, dict):
            inner = cast("dict[str, Any]", fields)
            return {k: fit(v, inner.get(k), depth + 1) for k, v in cast("dict[str, Any]", value).items()}
    elif isinstance(value, list) and "items" in known:
        return [fit(item, known["items"], depth + 1) for item in cast("list[Any]", value)]
    return cast("Json", value)


def _text(block: Any) -> str | None:
    if not isinstance(block, dict):
        return None
    known = cast("dict[str, Any]", block)
    text: Any = known.get("text")
    return text if known.get("type") == "text" and isinstance(text, str) else None


def _json_or_text(text: str) -> Json:
    """An object or a list when the text is one; a lone `42` stays the text that it is."""
    if text.lstrip()[:1] not in ("{", "["):
        return text
    try:
        value = codec.decode(text)
    except ValueError:
        return text
    return text if deeper(value, MAX_DEPTH) else value
