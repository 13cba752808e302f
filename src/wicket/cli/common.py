"""What most verbs share: finding the configuration, running against a gateway, and the options for that."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar

import typer

from wicket.app import Gateway
from wicket.config.formats import load
from wicket.config.locate import find_config
from wicket.config.model import Config
from wicket.telemetry import configure_logging

T = TypeVar("T")

ConfigOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="Configuration: wicket.toml or any MCP client's file.", show_default=False),
]
JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def read(path: Path | None) -> Config:
    """The configuration that this command is about."""
    return load(find_config(path, os.environ, Path.cwd()))


def with_gateway(path: Path | None, work: Callable[[Gateway], Awaitable[T]]) -> T:
    """Run `work` against a gateway of its own; no server needs to be running."""
    config = read(path)
    configure_logging(os.environ.get("WICKET_LOG", "error"))

    async def run() -> T:
        async with Gateway.open(config) as gateway:
            return await work(gateway)

    return asyncio.run(run())


def tool_as_json(tool: Any) -> dict[str, Any]:
    return {"server": tool.server, "key": tool.key, **tool.definition}
