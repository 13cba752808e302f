"""What most verbs share: finding the configuration, running against a gateway, and the options for that."""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

import typer

from wicket.cli.completion import complete_server, complete_tool
from wicket.cli.output import note
from wicket.cli.root import VERBOSE

if TYPE_CHECKING:
    from wicket.app import Gateway
    from wicket.config.model import Config
    from wicket.model import Tool

T = TypeVar("T")


def _verbose(ctx: typer.Context, wanted: bool) -> bool:
    ctx.meta[VERBOSE] = wanted
    return wanted


ConfigOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="Configuration: wicket.toml or any MCP client's file.", show_default=False),
]
JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON.")]
VerboseOption: TypeAlias = Annotated[
    bool, typer.Option("--verbose", "-v", callback=_verbose, help="Show logs, and errors in full.")
]
ServerArgument: TypeAlias = Annotated[str, typer.Argument(help="A server's name.", autocompletion=complete_server)]
ToolArgument: TypeAlias = Annotated[
    str, typer.Argument(help="The tool: server.tool, or tool where that is enough.", autocompletion=complete_tool)
]


def read(path: Path | None) -> "Config":
    """The configuration that this command is about."""
    from wicket.config.formats import load
    from wicket.config.locate import find_config

    return load(find_config(path, os.environ, Path.cwd()))


def with_gateway(
    path: Path | None, work: "Callable[[Gateway], Awaitable[T]]", *, verbose: bool = False, names_notes: bool = True
) -> T:
    """Run `work` against a gateway of its own; no server needs to be running, and none starts unasked."""
    import asyncio

    import msgspec

    from wicket.app import Gateway
    from wicket.cli.progress import progress
    from wicket.telemetry import configure_logging

    config = read(path)
    lazy = tuple(msgspec.structs.replace(server, start="lazy") for server in config.servers)
    configure_logging(os.environ.get("WICKET_LOG", "info" if verbose else "critical"))
    if names_notes and verbose:
        for text in config.notes:
            note(f"wicket: {text}")

    async def run() -> T:
        async with Gateway.open(msgspec.structs.replace(config, servers=lazy)) as gateway, progress(gateway):
            return await work(gateway)

    return asyncio.run(run())


def name_failures(failures: dict[str, str], *, verbose: bool = False) -> None:
    """Say which servers are missing from an answer, so that a missing tool is never a silent one."""
    for name, problem in failures.items():
        note(f"wicket: server '{name}' could not be listed: {problem if verbose else problem.partition(chr(10))[0]}")


def tool_as_json(tool: "Tool") -> dict[str, Any]:
    return {"server": tool.server, "key": tool.key, **tool.definition}
