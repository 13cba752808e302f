"""`wicket call`: one call of one tool, from a shell."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wicket_mcp.cli.common import ConfigOption, JsonOption, ToolArgument, VerboseOption, for_user
from wicket_mcp.cli.output import say_json

if TYPE_CHECKING:
    from wicket_mcp.app import Gateway
    from wicket_mcp.model import JsonObject


def call(
    name: ToolArgument,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(help="key=value pairs, key:=JSON, or one JSON object; '-' reads JSON from stdin."),
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Print the text unchanged.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Save images, audio and files here.", show_default=False)
    ] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Call a tool and print its answer.

    Example: wicket call time.get_current_time timezone=Europe/Berlin
    """
    from wicket_mcp.cli import content
    from wicket_mcp.cli.arguments import parse
    from wicket_mcp.errors import WicketError
    from wicket_mcp.model import Silent

    async def work(gateway: "Gateway") -> "JsonObject":
        try:
            tool = await gateway.catalogue.lookup.resolve(name, gateway.principal)
        except WicketError as problem:
            gateway.verbs.record_refusal(Silent(gateway.principal), "tools/call", name, problem)
            raise
        return await gateway.call(tool.key, parse(arguments or [], tool))

    result = for_user(config, work, verbose=verbose)
    if json:
        say_json(result)
    if out is not None:
        content.save(result, out)
    elif raw:
        content.show_raw(result)
    elif not json:
        content.show(result)
    if result.get("isError"):
        raise typer.Exit(1)
