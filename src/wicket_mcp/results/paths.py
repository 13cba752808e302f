"""Selects a part of a JSON value: `items[0].id`, `items[*].name`, `rows[-3:]`, `["odd key"].x`, with or without `$`.

Deliberately small: every expression takes time linear in the value, and every error says what exists instead.
"""

import re
from typing import Any

from wicket_mcp.errors import BadArguments
from wicket_mcp.model import as_list, as_object

_STEP = re.compile(
    r"""\.?(?:
        (?P<key>[^.\[\]"'*]+) | (?P<star>\*) |
        \[(?: (?P<index>-?\d+) | (?P<slice>-?\d*:-?\d*) | (?P<all>\*) | "(?P<dq>[^"]*)" | '(?P<sq>[^']*)' )\]
    )""",
    re.VERBOSE,
)
_SHOWN_KEYS = 12


def select(value: Any, path: str) -> Any:
    """The part of `value` at `path`; with `*` or a slice, a list of parts. Raises BadArguments."""
    unread = path.strip().removeprefix("$")
    values, many, walked = [value], False, ""
    while unread:
        step = _STEP.match(unread)
        if step is None:
            raise BadArguments(
                f"The path '{path}' cannot be read at '{unread[:20]}'.",
                hint="Write it like items[0].name or items[*].id.",
            )
        unread = unread[step.end() :]
        values = [part for current in values for part in _follow(current, step, walked or "the top", strict=not many)]
        many = many or any(step[name] is not None for name in ("star", "all", "slice"))
        walked += step[0]
    return values if many else values[0]


def _follow(value: Any, step: re.Match[str], where: str, *, strict: bool) -> list[Any]:
    """The value after one step. After a `*` a missing key is not an error: not every item has every key."""
    if step["star"] is not None or step["all"] is not None:
        return list(as_object(value).values()) if isinstance(value, dict) else _items(value, where)
    if step["slice"] is not None:
        first, last = (int(end) if end else None for end in step["slice"].split(":"))
        return _items(value, where)[first:last]
    if step["index"] is not None:
        items = _items(value, where)
        number = int(step["index"])
        if -len(items) <= number < len(items):
            return [items[number]]
        return _miss(f"{where} has {len(items)} items, so there is no [{number}]", strict)
    key = next(step[name] for name in ("key", "dq", "sq") if step[name] is not None)
    if key in as_object(value):
        return [value[key]]
    return _miss(f"there is no '{key}' at {where}, which is {_describe(value)}", strict)


def _items(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise BadArguments(f"The path finds no list at {where}, which is {_describe(value)}.")
    return as_list(value)


def _miss(problem: str, strict: bool) -> list[Any]:
    if strict:
        raise BadArguments(f"The path finds nothing: {problem}.")
    return []


def _describe(value: Any) -> str:
    if isinstance(value, dict):
        keys = list(as_object(value))
        more = ", …" if len(keys) > _SHOWN_KEYS else ""
        return f"an object with the keys {', '.join(keys[:_SHOWN_KEYS])}{more}" if keys else "an empty object"
    if isinstance(value, list):
        return f"a list of {len(as_list(value))} items"
    return f"a {type(value).__name__}" if value is not None else "null"
