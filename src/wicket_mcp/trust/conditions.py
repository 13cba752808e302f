"""Conditions on the arguments of a call, as JSON Schemas: those of rules, and those of approvals given with "always".

Owns which way a doubt goes. What allows a call must surely fit: arguments that are too deep or too large to be checked
do not, nor does a list where the condition speaks of a text (JSON Schema's `pattern` says nothing about lists). What
asks or refuses needs only to fit possibly. Knows nothing about rules. Pure.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from wicket_mcp.errors import ConfigError
from wicket_mcp.model import JsonObject, as_list, as_object
from wicket_mcp.schema.checker import Checker, compile_schema
from wicket_mcp.spelling import nearest

_KEYWORDS: Mapping[str, frozenset[str]] = {
    "string": frozenset({"pattern", "minLength", "maxLength", "format"}),
    "number": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
    "array": frozenset({"items", "prefixItems", "contains", "minContains", "maxContains", "minItems", "maxItems",
                        "uniqueItems"}),
    "object": frozenset({"properties", "patternProperties", "additionalProperties", "propertyNames", "required",
                         "minProperties", "maxProperties", "dependentRequired", "dependentSchemas"}),
}  # fmt: skip
"""The keywords that say something about values of one type only, and pass all others."""
_OF_ANY_TYPE = frozenset({"type", "enum", "const", "not", "allOf", "anyOf", "oneOf", "if", "then", "else"})
_NOTES = frozenset({"title", "description", "$comment"})
_KNOWN = _OF_ANY_TYPE.union(_NOTES, *_KEYWORDS.values())
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_TABLES = ("properties", "patternProperties", "dependentSchemas")
_PARTS = ("not", "if", "then", "else", "items", "contains", "additionalProperties", "propertyNames")


class Condition(msgspec.Struct, frozen=True):
    """A compiled condition on arguments of these names."""

    names: frozenset[str]
    checker: Checker
    allows: bool
    """Whether what fits is allowed, so that a doubt means that it does not fit."""
    exact: bool = False
    """Whether arguments of other names may not be there."""

    def fits(self, arguments: JsonObject) -> bool:
        if not self.names <= arguments.keys() or (self.exact and len(arguments) > len(self.names)):
            return False
        verdict = self.checker.judge({name: arguments[name] for name in self.names})
        return not self.allows if verdict is None else verdict


def compile_condition(schemas: JsonObject, *, allows: bool, exact: bool = False, key: str = "") -> Condition:
    """A condition with a JSON Schema for each argument. Raises ConfigError, which names `key`, for what is not one."""
    for name, part in schemas.items():
        _check(part, name, key)
    parts = {name: _mind_types(part, tighten=allows) for name, part in schemas.items()}
    schema: JsonObject = {"type": "object", "properties": parts, "required": list(parts)}
    checker = compile_schema(schema, check_formats=True)
    if checker.problem is not None:
        raise ConfigError(f"is not a JSON Schema: {checker.problem}", key=key, hint="Check the rule.")
    return Condition(frozenset(schemas), checker, allows, exact)


def _check(schema: Any, place: str, key: str) -> None:
    """Raises ConfigError for a keyword that does not exist: a validator would pass over it in silence."""
    for keyword in as_object(schema):
        if keyword not in _KNOWN:
            meant = nearest(keyword, _KNOWN, 1)
            hint = f"Did you mean '{meant[0]}'?" if meant else "Check the rule."
            raise ConfigError(f"is not a JSON Schema: {place} has the unknown keyword '{keyword}'.", key=key, hint=hint)
    for keyword, part in _subschemas(as_object(schema)):
        _check(part, f"{place}.{keyword}", key)


def _subschemas(schema: JsonObject) -> Iterable[tuple[str, Any]]:
    for keyword in _LISTS:
        yield from ((keyword, part) for part in as_list(schema.get(keyword)))
    for keyword in _TABLES:
        yield from ((keyword, part) for part in as_object(schema.get(keyword)).values())
    yield from ((keyword, schema[keyword]) for keyword in _PARTS if keyword in schema)


def _mind_types(schema: Any, *, tighten: bool) -> Any:
    """The schema with the type that its keywords speak of, where it must not pass values of other types.

    What is negated must be as wide as the whole is narrow, and the other way round.
    """
    if not isinstance(schema, dict):
        return schema
    minded: JsonObject = dict(as_object(schema))
    types = [kind for kind, keywords in _KEYWORDS.items() if not keywords.isdisjoint(minded)]
    if tighten and types:
        minded.setdefault("type", types)
    for keyword in _LISTS:
        if keyword in minded:
            minded[keyword] = [_mind_types(part, tighten=tighten) for part in as_list(minded[keyword])]
    for keyword in _TABLES:
        if keyword in minded:
            parts = as_object(minded[keyword])
            minded[keyword] = {name: _mind_types(part, tighten=tighten) for name, part in parts.items()}
    for keyword in _PARTS:
        if keyword in minded and keyword not in ("if", "then", "else"):
            minded[keyword] = _mind_types(minded[keyword], tighten=tighten != (keyword == "not"))
    return minded
