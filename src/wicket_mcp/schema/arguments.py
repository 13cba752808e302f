"""Checks the arguments of a call against the tool's own input schema, before the upstream is contacted.

An error names each wrong field, what was expected and what was given, and ends with the signature. Arguments that
cannot be checked within the limits pass: a broken schema must not make a tool uncallable. Valid arguments are never
changed; invalid ones are first coerced to what was probably meant (`schema/coercion.py`).
"""

from typing import Any, cast

from wicket_mcp.codec import decode
from wicket_mcp.errors import BadArguments
from wicket_mcp.model import JsonObject, Tool
from wicket_mcp.schema.checker import find_checker, fits
from wicket_mcp.schema.coercion import coerce_object
from wicket_mcp.schema.explain import describe_errors, describe_value
from wicket_mcp.schema.signature import display_name, signature
from wicket_mcp.schema.typetext import Types


def parse_arguments(value: Any) -> JsonObject:
    """The arguments as an object: as given, from JSON text, or empty for nothing. Raises BadArguments."""
    parsed = value
    if isinstance(value, str):
        try:
            parsed = decode(value) if value.strip() else None
        except ValueError:
            parsed = value
    if parsed is None:
        return {}
    if isinstance(parsed, dict):
        return cast("JsonObject", parsed)
    raise BadArguments(
        f"The arguments should be an object, got {describe_value(parsed)}.", hint='Send them as {"name": value}.'
    )


def fit_arguments(tool: Tool, arguments: JsonObject) -> JsonObject:
    """`arguments` in the form that the tool's schema requires: unchanged if they fit. Raises BadArguments."""
    if fits(tool.definition, arguments):
        return arguments
    arguments = coerce(tool, arguments)
    check_arguments(tool, arguments)
    return arguments


def coerce(tool: Tool, arguments: JsonObject) -> JsonObject:
    """`arguments` coerced to the form that the schema requires (see `schema/coercion.py`)."""
    return coerce_object(Types(tool.input_schema), tool.input_schema, arguments)


def check_arguments(tool: Tool, arguments: JsonObject) -> None:
    """Raises BadArguments if `arguments` are known not to fit the tool's input schema."""
    checker = find_checker(tool.definition)
    errors = checker.errors(arguments)
    if errors == []:
        return
    reason = (
        describe_errors(errors, checker.schema, arguments) if errors else "the arguments do not fit the input schema"
    )
    raise BadArguments(f"{display_name(tool)}: {reason}.", hint=f"Signature: {signature(tool)}")


def compile_problem(tool: Tool) -> str | None:
    """Why the tool's arguments are not checked, or not completely; None if they are."""
    return find_checker(tool.definition).problem
