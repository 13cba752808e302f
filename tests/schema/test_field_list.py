"""Schemas spelled out for readers, and values that fit them."""

import json
from pathlib import Path
from typing import Any

import jsonschema_rs

from wicket_mcp.schema.field_list import example, fields

CATALOG = Path(__file__).parent.parent / "data" / "catalog"
NESTED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "where": {"$ref": "#/$defs/Place"},
        "items": {"type": "array", "items": {"$ref": "#/$defs/Place"}},
        "unit": {"enum": ["c", "f"], "default": "c", "description": "Of degrees."},
        "day": {"type": "string", "format": "date"},
        "count": {"type": "integer", "minimum": 3, "maximum": 9},
    },
    "required": ["where", "day", "count"],
    "$defs": {
        "Place": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "inside": {"$ref": "#/$defs/Place"}},
            "required": ["city"],
        }
    },
}


def test_fields_are_listed_with_their_own_below_them() -> None:
    shown = [str(field) for field in fields(NESTED)]
    assert shown[:2] == ["- where (object, required)", "  - city (string, required)"]
    assert "- day (string, required, format date)" in shown
    assert "- count (integer, required, at least 3, at most 9)" in shown
    assert '- unit ("c" | "f", optional, default "c"): Of degrees.' in shown
    assert "- items (object[], optional)" in shown
    assert len(shown) < 40, "a schema that contains itself ends"


def test_an_example_has_the_required_fields_with_fitting_values() -> None:
    assert example(NESTED) == {"where": {"city": "text"}, "day": "2026-01-31", "count": 3}


def test_examples_of_published_tools_fit_their_schemas() -> None:
    """All but those with a pattern, or with choices that a single value cannot make."""
    tools = [tool for path in CATALOG.glob("*.json") for tool in json.loads(path.read_text())["tools"]]
    wrong: list[str] = []
    for tool in tools:
        schema = tool["inputSchema"]
        assert fields(schema) or not schema.get("properties")
        kinds = {
            type(error.kind).__name__ for error in jsonschema_rs.validator_for(schema).iter_errors(example(schema))
        }
        assert kinds <= {"Pattern", "AnyOf", "OneOfNotValid", "OneOfMultipleValid"}, tool["name"]
        wrong += [tool["name"]] * bool(kinds)
    assert len(wrong) / len(tools) < 0.03
