"""Plain arguments are recognised without the validator, and only arguments that the validator accepts."""

from typing import Any

import jsonschema_rs
import pytest

from wicket_mcp.model import JsonObject
from wicket_mcp.schema.checker import compile_schema

VALUES: tuple[Any, ...] = ("a", "", 1, 1.0, 1.5, True, None, {}, {"x": [1]}, [], ["a"])
PROPERTIES: tuple[JsonObject | bool, ...] = (
    *({"type": kind} for kind in ("string", "integer", "number", "boolean", "object", "array", "null")),
    {"type": ["object", "string", "null"]},
    {"type": "string", "description": "A note.", "default": "b"},
    {"type": "string", "minLength": 1},
    {"type": "array", "items": {"type": "integer"}},
    {"enum": ["a"]},
    {"$ref": "#/properties/b"},
    {},
    False,
)
CONDITIONS: tuple[JsonObject, ...] = (
    {},
    {"required": ["a"]},
    {"required": ["a", "b"], "additionalProperties": False},
    {"minProperties": 2},
    {"not": {"required": ["a"]}},
    {"anyOf": [{"required": ["b"]}]},
    {"patternProperties": {"a": {"type": "integer"}}},
)


@pytest.mark.parametrize("conditions", CONDITIONS)
def test_what_is_plain_is_valid(conditions: JsonObject) -> None:
    for part in PROPERTIES:
        schema: JsonObject = {"type": "object", "properties": {"a": part, "b": {"type": "integer"}}, **conditions}
        checker, validator = compile_schema(schema), jsonschema_rs.validator_for(schema)
        given: list[JsonObject] = [{}, {"b": 1}, {"c": 1}]
        given += [{"a": value} for value in VALUES] + [{"a": value, "b": 1} for value in VALUES]
        for arguments in given:
            assert not checker.is_plain(arguments) or validator.is_valid(arguments), (schema, arguments)


def test_the_usual_arguments_are_plain() -> None:
    properties = {
        "a": {"type": "string", "title": "A"},
        "b": {"type": "integer"},
        "c": {"type": "integer", "minimum": 0},
    }
    checker = compile_schema({"type": "object", "properties": properties, "required": ["a"]})
    assert checker.is_plain({"a": "x"})
    assert checker.is_plain({"a": "x", "b": 1})
    assert not checker.is_plain({"b": 1})
    assert not checker.is_plain({"a": "x", "c": 1})
