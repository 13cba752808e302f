"""`wicket registry`: search it, look into it, publish to it, follow another one."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wicket_mcp.cli.common import ConfigOption, JsonOption, VerboseOption, duration, tell, with_gateway
from wicket_mcp.cli.output import note, say_json, table
from wicket_mcp.codec import decode, pretty

if TYPE_CHECKING:
    from wicket_mcp.app import Gateway
    from wicket_mcp.registry.mirror import Synced
    from wicket_mcp.store.model import StoredRecord

app = typer.Typer(no_args_is_help=True, help="Search, publish and mirror MCP servers.", rich_markup_mode=None)


@app.command("search")
def search(
    query: Annotated[str, typer.Argument(help="What the server should do, in plain words.")],
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=50, help="How many servers to show.")] = 10,
    category: Annotated[str, typer.Option("--category", help="Only this category.")] = "",
    tag: Annotated[list[str] | None, typer.Option("--tag", help="Only with one of these tags; repeatable.")] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Find servers in the registry.

    Example: wicket registry search "read and send email"
    """

    async def work(gateway: "Gateway") -> list[dict[str, Any]]:
        from wicket_mcp.dialects.bridge_words import server
        from wicket_mcp.model import LOCAL

        matches, _ = await gateway.registry.discover(
            query, LOCAL, limit=limit, category=category, tags=tuple(tag or ())
        )
        return [server(known) for known in matches]

    matches = with_gateway(config, work, verbose=verbose)
    if json:
        say_json(matches)
        return
    table(
        ("ID", "PACKAGE", "CATEGORY", "ABOUT"),
        (
            (s["id"], s["npm_package"] or s["pypi_package"] or s["endpoint"] or "", s["category"], s["description"])
            for s in matches
        ),
    )
    if not matches:
        note("Nothing in the registry fits. Try other words, or follow a larger registry: wicket registry mirror URL")


@app.command("show")
def show(
    name: Annotated[str, typer.Argument(help="A server's id or full name.")],
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Print a server's record (server.json).

    Example: wicket registry show filesystem
    """
    record = with_gateway(config, lambda gateway: gateway.registry.registry.find(name), verbose=verbose)
    from wicket_mcp.registry.facade import response

    tell(response(record), pretty(record.body), json=json)


@app.command("publish")
def publish(
    file: Annotated[Path, typer.Argument(help="A server.json.", exists=True, dir_okay=False)],
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Publish a version of a server in this registry.

    Example: wicket registry publish server.json
    """
    from wicket_mcp.errors import BadArguments

    try:
        body: Any = decode(file.read_bytes())
    except ValueError as problem:
        raise BadArguments(f"{file} is not JSON: {problem}.") from None

    async def work(gateway: "Gateway") -> "StoredRecord":
        from wicket_mcp.model import LOCAL

        return await gateway.registry.registry.publish(body, LOCAL)

    _say_record("Published", with_gateway(config, work, verbose=verbose), json)


@app.command("delete")
def delete(
    name: Annotated[str, typer.Argument(help="A server's full name.")],
    version: Annotated[str, typer.Argument(help="The version to delete.")],
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Mark a version as deleted, also for registries that mirror this one.

    Example: wicket registry delete com.example/weather 1.0.0
    """

    async def work(gateway: "Gateway") -> "StoredRecord":
        from wicket_mcp.model import LOCAL

        return await gateway.registry.registry.delete(name, version, LOCAL)

    _say_record("Deleted", with_gateway(config, work, verbose=verbose), json)


@app.command("mirror")
def mirror(
    url: Annotated[str, typer.Argument(help="The address of a registry that speaks the official API.")],
    key: Annotated[
        str | None, typer.Option("--key", help="API key for it. [default: $WICKET_API_KEY]", show_default=False)
    ] = None,
    every: Annotated[str | None, typer.Option("--every", help="Repeat at this interval, such as 1h.")] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Copy the records of another registry; later runs copy only changes.

    Example: wicket registry mirror https://registry.example --every 1h
    """
    pause = duration(every, "--every")
    credential = key or os.environ.get("WICKET_API_KEY", "")

    async def work(gateway: "Gateway") -> None:
        import asyncio

        from wicket_mcp.errors import WicketError
        from wicket_mcp.registry.mirror import Mirror
        from wicket_mcp.upstream.egress import HttpClient

        client = HttpClient()
        facade = gateway.registry
        try:
            follower = Mirror(url, facade.store, facade.store, client, key=credential)
            await facade.registry.plant()
            _say_synced(await follower.sync(), json)
            while pause is not None:
                await asyncio.sleep(max(1.0, pause))
                try:
                    _say_synced(await follower.sync(), json)
                except WicketError as problem:  # it may be there again the next time
                    note(f"wicket: {problem}")
        finally:
            await client.close()

    with_gateway(config, work, verbose=verbose)


def _say_record(action: str, record: "StoredRecord", json: bool) -> None:
    from wicket_mcp.registry.facade import response

    tell(response(record), f"{action} {record.name} {record.version}.", json=json)


def _say_synced(done: "Synced", json: bool) -> None:
    facts = {"taken": done.taken, "unchanged": done.unchanged, "refused": done.refused, "pages": done.pages}
    records = "record" if done.taken == 1 else "records"
    words = f"Took {done.taken} {records}; {done.unchanged} were known, {done.refused} could not be used."
    tell(facts, words, json=json)
