"""Arguments as one types them in a shell, made into what the tool's schema wants.

owner=octo  count=5  dry_run=true    typed by the schema: text stays text where text is wanted
label=bug label=ui                   a list, where the schema wants one
filter.state=open                    a field of an object
ids:=[1,2]                           JSON, taken as it is
'{"owner": "octo"}'  or  -           one JSON object, or the same from stdin
"""

import contextlib
import sys
from typing import Any, cast

from wicket_mcp.codec import decode
from wicket_mcp.errors import BadArguments
from wicket_mcp.model import JsonObject, Tool, as_object
from wicket_mcp.schema.signature import signature
from wicket_mcp.schema.typetext import Types

_TRUTH = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def parse(words: list[str], tool: Tool) -> JsonObject:
    """The arguments object. Raises BadArguments for what cannot be read; the call path checks the rest."""
    if words == ["-"]:
        words = [sys.stdin.read()]
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        return _object(words[0])
    reader = _Reader(tool)
    arguments: JsonObject = {}
    for item in words:
        reader.take(item, arguments)
    return arguments


def _object(text: str) -> JsonObject:
    value = _json(text, "The arguments")
    if not isinstance(value, dict):
        raise BadArguments("The arguments should be a JSON object.", hint='Write {"name": value}.')
    return cast("JsonObject", value)


def _json(text: str, subject: str) -> Any:
    try:
        return decode(text)
    except ValueError as problem:
        raise BadArguments(f"{subject} cannot be read as JSON: {problem}.", hint="Check the quoting.") from None


class _Reader:
    """Reads pairs against one tool's schema."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool
        self._types = Types(tool.input_schema)
        self._schemas = {parameter.name: parameter.schema for parameter in self._types.parameters()}

    def take(self, item: str, arguments: JsonObject) -> None:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise BadArguments(
                f"'{item}' is neither key=value nor a JSON object.", hint=f"The tool is {signature(self._tool)}."
            )
        if key.endswith(":") and key not in self._schemas:
            self._put(arguments, key[:-1], _json(value, f"'{key[:-1]}'"))
        else:
            self._put(arguments, key, value, typed=True)

    def _put(self, arguments: JsonObject, key: str, value: Any, *, typed: bool = False) -> None:
        head, dot, tail = key.partition(".")
        if dot and key not in self._schemas and "object" in self._kinds(head):
            inner = as_object(as_object(self._schemas.get(head)).get("properties")).get(tail)
            target = arguments.setdefault(head, {})
            if isinstance(target, dict):
                target[tail] = self._coerce(value, inner) if typed else value
                return
        if not typed:
            arguments[key] = value
            return
        new = self._coerce(value, self._schemas.get(key))
        if key in arguments and isinstance(arguments[key], list) and isinstance(new, list):
            arguments[key] = [*cast("list[Any]", arguments[key]), *cast("list[Any]", new)]
        elif key in arguments:
            raise BadArguments(
                f"'{key}' is given twice, and takes one value.", hint=f"The tool is {signature(self._tool)}."
            )
        else:
            arguments[key] = new

    def _kinds(self, name: str) -> frozenset[str]:
        return self._types.kinds(self._schemas[name]) if name in self._schemas else frozenset()

    def _coerce(self, value: str, schema: Any) -> Any:
        kinds = self._types.kinds(schema) if schema is not None else frozenset[str]()
        if "string" in kinds and len(kinds) < len(_EVERY):
            return self._decode_brackets(value, kinds) if kinds & {"object", "array"} else value
        if "boolean" in kinds and value.lower() in _TRUTH:
            return _TRUTH[value.lower()]
        read: Any = value
        with contextlib.suppress(ValueError):
            read = decode(value)
        if "array" in kinds and not _is_one_of(read, kinds):
            return [self._coerce(value, as_object(schema).get("items"))]
        return read

    def _decode_brackets(self, value: str, kinds: frozenset[str]) -> Any:
        try:
            read = decode(value) if value[:1] in ("{", "[") else value
        except ValueError:
            return value
        return read if _is_one_of(read, kinds) else value


_EVERY: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "object": dict,
    "array": list,
    "null": type(None),
}


def _is_one_of(value: Any, kinds: frozenset[str]) -> bool:
    return any(isinstance(value, _EVERY[kind]) for kind in kinds)
