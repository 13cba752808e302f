"""The searchable text of a tool, split into fields and capped.

Decides which parts of a definition are searched, and how much of each: the cap per field makes keyword stuffing
useless. Reads definitions as upstreams send them, so it trusts no type and no depth.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from wicket_mcp.model import JsonObject, Listing, Tool
from wicket_mcp.search.text import words

MAX_DESCRIPTION = 1200
MAX_MEANING = 600
MAX_PARAMETERS = 64
MAX_PARAMETER_NAMES = 600
MAX_PARAMETER_TEXT = 160
MAX_PARAMETER_TEXTS = 1500
MAX_ABOUT = 400
_MAX_ENUM = 12
_MAX_DEPTH = 3


class ToolText(msgspec.Struct, frozen=True):
    """What search may read of one tool."""

    server: str
    name: str
    title: str
    description: str
    parameters: str
    parameter_text: str
    about: str
    """The server's own description; the same for all its tools."""

    @property
    def meaning(self) -> str:
        """The text that is compared by meaning rather than by letters."""
        name = f"{self.name} {self.title}" if self.title else self.name
        return f"{_split_identifier(self.server)}: {_split_identifier(name)}. {self.description[:MAX_MEANING]}"


def tool_text(tool: Tool, listing: Listing) -> ToolText:
    properties = list(_properties(tool.input_schema, 0))[:MAX_PARAMETERS]
    return ToolText(
        server=tool.server,
        name=tool.name[:200],
        title=tool.title[:200],
        description=tool.description[:MAX_DESCRIPTION],
        parameters=" ".join(name for name, _ in properties)[:MAX_PARAMETER_NAMES],
        parameter_text=" ".join(text for _, text in properties if text)[:MAX_PARAMETER_TEXTS],
        about=listing.instructions[:MAX_ABOUT],
    )


def _split_identifier(identifier: str) -> str:
    return " ".join(words(identifier))


def _properties(schema: JsonObject, depth: int) -> Iterator[tuple[str, str]]:
    properties: Any = schema.get("properties")
    if depth >= _MAX_DEPTH or not isinstance(properties, dict):
        return
    inner: Any
    for name, inner in properties.items():  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(inner, dict):
            yield str(name)[:80], ""  # pyright: ignore[reportUnknownArgumentType]
            continue
        entry: JsonObject = inner  # pyright: ignore[reportUnknownVariableType]
        yield str(name)[:80], _entry_text(entry)  # pyright: ignore[reportUnknownArgumentType]
        yield from _properties(entry, depth + 1)
        items: Any = entry.get("items")
        if isinstance(items, dict):
            yield from _properties(items, depth + 1)  # pyright: ignore[reportUnknownArgumentType]


def _entry_text(entry: JsonObject) -> str:
    described: Any = entry.get("description")
    choices: Any = entry.get("enum")
    text = described[:MAX_PARAMETER_TEXT] if isinstance(described, str) else ""
    if isinstance(choices, list) and len(choices) <= _MAX_ENUM:  # pyright: ignore[reportUnknownArgumentType]
        text += " " + " ".join(str(choice)[:40] for choice in choices)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return text
