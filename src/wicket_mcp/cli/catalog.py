"""The verbs that look: servers, tools, search, describe."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from wicket_mcp.cli.common import (
    NO_SERVERS,
    ConfigOption,
    JsonOption,
    VerboseOption,
    explain_unknown,
    for_user,
    name_absence,
    name_failures,
    tool_as_json,
    with_gateway,
    with_library,
)
from wicket_mcp.cli.completion import complete_server, complete_tool
from wicket_mcp.cli.output import apply_style, note, say, say_json, table, wrap, write
from wicket_mcp.cli.output import explain as explain_line
from wicket_mcp.cli.roots import explain_roots, roots_of_servers
from wicket_mcp.telemetry.log import clean

if TYPE_CHECKING:
    from pathlib import Path

    from wicket_mcp.app import Gateway
    from wicket_mcp.catalog.catalogue import Catalogue
    from wicket_mcp.errors import WicketError
    from wicket_mcp.library import Library
    from wicket_mcp.model import Detail, Principal, ServerStatus, Tool
    from wicket_mcp.search import Answer, Explanation


def servers(
    health: Annotated[bool, typer.Option("--health", help="Show their measured health.")] = False,
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """List the configured servers, and start those never seen once.

    Example: wicket servers --config ~/.cursor/mcp.json
    """
    from msgspec import to_builtins

    if health:
        _show_health(config, json=json, verbose=verbose)
        return

    notes: tuple[str, ...] = ()

    async def work(gateway: "Gateway") -> "tuple[list[ServerStatus], dict[str, str]]":
        nonlocal notes
        notes = gateway.config.notes
        return await gateway.servers(), await roots_of_servers(gateway)

    statuses, roots = for_user(config, work, verbose=verbose)
    if json:
        say_json([{**to_builtins(server), "roots": roots.get(server.name, "")} for server in statuses])
        return
    table(
        ("SERVER", "STATE", "TOOLS", "VERSION", "ABOUT"),
        (
            (
                s.name,
                _state(s),
                "?" if s.tools is None else str(s.tools),
                s.version,
                s.problem.partition("\n")[0] or s.description,
            )
            for s in statuses
        ),
        spare=("VERSION",),
    )
    if not statuses:
        note(NO_SERVERS)
    if any(s.problem for s in statuses):
        note("Some servers have problems. What to do: wicket doctor")
    for text in () if verbose else notes:  # with --verbose they were said at the beginning
        note(f"wicket: {text}")
    names = {server.name for server in statuses}
    for words in explain_roots({name: kind for name, kind in roots.items() if name in names}):
        note(f"Roots {words}")


def _show_health(config: "Path | None", *, json: bool, verbose: bool) -> None:
    async def work(gateway: "Gateway") -> "list[dict[str, Any]]":
        from wicket_mcp.dialects.bridge_words import health
        from wicket_mcp.model import LOCAL

        return [health(report) for report in await gateway.registry.measure(None, 100, LOCAL)]

    reports = with_gateway(config, work, verbose=verbose)
    if json:
        say_json(reports)
        return
    table(
        ("SERVER", "STATUS", "SCORE", "P50 MS", "UPTIME %", "ERRORS %", "LAST SEEN"),
        (
            ["-" if report[key] is None else str(report[key]) for key in ("id", "status", *_HEALTH, "last_check")]
            for report in reports
        ),
    )


_HEALTH = ("health_score", "response_time", "uptime_percentage", "error_rate")


def _state(server: "ServerStatus") -> str:
    """In one word, for somebody who has no gateway running: idle and ready are both fine."""
    if server.state == "needs sign-in":
        return server.state
    if server.problem:
        return "failed" if server.tools is None else "failing"
    return "ok" if server.tools is not None else server.state


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
    from wicket_mcp.schema.signature import summarize

    async def work(gateway: "Gateway") -> "tuple[tuple[Tool, ...], dict[str, str]]":
        listed = await gateway.tools(server)
        name_absence(gateway)
        failures = gateway.catalogue.failures
        if server is None:
            return listed, failures
        name = gateway.catalogue.server(server).name
        return listed, {name: failures[name]} if name in failures else {}

    listed, failures = for_user(config, work, verbose=verbose)
    if json:
        say_json([tool_as_json(tool) for tool in listed])
    else:
        table(("TOOL", "ABOUT"), ((tool.key, summarize(tool)) for tool in listed))
    name_failures(failures, verbose=verbose or server is not None)
    if server is not None and not listed and failures:  # what was asked for could not be shown
        raise typer.Exit(1)


def search(
    query: Annotated[str, typer.Argument(help="A task in plain words.")],
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=50, help="How many tools to show.")] = 5,
    server: Annotated[
        list[str] | None,
        typer.Option("--server", "-s", help="Only these servers.", autocompletion=complete_server),
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show what each score is made of.")] = False,
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Find the tools that fit a task.

    Example: wicket search "show what changed in the repository" --explain
    """
    from msgspec import to_builtins

    from wicket_mcp.schema.signature import describe as rendered

    if not query.strip():
        raise typer.BadParameter("say what you want to do, in plain words; wicket tools lists all", param_hint="QUERY")
    is_empty = False

    async def work(library: "Library") -> "tuple[Answer, list[Explanation], dict[str, str]]":
        nonlocal is_empty
        finder, catalogue = library.finder, library.catalogue
        names = [catalogue.server(name).name for name in server] if server else None
        principal = library.principal
        if names is None:
            await _wait_for_servers(catalogue, principal)
        answer = await finder.search(query, principal, limit=limit, servers=names)
        is_empty = name_absence(library)
        hits = answer.hits if explain else ()
        reasons = [(await finder.explain(query, principal, hit.tool)).as_hit(hit.score) for hit in hits]
        return answer, reasons, catalogue.failures

    answer, reasons, failures = with_library(config, work, verbose=verbose)
    if json:
        hits = [{"score": hit.score, **tool_as_json(hit.tool)} for hit in answer.hits]
        for hit, reason in zip(hits, reasons, strict=False):
            hit["explanation"] = to_builtins(reason)
        say_json({"confident": answer.confident, "confidence": answer.confidence, "hits": hits})
    else:
        if not answer.confident and not is_empty:
            note(f"{clean(answer.doubt)}{' The closest:' if answer.hits else ''}")
        if answer.gap:
            note(clean(answer.gap))
        for number, hit in enumerate(answer.hits):
            line = rendered(hit.tool, "signature")
            name = line.partition("(")[0]
            write(apply_style(name, "cyan"), wrap(line)[len(name) :])
            if reasons:
                explain_line(describe_score(reasons[number]), "    ")
        for withheld in answer.withheld:
            note(f"{withheld.hit.tool.key} would fit, but {withheld.reason}")
        if answer.tool_by_task:
            note(clean(answer.tool_by_task))
        if explain:
            say(f"confidence {answer.confidence:.2f}: {'a tool fits' if answer.confident else 'probably none fits'}")
            if (judged := answer.evidence.judged) is not None:
                say(f"in doubt at first look; read beside the query, the best tool gets {judged:+.1f} (positive: fits)")
    name_failures(failures, verbose=verbose)


