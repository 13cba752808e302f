"""The shape of a JSON value, in one line: `{items: 120 × {id: integer, title: string}, total: integer}`.

Bounded in depth, width and length, so that the summary of any value stays under some 500 tokens.
"""

from typing import Any

from wicket_mcp.model import as_list, as_object

_DEPTH = 4
_WIDTH = 20
_LENGTH = 1500


def outline(value: Any) -> str:
    text = _outline(value, _DEPTH)
    return text if len(text) <= _LENGTH else f"{text[: _LENGTH - 1]}…"


def _outline(value: Any, depth: int) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string" if len(value) < 1000 else f"string of {len(value)} characters"
        case list():
            return _outline_list(as_list(value), depth)
        case dict():
            return _outline_object(as_object(value), depth)
        case _:
            return type(value).__name__


def _outline_list(items: list[Any], depth: int) -> str:
    if not items:
        return "[]"
    if depth == 0:
        return f"{len(items)} × …"
    kinds = list(dict.fromkeys(_outline(item, depth - 1) for item in items[:_WIDTH]))
    return f"{len(items)} × {kinds[0]}" if len(kinds) == 1 else f"{len(items)} × ({' | '.join(kinds[:4])})"


def _outline_object(value: dict[str, Any], depth: int) -> str:
    if not value:
        return "{}"
    if depth == 0:
        return "{…}"
    fields = [f"{key}: {_outline(item, depth - 1)}" for key, item in list(value.items())[:_WIDTH]]
    more = [f"… {len(value) - _WIDTH} more"] if len(value) > _WIDTH else []
    return "{" + ", ".join(fields + more) + "}"
