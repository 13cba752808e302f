"""The output of the chain vocabulary: tools in under 100 tokens, in under 300, or complete; and its registrations."""

from collections.abc import Collection
from typing import Any

import msgspec

from wicket_mcp.config.model.names import is_valid
from wicket_mcp.config.model.server import ServerConfig, check
from wicket_mcp.config.model.validation import InvalidOption, render_path
from wicket_mcp.errors import BadArguments
from wicket_mcp.model import JsonObject, Tool, as_object
from wicket_mcp.schema.descriptions import first_sentence, shorten
from wicket_mcp.schema.signature import display_name
from wicket_mcp.schema.typetext import Types
from wicket_mcp.scripts.api import Api

_BRIEF_WORDS = 120
_INFO_WORDS = 200
_CALL_NAMES = 120
_INFO_NAMES = 450
_TEMPLATE = ("command", "args", "env", "cwd", "url", "headers", "description", "tags", "timeout")


def brief(tool: Tool, api: Api) -> JsonObject:
    return {
        "name": display_name(tool),
        "backend": tool.server,
        "description": first_sentence(tool.description or tool.title, _BRIEF_WORDS),
        "call": call(tool, api),
    }


def info(tool: Tool, api: Api) -> JsonObject:
    names = [
        parameter.name if parameter.required else f"{parameter.name}?"
        for parameter in Types(tool.input_schema).parameters()
    ]
    return {
        **brief(tool, api),
        "description": first_sentence(tool.description or tool.title, _INFO_WORDS),
        "parameters": _few(names, _INFO_NAMES),
    }


def full(tool: Tool, api: Api) -> JsonObject:
    body: JsonObject = {"name": tool.key, "backend": tool.server, "description": tool.description}
    body["input_schema"] = tool.input_schema
    if tool.output_schema:
        body["output_schema"] = tool.output_schema
    if annotations := as_object(tool.definition.get("annotations")):
        body["annotations"] = annotations
    return {**body, "call": call(tool, api)}


def call(tool: Tool, api: Api) -> str:
    """The code for calling the tool in a chain, with its required arguments."""
    ident, server = identifiers(tool, api)
    needed = [parameter.name for parameter in Types(tool.input_schema).parameters() if parameter.required]
    return f"await {server}.{ident}({{{', '.join(_few(needed, _CALL_NAMES))}}})"


def identifiers(tool: Tool, api: Api) -> tuple[str, str]:
    """The identifiers of the tool and its server in a script."""
    for server, offered in api.servers.items():
        if offered.name == tool.server:
            return next(
                (ident for ident, candidate in offered.tools.items() if candidate.name == tool.name), tool.name
            ), server
    return tool.name, tool.server


def siblings(tool: Tool, api: Api, listed: Collection[str]) -> list[str]:
    """A few other tools of the same server, for a search without a clear match."""
    offered = next((server.tools.values() for server in api.servers.values() if server.name == tool.server), ())
    return [shorten(sibling.name, 40) for sibling in offered if sibling.key not in listed][:3]


def template(value: Any) -> ServerConfig:
    """The server that a `manual_call_template` describes. Raises BadArguments."""
    body = as_object(value)
    name = body.get("name")
    if not isinstance(name, str) or not is_valid(name) or "." in name:
        raise BadArguments(
            "The template needs a 'name' of 1 to 64 letters, digits, '_' and '-', the first a letter or digit.",
            hint='For example {"name": "files", "command": "npx", "args": ["-y", "…"]} or {"name": …, "url": …}.',
        )
    unknown = set(body) - {"name", *_TEMPLATE}
    if unknown:
        raise BadArguments(f"The template has an unknown key '{min(unknown)}'.", hint=f"Known: {', '.join(_TEMPLATE)}.")
    try:
        config = msgspec.convert(body, ServerConfig)
        check(config)
    except msgspec.ValidationError as problem:
        raise BadArguments(f"The template cannot be used: {problem}.") from None
    except InvalidOption as problem:
        raise BadArguments(
            f"The template's {render_path(problem.path) or 'server'} {problem.message}", hint=problem.hint
        ) from None
    if any("${" in text for text in (config.command or "", config.url or "", *config.args, *config.headers.values())):
        raise BadArguments(
            "The template may not refer to secrets of this machine (${…}).", hint="Write the values out."
        )
    return config


def _few(names: list[str], room: int) -> list[str]:
    short: list[str] = []
    for name in names:
        room -= len(name.encode("utf-8", "replace")) + 4
        if room < 0:
            return [*short, f"… {len(names) - len(short)} more"]
        short.append(shorten(name, 60))
    return short
