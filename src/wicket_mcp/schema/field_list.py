"""A schema for readers: its fields one by one, nested ones below their parents, and an example value.

Reads schemas through `typetext`, which limits the work and resolves references.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from wicket_mcp.model import JsonObject, as_list, as_object, as_text
from wicket_mcp.schema.typetext import Style, Types, is_object, literal

MOST_FIELDS = 200
_DEPTH = 4
_FLAT = Style(depth=0, values=20)
_FORMATS = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00",
    "email": "ada@example.com",
    "uri": "https://example.com",
    "url": "https://example.com",
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
}


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its depth, its type, and further details."""

    name: str
    depth: int
    type: str
    required: bool
    notes: tuple[str, ...]
    description: str

    def __str__(self) -> str:
        facts = ", ".join((self.type, "required" if self.required else "optional", *self.notes))
        words = " ".join(self.description.split())
        return f"{'  ' * self.depth}- {self.name} ({facts}){f': {words}' if words else ''}"


def fields(schema: JsonObject) -> list[Field]:
    """The fields of an object schema, required ones first, each followed by its own."""
    rows: list[Field] = []
    for field in _fields(schema, schema, 0):
        rows.append(field)
        if len(rows) >= MOST_FIELDS:
            break
    return rows


def example(schema: JsonObject) -> JsonObject:
    """Arguments that the schema accepts, as far as is known: the required ones."""
    return as_object(_example(schema, schema, 0))


def _fields(schema: JsonObject, root: JsonObject, depth: int) -> Iterator[Field]:
    types = Types(_with_definitions(schema, root), _FLAT)
    for parameter in types.parameters():
        known = types.resolve(parameter.schema)
        inner = _inner(types, known)
        kind = types.text(parameter.schema)
        if inner is not None:
            kind = "object[]" if "array" in types.kinds(parameter.schema) else "object"
        yield Field(parameter.name, depth, kind, parameter.required, _notes(known), types.description(parameter.schema))
        if inner is not None and depth < _DEPTH:
            yield from _fields(inner, root, depth + 1)


def _inner(types: Types, known: JsonObject) -> JsonObject | None:
    """The object that a field is, or is a list of, if its fields are known."""
    for candidate in (known, types.resolve(known.get("items"))):
        if as_object(candidate.get("properties")):
            return candidate
    return None


def _notes(known: JsonObject) -> tuple[str, ...]:
    notes = [f"format {known['format']}"] if isinstance(known.get("format"), str) else []
    for word, key in (("at least", "minimum"), ("at most", "maximum"), ("pattern", "pattern")):
        if key in known:
            notes.append(f"{word} {literal(known[key])}")
    if known.get("default") is not None:
        notes.append(f"default {literal(known['default'])}")
    return tuple(notes)


def _example(schema: Any, root: JsonObject, depth: int) -> Any:
    types = Types(_with_definitions(as_object(schema), root), _FLAT)
    known = types.resolve(schema)
    own_example = _example_in(known)
    if own_example is not None or depth > _DEPTH:
        return own_example
    kinds = types.kinds(schema)
    if "object" in kinds and (known.get("properties") or known.get("type") == "object" or len(kinds) == 1):
        required = [parameter for parameter in types.parameters() if parameter.required]
        return {parameter.name: _example(parameter.schema, root, depth + 1) for parameter in required}
    for branch in as_list(known.get("anyOf")) or as_list(known.get("oneOf")):
        if types.kinds(branch) != frozenset({"null"}):
            return _example(branch, root, depth + 1)
    return _example_of_kind(known, kinds, root, depth)


def _example_in(known: JsonObject) -> Any:
    """The example value in the schema itself."""
    for value in (known.get("const"), known.get("default"), *as_list(known.get("examples"))[:1]):
        if value is not None:
            return value
    return next(iter(as_list(known.get("enum"))), None)


def _example_of_kind(known: JsonObject, kinds: frozenset[str], root: JsonObject, depth: int) -> Any:
    if "string" in kinds:
        return _FORMATS.get(as_text(known.get("format")), "text")
    if kinds & {"integer", "number"}:
        least = known.get("minimum", 1)
        return max(1, least) if isinstance(least, int | float) else 1
    if "boolean" in kinds:
        return True
    if "array" in kinds:
        items = known.get("items")
        least = known.get("minItems", 1)
        count = min(max(1, least), 5) if isinstance(least, int) else 1
        return [_example(items, root, depth + 1)] * count if is_object(items) else []
    return None


def _with_definitions(schema: JsonObject, root: JsonObject) -> JsonObject:
    """`schema` as a separate document in which references into `root` still work."""
    homes = {key: root[key] for key in ("$defs", "definitions") if key in root}
    return {**homes, **schema}
