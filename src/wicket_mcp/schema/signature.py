"""The text about a tool that an agent reads before a call: one typed line, a brief, or everything.

`signature` fits any schema into a budget of characters by dropping details: first of the optional parameters, then of
the required ones, whose names always stay. Upstream text in a line is cleaned; at detail `full` it is unchanged.
"""

import re
from collections.abc import Sequence
from typing import Any, Literal, overload

import msgspec

from wicket_mcp.model import Detail, JsonObject, Tool, as_object
from wicket_mcp.schema.descriptions import deprecation, first_sentence, shorten
from wicket_mcp.schema.typetext import CUT, Parameter, Style, Types, property_name

__all__ = ["SIGNATURE_BUDGET", "brief_signature", "describe", "display_name", "first_sentence", "signature"]

SIGNATURE_BUDGET = 380
"""Characters of a signature in a list of hits: at most about 120 tokens, usually 40."""
_BRIEF_SIGNATURE = 200
_BRIEF_BUDGET = 900
_OUTPUT = 60
_MOST_REQUIRED = 64
_SEEN_OR_HEARD = re.compile(r"(?i)image|screenshot|picture|photo|audio|video|speech|voice|icon|diagram|chart")
_FULL = ("title", "description", "inputSchema", "outputSchema", "annotations")
_STYLES = (
    Style(),
    Style(depth=1, values=4, fields=6),
    Style(depth=1, values=3, fields=4, defaults=False),
    Style(depth=0, values=2, defaults=False),
)
_BRIEF_STYLES = tuple(msgspec.structs.replace(style, defaults=False, strings=False) for style in _STYLES)


