"""Converts arguments that are clear but have another form than the schema requires.

    null for a parameter that may be left out     left out
    "2" or "true" where a number or a flag goes   2, true
    "a" where a list of texts goes                ["a"]
    JSON text where an object or a list goes      the object or list

Only values that the schema does not accept are converted, and only if one interpretation is possible; the result is
checked afterwards. Pure; called by `schema/arguments.py` for arguments that do not fit. Knows nothing about tools.
"""

import re
from collections.abc import Iterable
from typing import Any

from wicket_mcp.codec import decode
from wicket_mcp.model import JsonObject
from wicket_mcp.schema.typetext import Types, is_list, is_object, kind_of

_INTEGER = re.compile(r"[+-]?\d{1,18}")
_NUMBER = re.compile(r"[+-]?(?:\d{1,18}(?:\.\d{0,18})?|\.\d{1,18})(?:[eE][+-]?\d{1,3})?")
_FLAGS = {"true": True, "false": False}
_DEPTH = 8


def coerce_object(types: Types, schema: Any, value: JsonObject, depth: int = 0) -> JsonObject:
    """`value` with its fields coerced; the same object if nothing changes."""
    resolved = types.resolve(schema)
    fields: Any = resolved.get("properties")
    if depth > _DEPTH or not is_object(fields):
        return value
    required: Any = resolved.get("required")
    changed: JsonObject = {}
    dropped: set[str] = set()
    for name, item in value.items():
        if name not in fields:
            continue
        if item is None and "null" not in types.kinds(fields[name]) and not (is_list(required) and name in required):
            dropped.add(name)
        elif (coerced := _coerce(types, fields[name], item, depth + 1)) is not item:
            changed[name] = coerced
    if not changed and not dropped:
        return value
    return {name: changed.get(name, item) for name, item in value.items() if name not in dropped}


def wants_text(schema: JsonObject, path: Iterable[str | int]) -> bool:
    """Whether `schema` accepts only text at `path`."""
    types, current = Types(schema), schema
    for step in path:
        inner: Any = types.resolve(current)
        fields: Any = inner.get("properties")
        if isinstance(step, int):
            current = _items(types, current)
        elif is_object(fields) and step in fields:
            current = fields[step]
        else:
            return False
    return types.kinds(current) - {"null"} == frozenset({"string"})


def _coerce(types: Types, schema: Any, value: Any, depth: int) -> Any:
    kinds = types.kinds(schema)
    kind = kind_of(value)
    if is_object(value) and "object" in kinds:
        return coerce_object(types, schema, value, depth)
    if is_list(value) and "array" in kinds:
        return _coerce_items(types, schema, value, depth)
    if kind in kinds or kind == "null" or (kind == "integer" and "number" in kinds):
        return value
    if isinstance(value, str):
        read = _read(value, kinds)
        if read is not value:
            return read
    return _as_list(types, schema, value, depth) if "array" in kinds and depth <= _DEPTH else value


def _coerce_items(types: Types, schema: Any, value: list[Any], depth: int) -> list[Any]:
    items = _items(types, schema)
    if depth > _DEPTH or items is True:
        return value
    coerced = [_coerce(types, items, item, depth + 1) for item in value]
    same = all(after is before for after, before in zip(coerced, value, strict=True))
    return value if same else coerced


def _read(text: str, kinds: frozenset[str]) -> Any:
    """The value that `text` represents, among these types; the text itself if it represents none."""
    bare = text.strip()
    if "integer" in kinds and _INTEGER.fullmatch(bare):
        return int(bare)
    if "number" in kinds and _NUMBER.fullmatch(bare):
        return int(bare) if _INTEGER.fullmatch(bare) else float(bare)
    if "boolean" in kinds and bare.lower() in _FLAGS:
        return _FLAGS[bare.lower()]
    if bare[:1] in ("{", "["):
        try:
            value: Any = decode(bare)
        except ValueError:
            return text
        return value if kind_of(value) in kinds else text
    return text


def _as_list(types: Types, schema: Any, value: Any, depth: int) -> Any:
    """A list with the one value, if its type is a valid item type."""
    items = _items(types, schema)
    broken_json = isinstance(value, str) and value.lstrip()[:1] in ("{", "[")
    if items is True or broken_json:
        return value
    kinds = types.kinds(items)
    item = _coerce(types, items, value, depth + 1)
    return [item] if kind_of(item) in kinds and len(kinds) < len(types.kinds(True)) else value


def _items(types: Types, schema: Any) -> Any:
    """The schema of a list's items; True if it is missing or ambiguous."""
    resolved = types.resolve(schema)
    branches: list[Any] = [resolved]
    for keyword in ("anyOf", "oneOf"):
        several: Any = resolved.get(keyword)
        branches += [types.resolve(branch) for branch in several] if is_list(several) else []
    schemas = [branch["items"] for branch in branches if is_object(branch.get("items"))]
    return schemas[0] if len(schemas) == 1 else True
