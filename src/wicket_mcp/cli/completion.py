"""What the shell offers for the word being typed: server and tool names from the stored catalogue.

Starts nothing and connects to nothing. A person who presses Tab must never see an error: what cannot be read is
no suggestion.
"""

from typing import TYPE_CHECKING

import typer

from wicket_mcp.errors import WicketError

if TYPE_CHECKING:
    from wicket_mcp.config.model.config import Config
    from wicket_mcp.model import Tool


def complete_server(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    config = _config(ctx)
    servers = config.servers if config else ()
    return [(server.name, server.description) for server in servers if server.name.startswith(incomplete)]


def complete_tool(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Tools by `server.tool`, and by their own name once something is typed that no server begins with."""
    from wicket_mcp.schema.descriptions import first_sentence
    from wicket_mcp.telemetry.log import clean

    completions: list[tuple[str, str]] = []
    for tool in _tools(ctx):
        name = tool.key if tool.key.startswith(incomplete) else tool.name
        if name.startswith(incomplete) and name.isprintable() and " " not in name:
            completions.append((name, clean(first_sentence(tool.description))))
    return completions


def complete_client(incomplete: str) -> list[tuple[str, str]]:
    from wicket_mcp.config.read.client_files import CLIENTS

    return [(client.id, client.title) for client in CLIENTS.values() if client.id.startswith(incomplete)]


def _config(ctx: typer.Context) -> "Config | None":
    from wicket_mcp.config.read.formats import load
    from wicket_mcp.config.read.locate import find_config, is_found

    named = ctx.params.get("config")
    try:
        file = find_config(named)
        return load(file, discovered=is_found(file, named))
    except WicketError:
        return None


def _tools(ctx: typer.Context) -> "list[Tool]":
    import asyncio

    from wicket_mcp.model import LOCAL
    from wicket_mcp.store.open import STATE_FILE, open_store
    from wicket_mcp.trust.policy import Policy

    config = _config(ctx)
    file = config.state_path / STATE_FILE if config else None
    if config is None or file is None or not file.exists():
        return []
    policy = Policy(config.servers)

    async def load() -> "list[Tool]":
        store = await open_store(file)
        try:
            stored = await store.load_listings()
        finally:
            await store.close()
        return [tool for entry in stored for tool in entry.listing.tools if policy.visible(LOCAL, tool)]

    try:
        return asyncio.run(load())
    except WicketError:
        return []