async def _wait_for_servers(catalogue: "Catalogue", principal: "Principal") -> None:
    """Wait for servers that were never listed, as the gateway does; but this process ends with its answer, and nobody
    starts the others for the next one, so while nothing is known at all it waits for the first that answers.
    """
    import asyncio

    from wicket_mcp.catalog.failures import FIRST_ANSWER
    from wicket_mcp.tasks import Tasks

    catalogue.answer_within(FIRST_ANSWER)
    await catalogue.complete(None, principal, patience=FIRST_ANSWER)
    if catalogue.now.listings:
        return
    listed, tasks = asyncio.Event(), Tasks()
    catalogue.watch(lambda _, now: listed.set() if now.listings else None)
    first = tasks.start(listed.wait(), "wait for the first server", awaited=True)
    every = tasks.start(catalogue.complete(None, principal), "wait for all servers", awaited=True)
    await asyncio.wait((first, every), return_when=asyncio.FIRST_COMPLETED)
    await tasks.close()


def describe_score(reason: "Explanation") -> str:
    """A score in one line: its parts, the fields that brought the letters, the words that were found."""
    names = ("letters", "meaning", "part", "reranked", "usage", "learned", "named", "deprecated", "intent", "judged")
    parts = {name: getattr(reason, name) for name in names}
    sums = " + ".join(f"{name} {value:.2f}" for name, value in parts.items() if abs(value) >= 0.005)
    fields = ", ".join(f"{name} {share:.0%}" for name, share in list(reason.fields.items())[:3])
    words = f"; words: {', '.join(reason.words)}" if reason.words else ""
    return f"score {reason.score:.2f} = {sums or '0'}{f' ({fields})' if fields else ''}{words}"


def describe(
    names: Annotated[
        list[str],
        typer.Argument(
            help="Tools: server.tool, or just tool if only one server has it.", autocompletion=complete_tool
        ),
    ],
    detail: Annotated[
        str | None,
        typer.Option("--detail", "-d", help="signature, brief, or full: the schemas as JSON.", show_default=False),
    ] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Show what tools take and return.

    Example: wicket describe git.git_log --detail brief
    """
    from wicket_mcp.codec import pretty
    from wicket_mcp.schema.signature import describe as rendered

    levels: dict[str, Detail] = {"signature": "signature", "brief": "brief", "full": "full"}
    if detail is not None and detail not in levels:
        raise typer.BadParameter(f"{detail!r} is not one of {', '.join(levels)}", param_hint="--detail")

    async def work(gateway: "Gateway") -> "tuple[tuple[Tool, ...], list[WicketError]]":
        described = await gateway.verbs.describe(names, gateway.principal)
        return described.tools, [explain_unknown(problem, gateway.config) for problem in described.problems]

    listed, problems = for_user(config, work, verbose=verbose)
    if json:
        say_json([tool_as_json(tool) for tool in listed])
    else:
        for number, tool in enumerate(listed):
            if number:
                say()
            if detail is None:
                _explain_tool(tool)
            else:
                text = rendered(tool, levels[detail])
                say(text if isinstance(text, str) else pretty(text))
    for problem in problems:
        note(f"wicket: {problem}")
    if problems:
        raise typer.Exit(2)


def _explain_tool(tool: "Tool") -> None:
    """Everything about a tool, for a person."""
    import shlex

    from wicket_mcp.codec import encode
    from wicket_mcp.schema.field_list import example, fields
    from wicket_mcp.schema.signature import signature

    line = signature(tool)
    name = line.partition("(")[0]
    write(apply_style(name, "cyan"), wrap(line)[len(name) :])
    if tool.description:
        explain_line(tool.description.strip())
    for heading, schema in (("Takes", tool.input_schema), ("Returns", tool.output_schema)):
        if rows := fields(schema or {}):
            write(apply_style(f"{heading}:", "bold"))
            for row in rows:
                explain_line(str(row))
    arguments = shlex.quote(encode(example(tool.input_schema)).decode())
    explain_line(f"Example: wicket call {tool.key}{'' if arguments == shlex.quote('{}') else f' {arguments}'}")