def signature(tool: Tool, budget: int = SIGNATURE_BUDGET) -> str:
    """`server.tool(a: string, b?: integer = 10) -> {id: string}`, within `budget` characters.

    Only the names of required parameters may exceed that.
    """
    name = display_name(tool)
    output = _output(tool, min(_OUTPUT, budget // 4))
    room = budget - len(name) - len(output) - 2
    return f"{name}({_parameters(tool, room)}){output}"


def brief_signature(tool: Tool, budget: int) -> str:
    """`server.tool(a, b?: integer)`: without defaults and output, and a parameter without a type is a string."""
    name = display_name(tool)
    return f"{name}({_parameters(tool, budget - len(name) - 2, _BRIEF_STYLES)})"


@overload
def describe(tool: Tool, detail: Literal["signature", "brief"]) -> str: ...
@overload
def describe(tool: Tool, detail: Literal["full"]) -> JsonObject: ...
@overload
def describe(tool: Tool, detail: Detail) -> str | JsonObject: ...
def describe(tool: Tool, detail: Detail) -> str | JsonObject:
    """The tool at one of three levels.

    `signature` and `brief` are text: signature and first sentence on one line; the same on two lines, and a
    line for each parameter. `full` is an object: the canonical name, and description, schemas and annotations
    exactly as the upstream sent them.
    """
    if detail == "full":
        return {"name": tool.key} | {key: tool.definition[key] for key in _FULL if key in tool.definition}
    words = summarize(tool)
    if detail == "signature":
        return f"{signature(tool)} - {words}" if words else signature(tool)
    head = [signature(tool, _BRIEF_SIGNATURE), *([words] if words else [])]
    return "\n".join([*head, *_parameter_lines(tool, _BRIEF_BUDGET - sum(map(_weight, head)))])


def summarize(tool: Tool, limit: int | None = None) -> str:
    """The first sentence of a tool's description, and whether it is deprecated."""
    text = tool.description or tool.title
    words = first_sentence(text) if limit is None else first_sentence(text, limit)
    if (warning := deprecation(tool.description)) and "deprecated" not in words.lower():
        words = f"{words} ({warning})"
    return words


def _parameters(tool: Tool, room: int, styles: Sequence[Style] = _STYLES) -> str:
    parameters = Types(tool.input_schema).parameters()
    required = [parameter for parameter in parameters if parameter.required]
    optional = [parameter for parameter in parameters if not parameter.required]
    required_text = _render_required(tool, required, room, styles)
    optional_text = _render_optional(tool, optional, room - len(required_text) - 2 * bool(required_text), styles)
    return ", ".join(part for part in (required_text, optional_text) if part)


def _render_required(tool: Tool, parameters: list[Parameter], room: int, styles: Sequence[Style]) -> str:
    for style in styles:
        texts = _within(Types(tool.input_schema, style), parameters, room)
        if len(texts) == len(parameters):
            return ", ".join(texts)
    unsaid = "" if styles[0].strings else f": {CUT}"  # where strings go unsaid, so must this be said
    names = [f"{property_name(parameter.name)}{unsaid}" for parameter in parameters[:_MOST_REQUIRED]]
    return ", ".join(names if len(parameters) <= _MOST_REQUIRED else [*names, CUT])


def _render_optional(tool: Tool, parameters: list[Parameter], room: int, styles: Sequence[Style]) -> str:
    texts: list[str] = []
    for style in styles:
        texts = _within(Types(tool.input_schema, style), parameters, room)
        if len(texts) == len(parameters):
            return ", ".join(texts)
    while texts and len(", ".join([*texts, CUT])) > room:
        texts.pop()
    return ", ".join([*texts, CUT])


def _within(types: Types, parameters: list[Parameter], room: int) -> list[str]:
    """As many of the first parameters as fit."""
    texts: list[str] = []
    for parameter in parameters:
        text = types.parameter_text(parameter)
        room -= len(text) + 2 * bool(texts)
        if room < 0:
            break
        texts.append(text)
    return texts


def _output(tool: Tool, room: int) -> str:
    """` -> type`; if that is long, the names of its fields; text if the tool declares nothing.

    Empty if it seems to return images or audio, or declares a type that has no short form.
    """
    schema = tool.output_schema
    if not schema:
        return "" if _SEEN_OR_HEARD.search(f"{tool.name.replace('_', ' ')} {tool.description[:200]}") else " -> text"
    schema = _without_envelope(schema)
    for style in _STYLES[1:]:
        text = Types(schema, style).text(schema)
        if len(text) <= room and text not in ("{…}", "any"):
            return f" -> {text}"
    every = [property_name(parameter.name) for parameter in Types(schema).parameters()]
    names = every[:_OUTPUT]
    while len(text := ", ".join(names if len(names) == len(every) else [*names, CUT])) > room and names:
        names.pop()
    return f" -> {{{text}}}" if names else ""


def _without_envelope(schema: JsonObject) -> JsonObject:
    """The schema of the value that agents get: many servers wrap it as `{"result": value}`."""
    fields = as_object(schema.get("properties"))
    inner: Any = fields.get("result") if len(fields) == 1 else None
    if not isinstance(inner, dict):
        return schema
    shared = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
    return {**shared, **as_object(inner)}


def _parameter_lines(tool: Tool, room: int) -> list[str]:
    parameters = Types(tool.input_schema).parameters()
    lines: list[str] = []
    for style, words in zip((*_STYLES, _STYLES[-1]), (100, 80, 50, 30, 0), strict=True):
        types, left = Types(tool.input_schema, style), room
        lines = []
        for parameter in parameters:
            about = first_sentence(types.description(parameter.schema), words) if words else ""
            line = f"- {types.parameter_text(parameter)}{' - ' if about else ''}{about}"
            left -= _weight(line)
            if left < 0:
                break
            lines.append(line)
        if len(lines) == len(parameters):
            return lines
    return [*lines, f"{CUT} {len(parameters) - len(lines)} more: ask for the full detail"]


def _weight(text: str) -> int:
    """Bytes, plus one for the line break: a better estimate of tokens than characters."""
    return len(text.encode("utf-8", "replace")) + 1


def display_name(tool: Tool) -> str:
    """The canonical name on one line; unprintable characters become `_`, and the name still resolves."""
    name = tool.key if tool.server else tool.name
    return "".join(char if char.isprintable() else "_" for char in shorten(name, 200))
