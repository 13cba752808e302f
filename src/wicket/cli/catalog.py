"""The verbs that look: servers, tools, search, describe."""

from typing import TYPE_CHECKING, Annotated

import typer

from wicket.cli.common import (
    ConfigOption,
    JsonOption,
    VerboseOption,
    name_failures,
    tool_as_json,
    with_gateway,
)
from wicket.cli.completion import complete_server, complete_tool
from wicket.cli.output import note, say, say_json, styled, table, write
from wicket.codec import pretty
from wicket.telemetry import clean

if TYPE_CHECKING:
    from wicket.app import Gateway
    from wicket.core.search import Answer
    from wicket.model import Detail, Tool


def servers(config: ConfigOption = None, json: JsonOption = False, verbose: VerboseOption = False) -> None:
    """List the configured servers, asking those never seen.

    Example: wicket servers --config ~/.cursor/mcp.json
    """
    from dataclasses import asdict

    found = with_gateway(config, lambda gateway: gateway.servers(), verbose=verbose)
    if json:
        say_json([asdict(server) for server in found])
        return
    table(
        ("SERVER", "STATE", "TOOLS", "VERSION", "ABOUT"),
        (
            (
                s.name,
                "failed" if s.problem and s.tools is None else s.state,
                "?" if s.tools is None else str(s.tools),
                s.version,
                s.problem.partition("\n")[0] or s.description,
            )
            for s in found
        ),
    )
    if not found:
        note("No servers yet. Add one: wicket add time -- uvx mcp-server-time")
    if any(s.problem for s in found):
        note("Some servers have problems: wicket doctor says what to do.")


def tools(
    server: Annotated[
        str | None, typer.Argument(help="Only this server's tools.", autocompletion=complete_server)
    ] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """List tools with what they do.

    Example: wicket tools git
    """
    from wicket.core.signature import first_sentence

    async def work(gateway: "Gateway") -> "tuple[tuple[Tool, ...], dict[str, str]]":
        return await gateway.tools(server), gateway.catalogue.failures

    found, failures = with_gateway(config, work, verbose=verbose)
    if json:
        say_json([tool_as_json(tool) for tool in found])
    else:
        table(("TOOL", "ABOUT"), ((tool.key, first_sentence(tool.description)) for tool in found))
    name_failures(failures, verbose=verbose)


def search(
    query: Annotated[str, typer.Argument(help="A task in plain words.")],
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=50, help="How many tools to show.")] = 5,
    server: Annotated[
        list[str] | None,
        typer.Option("--server", "-s", help="Only these servers.", autocompletion=complete_server),
    ] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Find the tools that fit a task.

    Example: wicket search "show what changed in the repository"
    """
    from wicket.core.signature import describe as rendered

    async def work(gateway: "Gateway") -> "tuple[Answer, dict[str, str]]":
        answer = await gateway.verbs.search(query, limit=limit, servers=server or None)
        return answer, gateway.catalogue.failures

    answer, failures = with_gateway(config, work, verbose=verbose)
    if json:
        hits = [{"score": hit.score, **tool_as_json(hit.tool)} for hit in answer.hits]
        say_json({"confident": answer.confident, "hits": hits})
    else:
        if not answer.confident:
            note("No tool clearly fits." + (" The closest:" if answer.hits else ""))
        for hit in answer.hits:
            line = rendered(hit.tool, "signature")
            name = line.partition("(")[0]
            write(styled(name, "cyan"), clean(line[len(name) :]))
    name_failures(failures, verbose=verbose)


def describe(
    names: Annotated[
        list[str],
        typer.Argument(help="Tools by name: server.tool, or tool where that is enough.", autocompletion=complete_tool),
    ],
    detail: Annotated[str, typer.Option("--detail", "-d", help="signature, brief or full.")] = "full",
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Show what tools take and give.

    Example: wicket describe git.git_log --detail brief
    """
    from wicket.core.signature import describe as rendered

    levels: dict[str, Detail] = {"signature": "signature", "brief": "brief", "full": "full"}
    if detail not in levels:
        raise typer.BadParameter(f"{detail!r} is not one of {', '.join(levels)}", param_hint="--detail")
    described = with_gateway(config, lambda gateway: gateway.verbs.describe(names), verbose=verbose)
    if json:
        say_json([tool_as_json(tool) for tool in described.tools])
    else:
        for tool in described.tools:
            shown = rendered(tool, levels[detail])
            say(shown if isinstance(shown, str) else pretty(shown))
    for problem in described.problems:
        note(f"wicket: {problem}")
    if described.problems:
        raise typer.Exit(2)
