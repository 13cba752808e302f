"""Explains what is wrong with arguments, so that an agent can correct its call in one step.

Turns the validator's errors into phrases: which field, what was expected, what was given. Knows the error objects'
fields only by name, and never prints a long value.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from wicket_mcp.model import JsonObject
from wicket_mcp.schema.typetext import Style, Types, is_list, is_object, kind_of, literal, within
from wicket_mcp.spelling import nearest

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError

_MOST = 5
_GIVEN = 80
_EXPECTED = 160
_STYLE = Style(depth=1, values=8, fields=6)
_LIMITS = {
    "minimum": "be at least {}",
    "maximum": "be at most {}",
    "exclusiveMinimum": "be more than {}",
    "exclusiveMaximum": "be less than {}",
    "multipleOf": "be a multiple of {}",
    "minLength": "be at least {} characters long",
    "maxLength": "be at most {} characters long",
    "minItems": "have at least {} items",
    "maxItems": "have at most {} items",
    "minProperties": "have at least {} fields",
    "maxProperties": "have at most {} fields",
    "pattern": "match {}",
}
_OTHERS = {
    "uniqueItems": "has items that repeat",
    "falseSchema": "is not allowed",
    "contains": "lacks an item that it must contain",
    "not": "has a form that is not allowed",
    "propertyNames": "has a field name that is not allowed",
}


def describe_errors(errors: "Iterable[ValidationError]", schema: JsonObject, arguments: JsonObject) -> str:
    """All errors, the most useful first: wrong values, then missing fields, then unknown ones."""
    wrong: dict[str, None] = {}
    missing: dict[str, None] = {}
    unknown: dict[str, None] = {}
    narrowed = [deeper for error in errors for deeper in _narrow(error, 3)]
    for error in narrowed:
        if error.kind.name == "required":
            missing[_missing(error, schema)] = None
        elif error.kind.name in ("additionalProperties", "unevaluatedProperties"):
            unknown |= dict.fromkeys(_unknown(error, schema))
        else:
            wrong[_wrong(error, schema)] = None
    if missing:
        unknown |= dict.fromkeys(_misspelt(schema, arguments))
    phrases = [*wrong, *missing, *unknown]
    more = f"; and {len(phrases) - _MOST} more" if len(phrases) > _MOST else ""
    return "; ".join(phrases[:_MOST]) + more


def describe_value(value: Any, limit: int = _GIVEN) -> str:
    """A given value: its type, and the value itself if it is short."""
    if value is None or isinstance(value, bool):
        return literal(value)
    return f"{kind_of(value)} {literal(value, limit - 12)}"


def _narrow(error: "ValidationError", depth: int) -> "list[ValidationError]":
    """The errors of the union branch that was probably meant, if that is clear; else the error itself."""
    context: Any = error.kind.value if error.kind.name in ("anyOf", "oneOf") and depth else None
    if not is_list(context):
        return [error]
    depth_here = len(error.instance_path)
    branches: list[list[ValidationError]] = [
        branch for branch in context if branch and not any(_rules_out(inner, depth_here) for inner in branch)
    ]
    if len(branches) != 1:
        return [error]
    return [deeper for inner in branches[0] for deeper in _narrow(inner, depth - 1)]


def _rules_out(error: "ValidationError", parent_depth: int) -> bool:
    """Whether this error shows that another branch was meant: another type, or another value of a discriminating
    field.
    """
    depth = len(error.instance_path) - parent_depth
    return (error.kind.name == "type" and depth == 0) or (error.kind.name in ("const", "enum") and depth <= 1)


def _missing(error: "ValidationError", schema: JsonObject) -> str:
    name = str(error.kind.value)
    parent = within(schema, error.schema_path[:-1], {})
    field: Any = within(parent, ["properties", name], None)
    if field is None:
        field = within(schema, ["properties", name], True) if not error.instance_path else True
    expected = _type_text(schema, field)
    where = _path([*error.instance_path, name])
    return f"missing {where} ({expected})" if expected != "any" else f"missing {where}"


def _unknown(error: "ValidationError", schema: JsonObject) -> list[str]:
    names: Any = error.kind.value
    properties: Any = within(schema, [*error.schema_path[:-1], "properties"], {})
    present: Any = error.instance
    free = [name for name in properties if name not in present] if is_object(properties) and is_object(present) else []
    return [_stranger([*error.instance_path, name], name, free) for name in names] if is_list(names) else []


def _misspelt(schema: JsonObject, arguments: JsonObject) -> list[str]:
    """Names that the schema allows but does not know: one of them may stand for what is missing."""
    known = [parameter.name for parameter in Types(schema).parameters()]
    free = [name for name in known if name not in arguments]
    strangers = [name for name in arguments if name not in known]
    return [_stranger([name], name, free) for name in strangers[:_MOST]]


def _stranger(path: Sequence[str | int], name: str, free: list[str]) -> str:
    near = nearest(name, free, 1)
    return f"unknown {_path(path)}" + (f" (did you mean '{near[0]}'?)" if near else "")


def _wrong(error: "ValidationError", schema: JsonObject) -> str:
    name, value = error.kind.name, error.kind.value
    where = _path(error.instance_path)
    if name in _OTHERS:
        return f"{where} {_OTHERS[name]}"
    if name in _LIMITS:
        return f"{where} should {_LIMITS[name].format(literal(value, _GIVEN))}, got {describe_value(error.instance)}"
    if name in ("anyOf", "oneOf") and (needs := _needs(value)):
        return f"{where} needs {needs}"
    if type(error.kind).__name__.endswith("OneOfMultipleValid"):
        return f"{where} fits more than one of the forms allowed, got {describe_value(error.instance)}"
    expected = _type_text(schema, within(schema, error.schema_path[:-1], True))
    if expected == "any" and name == "type" and is_list(value):
        expected = " | ".join(map(str, value))
    return f"{where} should be {expected}, got {describe_value(error.instance)}"


def _needs(context: Any) -> str:
    """If all branches of a union only lack required fields: one of these sets is needed."""
    sets: list[str] = []
    for branch in context if is_list(context) else []:
        errors: list[ValidationError] = branch
        if not errors or any(error.kind.name != "required" for error in errors):
            return ""
        sets.append(" and ".join(f"'{error.kind.value}'" for error in errors[:_MOST]))
    return " or ".join(sets[:_MOST])


def _type_text(root: JsonObject, schema: Any) -> str:
    text = Types(root, _STYLE).text(schema)
    return text if len(text) <= _EXPECTED else Types(root, Style(depth=0, values=4)).text(schema)


def _path(steps: Sequence[str | int]) -> str:
    """`'filter.items[0].id'`, or `arguments` for the whole."""
    text = ""
    for step in steps:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
    printable = "".join(char if char.isprintable() else "_" for char in text[:_GIVEN])
    return f"'{printable}'" if text else "the arguments object"
