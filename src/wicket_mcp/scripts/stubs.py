"""Types for scripts, from the tools' schemas: Python stubs for the checker, TypeScript interfaces for reading.

Pure and lazy: only what a source mentions is generated, so that a catalogue of thousands costs nothing. A vague schema
becomes `Any`; a stub must never reject what a tool would accept.
"""

import keyword
import re
from typing import Any, cast

from wicket_mcp.model import JsonObject, Tool
from wicket_mcp.schema.typetext import TYPESCRIPT, Types
from wicket_mcp.scripts.api import Api, Server

_MOST_INTERFACES = 512 * 1024
_WORD = re.compile(r"[A-Za-z_]\w*")
_NAME = re.compile(r"[A-Za-z_]\w*")
_POSITIONAL = re.compile(r"\.(\w++)\s*+\(\s*+(?!\w++\s*+=[^=])(?=[^)\s])")
"""A call with something other than `name=value`: for example a dict of arguments, which the checker cannot inspect."""
_PYTHON_TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_HELPER_STUBS = """
class _tools:
    async def search(self, query: str, limit: int = ..., *, server: str = ...) -> Any: ...
    async def describe(self, names: str | list[str], detail: str = ...) -> Any: ...
    async def call(self, name: str, arguments: dict[str, Any] = ...) -> Any: ...
tools: _tools
class _results:
    async def get(self, id: str, **options: Any) -> Any: ...
results: _results
args: dict[str, Any]
"""


def python(api: Api, source: str) -> str:
    """Stubs for what `source` mentions, for the checker."""
    words, positional = set(_WORD.findall(source)), set(_POSITIONAL.findall(source))
    parts = ["from typing import Any, Literal"]
    for ident, server in api.servers.items():
        if ident in words:
            parts.append(_python_server(ident, server, words, positional))
    return "\n".join(parts) + _HELPER_STUBS


def positions(api: Api, source: str) -> dict[str, list[str]]:
    """The parameters of the tools that `source` mentions, required ones first."""
    words = set(_WORD.findall(source))
    return {
        f"{ident}.{name}": [parameter.name for parameter in Types(tool.input_schema).parameters()]
        for ident, server in api.servers.items()
        if ident in words
        for name, tool in server.tools.items()
        if name in words
    }


def _python_server(ident: str, server: Server, words: set[str], positional: set[str]) -> str:
    lines = [f"class _{ident}:"]
    for name, tool in server.tools.items():
        if name in words:
            lines.append(f"    async def {name}({_python_parameters(tool, positional=name in positional)}) -> Any: ...")
    if len(lines) == 1:
        lines.append("    ...")
    return "\n".join([*lines, f"{ident}: _{ident}"])


def _python_parameters(tool: Tool, *, positional: bool) -> str:
    schema = tool.input_schema
    if positional:
        return "self, *arguments: Any, **more: Any"
    fields = _fields(schema)
    required = schema.get("required")
    needed: set[Any] = set(cast("list[Any]", required)) if isinstance(required, list) else set()
    parameters: list[str] = []
    open_ended = not fields or bool(schema.get("additionalProperties"))
    for field, kind in fields.items():
        if not _NAME.fullmatch(field) or keyword.iskeyword(field) or field == "self":
            open_ended = True
            continue
        default = "" if field in needed else " = ..."
        parameters.append(f"{field}: {_python_type(kind)}{default}")
    head = ["self", "*", *parameters] if parameters else ["self"]
    return ", ".join([*head, "**more: Any"] if open_ended else head)


def _python_type(schema: Any, depth: int = 0) -> str:
    if not isinstance(schema, dict) or depth > 3:
        return "Any"
    known = cast("dict[str, Any]", schema)
    choices = known.get("enum")
    if isinstance(choices, list) and choices and all(isinstance(c, str) for c in cast("list[Any]", choices)):
        return f"Literal[{', '.join(repr(c) for c in cast('list[str]', choices))}] | str"
    kind_name = known.get("type")
    if isinstance(kind_name, list):
        kinds = [_python_type({**known, "type": kind}, depth + 1) for kind in cast("list[Any]", kind_name)]
        return " | ".join(dict.fromkeys(kinds)) if "Any" not in kinds else "Any"
    if kind_name == "array":
        return f"list[{_python_type(known.get('items'), depth + 1)}]"
    if kind_name == "object":
        return "dict[str, Any]"
    # A number may be written without a decimal point, and an absent optional may be None.
    return _PYTHON_TYPES.get(str(kind_name), "Any") if kind_name else "Any"


def interfaces(api: Api, source: str) -> dict[str, str]:
    """TypeScript interfaces by tool name, if `source` asks for any; limited, in catalogue order."""
    if "__interfaces" not in source and "__getToolInterface" not in source:
        return {}
    texts: dict[str, str] = {}
    size = 0
    for ident, server in api.servers.items():
        for name, tool in server.tools.items():
            text = typescript(ident, name, tool)
            size += len(text)
            if size > _MOST_INTERFACES:
                return texts
            texts[f"{ident}.{name}"] = text
            texts.setdefault(tool.key, text)
    return texts


def typescript(server: str, name: str, tool: Tool) -> str:
    """One tool as a TypeScript declaration, its description as a comment."""
    output = tool.output_schema
    answer = _typescript_type(output) if output else "any"
    summary = tool.description.strip().split("\n")[0][:200].replace("*/", "* /")
    comment = f"/** {summary} */\n" if summary else ""
    return f"{comment}declare function {server}.{name}(args: {_typescript_type(tool.input_schema)}): Promise<{answer}>;"


def _typescript_type(schema: JsonObject) -> str:
    return Types(schema, TYPESCRIPT).text(schema)


def _fields(schema: JsonObject) -> dict[str, Any]:
    fields = schema.get("properties")
    return cast("dict[str, Any]", fields) if isinstance(fields, dict) else {}
