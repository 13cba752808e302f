"""The output of the Lua vocabulary: servers and tools as Markdown, values as Lua literals."""

import re
from collections.abc import Sequence
from typing import Any

from wicket_mcp.catalog.identifiers import LUA_KEYWORDS
from wicket_mcp.config.model.config import ServerConfig
from wicket_mcp.errors import UnknownName
from wicket_mcp.model import JsonObject, Listing, Tool, as_list, as_object
from wicket_mcp.schema.descriptions import first_sentence, shorten, visible
from wicket_mcp.schema.field_list import example, fields

_MOST_NAMES = 30
_INSTRUCTIONS = 400
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


class NotFound(UnknownName):
    """No such server or tool, with a list of the existing ones."""

    def __init__(self, problem: str, kind: str, name: str, known: Sequence[str], near: Sequence[str]) -> None:
        super().__init__(kind, name, near)
        more = f" and {len(known) - _MOST_NAMES} more" if len(known) > _MOST_NAMES else ""
        listed = ", ".join(known[:_MOST_NAMES]) or "none"
        meant = f" Did you mean {' or '.join(near)}?" if near else ""
        self.message, self.hint = f"{problem}{meant}", f"\n\nAvailable {kind}s: {listed}{more}"

    def __str__(self) -> str:
        return f"{self.message}{self.hint}"


def server(ident: str, config: ServerConfig, listing: Listing | None, problem: str) -> str:
    """`## name (Lua: ident)`, its purpose, version and instructions; or why it cannot be used."""
    lines = [f"## {config.name} (Lua: {ident})"]
    info: JsonObject = listing.server_info if listing else {}
    if about := config.description or info.get("description") or info.get("title"):
        lines.append(visible(str(about)))
    if version := info.get("version"):
        lines.append(f"Version: {version}")
    if listing and listing.instructions:
        lines.append(f"Instructions: {shorten(' '.join(visible(listing.instructions).split()), _INSTRUCTIONS)}")
    if problem:
        lines.append(f"Error: {problem.splitlines()[0]}")
    return "\n".join(lines)


def tool_line(ident: str, tool: Tool) -> str:
    return f"- {tool.name} (Lua: {ident}): {first_sentence(tool.description or tool.title) or '(no description)'}"


def details(server: str, ident: str, tool: Tool) -> str:
    parts = [f"## {tool.name}", visible(tool.description or tool.title).strip() or "(no description)", "### Parameters"]
    parts.append("\n".join(map(str, fields(tool.input_schema))) or "(none)")
    if tool.output_schema:
        parts += ["### Returns", "\n".join(map(str, fields(tool.output_schema))) or "(not described)"]
    arguments = example(tool.input_schema)
    example_arguments = literal(arguments) if arguments else ""
    parts += ["### Example Usage", f"local res = {server}.{ident}({example_arguments}):await()\nresult(res)"]
    return "\n\n".join(parts)


def literal(value: Any, depth: int = 0) -> str:
    """A JSON value as Lua source."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{"".join(_escape(char) for char in value)}"'
    if isinstance(value, list):
        items = ", ".join(literal(item, depth) for item in as_list(value))
        return f"{{ {items} }}" if items else "array{}"
    if isinstance(value, dict):
        inner, end = "  " * (depth + 1), "  " * depth
        pairs = [f"{inner}{_key(key)} = {literal(item, depth + 1)}" for key, item in as_object(value).items()]
        return "{\n" + ",\n".join(pairs) + f"\n{end}}}" if pairs else "{}"
    return str(value)


def _key(key: str) -> str:
    return key if _IDENTIFIER.fullmatch(key) and key not in LUA_KEYWORDS else f"[{literal(key)}]"


def _escape(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    return char if char.isprintable() or char == " " else f"\\u{{{ord(char):x}}}"
