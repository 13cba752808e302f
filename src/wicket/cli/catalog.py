"""The verbs that look: servers, tools, search, describe."""

from dataclasses import asdict
from typing import Annotated

import typer

from wicket.app import Gateway
from wicket.cli.common import ConfigOption, JsonOption, tool_as_json, with_gateway
from wicket.cli.output import note, say, say_json, table
from wicket.codec import pretty
from wicket.core.search import Answer
from wicket.core.signature import describe as rendered
from wicket.core.signature import first_sentence
from wicket.model import Detail, Tool


def servers(config: ConfigOption = None, json: JsonOption = False) -> None:
    """List the configured servers, asking those never seen.

    Example: wicket servers --config ~/.cursor/mcp.json
    """
    found = with_gateway(config, lambda gateway: gateway.servers())
    if json:
        say_json([asdict(server) for server in found])
        return
    table(
        ("SERVER", "STATE", "TOOLS", "VERSION", "ABOUT"),
        (
            (s.name, s.state, "?" if s.tools is None else str(s.tools), s.version, s.problem or s.description)
            for s in found
        ),
    )


def tools(
    server: Annotated[str | None, typer.Argument(help="Only this server's tools.")] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """List tools with what they do.

    Example: wicket tools git
    """

    async def work(gateway: Gateway) -> tuple[tuple[Tool, ...], dict[str, str]]:
        return await gateway.tools(server), gateway.catalogue.failures

    found, failures = with_gateway(config, work)
    if json:
        say_json([tool_as_json(tool) for tool in found])
    else:
        table(("TOOL", "ABOUT"), ((tool.key, first_sentence(tool.description)) for tool in found))
    _name_failures(failures)


def search(
    query: Annotated[str, typer.Argument(help="A task in plain words.")],
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=50, help="How many tools to show.")] = 5,
    server: Annotated[list[str] | None, typer.Option("--server", "-s", help="Only these servers.")] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Find the tools that fit a task.

    Example: wicket search "show what changed in the repository"
    """

    async def work(gateway: Gateway) -> tuple[Answer, dict[str, str]]:
        return await gateway.verbs.search(query, limit=limit, servers=server or None), gateway.catalogue.failures

    answer, failures = with_gateway(config, work)
    if json:
        hits = [{"score": hit.score, **tool_as_json(hit.tool)} for hit in answer.hits]
        say_json({"confident": answer.confident, "hits": hits})
    else:
        if not answer.confident:
            note("No tool clearly fits; the closest are shown.")
        for hit in answer.hits:
            say(str(rendered(hit.tool, "signature")))
    _name_failures(failures)


def describe(
    names: Annotated[list[str], typer.Argument(help="Tools by name: server.tool, or tool where that is enough.")],
    detail: Annotated[str, typer.Option("--detail", "-d", help="signature, brief or full.")] = "full",
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Show what tools take and give.

    Example: wicket describe git.git_log --detail brief
    """
    levels: dict[str, Detail] = {"signature": "signature", "brief": "brief", "full": "full"}
    if detail not in levels:
        raise typer.BadParameter(f"{detail!r} is not one of {', '.join(levels)}", param_hint="--detail")
    described = with_gateway(config, lambda gateway: gateway.verbs.describe(names))
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


def _name_failures(failures: dict[str, str]) -> None:
    for name, problem in failures.items():
        note(f"wicket: server '{name}' could not be listed: {problem}")
