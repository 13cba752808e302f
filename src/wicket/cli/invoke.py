"""`wicket call`: one call of one tool, from a shell."""

import sys
from typing import Annotated, Any

import typer

from wicket.app import Gateway
from wicket.cli.common import ConfigOption, JsonOption, with_gateway
from wicket.cli.output import say, say_json
from wicket.codec import decode
from wicket.errors import BadArguments
from wicket.model import JsonObject, Tool, as_object


def call(
    name: Annotated[str, typer.Argument(help="The tool: server.tool, or tool where that is enough.")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(help="One JSON object, or key=value pairs; '-' reads JSON from stdin."),
    ] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Call a tool and print its answer.

    Example: wicket call time.get_current_time timezone=Europe/Berlin
    """

    async def work(gateway: Gateway) -> JsonObject:
        tool = await gateway.catalogue.resolve(name)
        return await gateway.call(tool.key, _arguments(arguments or [], tool))

    result = with_gateway(config, work)
    if json:
        say_json(result)
    else:
        _print(result)
    if result.get("isError"):
        raise typer.Exit(1)


def _arguments(given: list[str], tool: Tool) -> JsonObject:
    if given == ["-"]:
        given = [sys.stdin.read()]
    if len(given) == 1 and given[0].lstrip().startswith("{"):
        try:
            value: Any = decode(given[0])
        except ValueError as problem:
            raise BadArguments(f"The arguments are not JSON: {problem}.") from None
        return value
    pairs = [item.partition("=") for item in given]
    wrong = next((key for key, equals, _ in pairs if not equals), None)
    if wrong is not None:
        raise BadArguments(f"'{wrong}' is neither key=value nor a JSON object.")
    properties: Any = tool.input_schema.get("properties", {})
    return {key: _typed(value, properties.get(key)) for key, _, value in pairs}


def _typed(value: str, schema: Any) -> Any:
    """`value` as the schema wants it: text stays text where text is wanted, the rest is read as JSON if it can be."""
    if as_object(schema).get("type") == "string":
        return value
    try:
        return decode(value)
    except ValueError:
        return value


def _print(result: JsonObject) -> None:
    blocks: Any = result.get("content") or []
    for block in blocks:
        kind = block.get("type")
        if kind == "text":
            say(str(block.get("text", "")))
        elif kind == "resource" and "text" in block.get("resource", {}):
            say(str(block["resource"]["text"]))
        else:
            about = block.get("mimeType") or block.get("uri") or block.get("resource", {}).get("uri", "")
            say(f"[{kind}: {about}]")
    if not blocks and "structuredContent" in result:
        say_json(result["structuredContent"])
