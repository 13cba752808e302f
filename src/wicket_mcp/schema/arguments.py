"""Arguments of a call against the tool's own input schema, before the upstream is touched.

An error names each wrong field, what was expected and what was given, and ends with the signature. What cannot
be checked within bounds passes: a broken schema must not make a tool uncallable. Values are never changed, except
that an object or array which a model sent as JSON text is parsed.
"""

from collections import OrderedDict
from typing import Any

from wicket_mcp.codec import decode
from wicket_mcp.errors import BadArguments
from wicket_mcp.model import JsonObject, Tool, as_list, as_object
from wicket_mcp.schema.checker import Checker, compile_schema
from wicket_mcp.schema.explain import describe_errors, describe_value
from wicket_mcp.schema.signature import display_name, signature
from wicket_mcp.schema.typetext import Types, is_list, is_object

_CACHED = 512


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
    if is_object(parsed):
        return parsed
    raise BadArguments(
        f"The arguments should be an object, got {describe_value(parsed)}.", hint='Send them as {"name": value}.'
    )


def coerce(tool: Tool, arguments: JsonObject) -> JsonObject:
    """`arguments` with JSON text parsed where the schema wants an object or array and no text; else the same."""
    texts = {name: text for name, text in arguments.items() if isinstance(text, str) and _is_bracketed(text)}
    if not texts:
        return arguments
    types = Types(tool.input_schema)
    schemas = {one.name: one.schema for one in types.parameters() if one.name in texts}
    parsed: JsonObject = {}
    for name, schema in schemas.items():
        kinds = types.kinds(schema)
        if "string" in kinds or not kinds & {"object", "array"}:
            continue
        try:
            value = decode(texts[name])
        except ValueError:
            continue
        if (is_object(value) and "object" in kinds) or (is_list(value) and "array" in kinds):
            parsed[name] = value
    return arguments | parsed if parsed else arguments


def check_arguments(tool: Tool, arguments: JsonObject) -> None:
    """Raises BadArguments unless `arguments` fit the tool's input schema, or it cannot be told.

    Null for a parameter that may be left out is left to the upstream: models write it for "none", and most take it.
    """
    checker = _checkers.find(tool)
    errors = checker.errors(_without_nulls(tool, arguments) if None in arguments.values() else arguments)
    if errors == []:
        return
    said = describe_errors(errors, checker.schema, arguments) if errors else "the arguments do not fit the input schema"
    raise BadArguments(f"{display_name(tool)}: {said}.", hint=f"Signature: {signature(tool)}")


def compile_problem(tool: Tool) -> str | None:
    """Why the tool's arguments are not checked, or not wholly; None where they are."""
    return _checkers.find(tool).problem


def _without_nulls(tool: Tool, arguments: JsonObject) -> JsonObject:
    """`arguments` without the nulls that stand for parameters left out."""
    known, required = as_object(tool.input_schema.get("properties")), as_list(tool.input_schema.get("required"))
    return {
        name: value for name, value in arguments.items() if value is not None or name not in known or name in required
    }


def _is_bracketed(text: str) -> bool:
    return text.lstrip()[:1] in ("{", "[")


class _Checkers:
    """The checkers used last, each for as long as its definition is the one in use."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: OrderedDict[int, tuple[JsonObject, Checker]] = OrderedDict()

    def find(self, tool: Tool) -> Checker:
        # Keyed by identity: a definition never changes, and is too large to compare on each call. The entry keeps
        # its definition alive, so that no other can take the same identity meanwhile.
        identity = id(tool.definition)
        entry = self._known.get(identity)
        if entry is None:
            entry = self._known[identity] = (tool.definition, compile_schema(tool.input_schema))
            if len(self._known) > self._most:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(identity)
        return entry[1]


_checkers = _Checkers(_CACHED)
