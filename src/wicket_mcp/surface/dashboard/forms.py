"""A form for a tool's arguments, made from its schema, and the arguments that a filled form stands for. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wicket_mcp.codec import decode, pretty
from wicket_mcp.errors import BadArguments
from wicket_mcp.model import JsonObject, Tool, as_list, as_object, as_text

PREFIX = "arg."
MAX_FIELDS = 60


@dataclass(frozen=True, slots=True)
class Field:
    """One parameter as a person fills it in."""

    name: str
    kind: str
    """`text`, `number`, `flag`, `choice` or `json`."""
    description: str
    required: bool
    choices: tuple[str, ...] = ()
    value: str = ""


def fields_of(tool: Tool, form: Mapping[str, str]) -> list[Field]:
    """The fields of a tool's form, filled with the previous values."""
    schema = tool.input_schema
    required = {name for name in as_list(schema.get("required")) if isinstance(name, str)}
    fields: list[Field] = []
    for name, about in list(as_object(schema.get("properties")).items())[:MAX_FIELDS]:
        details = as_object(about)
        choices = tuple(str(value) for value in as_list(details.get("enum")) if isinstance(value, str | int | float))
        default: Any = details.get("default")
        default_text = "" if default is None else default if isinstance(default, str) else pretty(default)
        fields.append(
            Field(
                name,
                "choice" if choices else _kind(details),
                as_text(details.get("description")),
                name in required,
                choices,
                form.get(PREFIX + name, default_text if name in required else ""),
            )
        )
    return sorted(fields, key=lambda field: not field.required)


def arguments_of(tool: Tool, form: Mapping[str, str]) -> JsonObject:
    """The arguments from a filled form; empty fields are left out. Raises BadArguments."""
    arguments: JsonObject = {}
    for field in fields_of(tool, form):
        text = form.get(PREFIX + field.name, "")
        if text == "":
            continue
        if field.kind in ("json", "number", "flag"):
            try:
                arguments[field.name] = decode(text)
            except ValueError:
                raise BadArguments(f"'{field.name}' is not JSON.", hint="Write text in quotes.") from None
        else:
            arguments[field.name] = text
    return arguments


def _kind(details: JsonObject) -> str:
    kinds: Any = details.get("type")
    names = [kinds] if isinstance(kinds, str) else [kind for kind in as_list(kinds) if kind != "null"]
    match names:
        case ["string"]:
            return "text"
        case ["integer"] | ["number"]:
            return "number"
        case ["boolean"]:
            return "flag"
        case _:
            return "json"
