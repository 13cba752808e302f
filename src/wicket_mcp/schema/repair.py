"""Repairs schemas that a validator rejects, by removing the rejected parts.

Only if that is safe: a repaired schema must accept everything that its author meant to accept, because an unsupported
pattern or an unreachable reference must not make a tool uncallable. Schemas are copied, never changed.
"""

from typing import Any

from wicket_mcp.model import JsonObject
from wicket_mcp.schema.typetext import is_list, is_object, target

_BACKFIRING = ("not", "if", "oneOf", "contains")
"""Keywords with which a more lenient part can make the whole stricter."""
_UNEVALUATED = ("unevaluatedProperties", "unevaluatedItems")
_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_DATA = frozenset({"const", "enum", "default", "examples"})
_LEANING = {
    "properties": ("additionalProperties",),
    "patternProperties": ("additionalProperties",),
    "prefixItems": ("items",),
    "items": ("additionalItems",),
}
"""Keywords that depend on what another keyword leaves over."""
_DRAFTS = ("http://json-schema.org/draft-0", "https://json-schema.org/draft-0", "https://json-schema.org/draft/20")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


def repair(schema: JsonObject, path: list[Any]) -> JsonObject | None:
    """`schema` without the error at `path`, or None if it cannot be repaired.

    A validator reports an empty path for an unknown `$schema` and for broken references.
    """
    if any(subschemas_with(schema, keyword) for keyword in _UNEVALUATED):
        return None
    if not path or any(subschemas_with(schema, keyword) for keyword in _REFERENCES):
        backfires = any(subschemas_with(schema, keyword) for keyword in _BACKFIRING)
    else:
        backfires = any(keyword in path for keyword in _BACKFIRING)
    if backfires:
        return None
    if path:
        return _without(schema, path, in_map=False)
    if not str(schema.get("$schema", _DRAFTS[0])).startswith(_DRAFTS):
        return {key: value for key, value in schema.items() if key != "$schema"}
    loose = _without_dangling(schema, schema)
    return loose if loose != schema else None


def spell_out(schema: JsonObject) -> JsonObject:
    """`schema` with OpenAPI's `nullable`, which JSON Schema does not know, turned into a union with null."""
    return (
        _spell_out(schema) if any(part["nullable"] is True for part in subschemas_with(schema, "nullable")) else schema
    )


def subschemas_with(schema: Any, key: str) -> list[JsonObject]:
    """Every object inside `schema` that has `key`."""
    matches: list[JsonObject] = []
    pending: list[Any] = [schema]
    while pending:
        part: Any = pending.pop()
        if is_object(part):
            if key in part:
                matches.append(part)
            pending.extend(part.values())
        elif is_list(part):
            pending.extend(part)
    return matches


def _without(schema: Any, path: list[Any], *, in_map: bool) -> Any:
    step, *remaining = path
    if is_list(schema):
        return [
            _without(item, remaining, in_map=False) if at == step and remaining else item
            for at, item in enumerate(schema)
        ]
    if not is_object(schema):
        return schema
    copy = dict(schema)
    below: Any = copy.get(step)
    whole = not remaining or (len(remaining) == 1 and (is_list(below) or (step == "patternProperties" and not in_map)))
    if not whole:
        copy[step] = _without(below, remaining, in_map=step in _MAPS and not in_map)
    elif in_map:
        copy[step] = True
    else:
        for keyword in (step, *_LEANING.get(step, ())):
            copy.pop(keyword, None)
    return copy


def _without_dangling(schema: Any, root: JsonObject) -> Any:
    if is_list(schema):
        return [_without_dangling(part, root) for part in schema]
    if not is_object(schema):
        return schema
    dangling = [key for key in _REFERENCES if isinstance(schema.get(key), str) and _leads_nowhere(root, schema[key])]
    if dangling and str(root.get("$schema", "")).startswith(_DRAFTS[:2]):
        return {}  # Up to draft 7 a reference silences what stands beside it, which must not speak up now.
    return {
        key: part if key in _DATA else _without_dangling(part, root)
        for key, part in schema.items()
        if key not in dangling
    }


def _leads_nowhere(root: JsonObject, reference: str) -> bool:
    if not reference.startswith("#"):
        return not subschemas_with(root, "$id")
    named = not reference.startswith("#/") and reference != "#"
    return (
        not (subschemas_with(root, "$anchor") or subschemas_with(root, "$dynamicAnchor"))
        if named
        else target(root, reference, None) is None
    )


def _spell_out(schema: Any) -> Any:
    if is_list(schema):
        return [_spell_out(part) for part in schema]
    if not is_object(schema):
        return schema
    plain = {key: part if key in _DATA else _spell_out(part) for key, part in schema.items()}
    if plain.get("nullable") is not True:
        return plain
    del plain["nullable"]
    return {"anyOf": [plain, {"type": "null"}]}
