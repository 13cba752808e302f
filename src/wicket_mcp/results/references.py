"""References to stored results among the arguments of a call: `{"$result": id, "path": "items[0].id"}`.

Finds them, and replaces them by their values. Pure: the caller (`results.py`) has loaded and decoded the results, off
the event loop.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, cast

import msgspec

from wicket_mcp.budget import MAX_PATH, MAX_SUBSTITUTED, check_length
from wicket_mcp.codec import encode, pretty
from wicket_mcp.errors import BadArguments
from wicket_mcp.model import JsonObject, as_list, as_object
from wicket_mcp.results.content import texts_of, value_of
from wicket_mcp.results.paths import select

REFERENCE = "$result"
Path: TypeAlias = tuple[str | int, ...]
TextAt: TypeAlias = Callable[[Path], bool]
"""Whether only text is allowed at this place in the arguments."""


class Reference(msgspec.Struct, frozen=True):
    """One reference: its position, and what it refers to."""

    place: Path
    handle: str
    path: str


def refers(value: Any) -> bool:
    """Whether `value` contains a reference: nearly always not, so the check must be cheap."""
    if isinstance(value, dict):
        fields = cast("JsonObject", value)
        if REFERENCE in fields:
            return True
        inside: Iterable[Any] = fields.values()
    else:
        inside = cast("list[Any]", value)
    return any(isinstance(item, (dict, list)) and refers(item) for item in inside)


def find_references(arguments: Any) -> list[Reference]:
    """All references. Raises BadArguments for a malformed one."""
    references: list[Reference] = []
    waiting: list[tuple[Path, Any]] = [((), arguments)]
    while waiting:
        place, value = waiting.pop()
        if isinstance(value, dict):
            fields = as_object(value)
            if is_reference(fields):
                references.append(_read(place, fields))
            else:
                waiting += [((*place, key), item) for key, item in fields.items() if isinstance(item, (dict, list))]
        elif isinstance(value, list):
            items = enumerate(as_list(value))
            waiting += [((*place, at), item) for at, item in items if isinstance(item, (dict, list))]
    return references


def is_reference(fields: JsonObject) -> bool:
    return REFERENCE in fields and fields.keys() <= {REFERENCE, "path"}


def replace_references(
    arguments: Any, references: list[Reference], bodies: Mapping[str, JsonObject], text_at: TextAt
) -> Any:
    """`arguments` with each reference replaced by its value. Raises BadArguments if that is too much."""
    values: dict[tuple[str, str, bool], tuple[Any, int]] = {}
    replaced: dict[Path, Any] = {}
    total = 0
    for reference in references:
        as_text = text_at(reference.place)
        key = (reference.handle, reference.path, as_text)
        if key not in values:
            value = _value(bodies[reference.handle], reference.path, as_text=as_text)
            values[key] = value, len(value) if isinstance(value, str) else len(encode(value))
        value, size = values[key]
        total += size
        check_substituted(total)
        replaced[reference.place] = value
    return _rebuild(arguments, (), replaced)


def select_part(body: JsonObject, value: Any, path: str) -> Any:
    """The part of a result's value at `path`; `result…` also reads what a server wrapped as `{"result": value}`."""
    structured = as_object(body.get("structuredContent"))
    wrapped = list(structured) == ["result"] and (path == "result" or path.startswith(("result.", "result[")))
    return select(structured if wrapped and not (isinstance(value, dict) and "result" in value) else value, path)


def check_substituted(size: int) -> None:
    if size > MAX_SUBSTITUTED:
        limit = MAX_SUBSTITUTED // 2**20
        raise BadArguments(
            f"References to results may put {limit} MiB into a call at most.", hint="Refer to a part of each by path."
        )


def _read(place: Path, fields: JsonObject) -> Reference:
    handle, path = fields[REFERENCE], fields.get("path", "")
    if not isinstance(handle, str) or not isinstance(path, str):
        raise BadArguments(
            f'A reference to a result is {{"{REFERENCE}": "<id>", "path": "items[0].id"}}, both strings.'
        )
    check_length(path, MAX_PATH, "A path")
    return Reference(place, handle, path)


def _value(body: JsonObject, path: str, *, as_text: bool) -> Any:
    if as_text and not path and (texts := texts_of(body)):
        return "\n".join(texts)  # as the server wrote it
    value = value_of(body)
    value = select_part(body, value, path) if path else value
    return pretty(value) if as_text and not isinstance(value, str) else value


def _rebuild(value: Any, place: Path, replaced: Mapping[Path, Any]) -> Any:
    if place in replaced:
        return replaced[place]
    if isinstance(value, dict):
        return {key: _rebuild(item, (*place, key), replaced) for key, item in as_object(value).items()}
    if isinstance(value, list):
        return [_rebuild(item, (*place, at), replaced) for at, item in enumerate(as_list(value))]
    return value
