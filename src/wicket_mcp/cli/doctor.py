"""`wicket doctor`: everything that can be wrong, with the line that fixes it."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from wicket_mcp.cli.common import ConfigOption, JsonOption, VerboseOption, read, with_gateway
from wicket_mcp.cli.output import apply_style, say, say_json, wrap, write
from wicket_mcp.errors import ConfigError, WicketError
from wicket_mcp.telemetry.log import clean

if TYPE_CHECKING:
    from wicket_mcp.app import Gateway
    from wicket_mcp.cli.checks import Finding
    from wicket_mcp.config.model.config import Config

_MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "problem": ("✗", "red")}
_ORDER = ("problem", "warning", "ok")


def doctor(
    fix: Annotated[bool, typer.Option("--fix", help="Fix what can be fixed safely.")] = False,
    start: Annotated[bool, typer.Option("--start/--no-start", help="Start every server and list its tools.")] = True,
    strict: Annotated[bool, typer.Option("--strict", help="Count warnings as problems.")] = False,
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Check configuration, servers and machine, with fixes.

    The exit code is 1 if there is a problem.

    Example: wicket doctor --fix
    """
    from wicket_mcp.cli.checks import Finding

    try:
        settings = read(config)
    except WicketError as problem:
        hint = problem.hint or (
            "" if "wicket trust" in problem.message else "wicket init writes a first configuration."
        )
        findings = [Finding("problem", "configuration", problem.message, hint)]
    else:
        findings = _examine(settings, start=start, verbose=verbose)
        findings = [_fix(finding) if fix else finding for finding in findings]
    if json:
        keys = ("level", "about", "message", "fix", "output")
        say_json([{key: getattr(finding, key) for key in keys} for finding in findings])
    else:
        _print(findings, verbose=verbose)
    bad = ("problem", "warning") if strict else ("problem",)
    if any(finding.level in bad for finding in findings):
        raise typer.Exit(1)


def _examine(settings: "Config", *, start: bool, verbose: bool) -> "list[Finding]":
    from wicket_mcp.cli import checks

    findings = list(checks.configuration(settings))
    for server in settings.servers:
        if server.enabled:
            findings += checks.server(server, settings)
    findings += checks.machine(settings)
    if start and not any(finding.about == "state folder" and finding.level == "problem" for finding in findings):
        known_bad = {finding.about for finding in findings if finding.level == "problem"}
        try:
            findings += with_gateway(settings.path, _ask_servers(known_bad), verbose=verbose)
        except ConfigError as problem:  # a state file that cannot be opened is one finding among the others
            findings.append(checks.Finding("problem", "state folder", problem.message, problem.hint))
    return findings


def _ask_servers(known_bad: set[str]) -> "Callable[[Gateway], Awaitable[list[Finding]]]":
    """Ask every server again; one whose problem is already known is not reported twice."""

    async def work(gateway: "Gateway") -> "list[Finding]":
        import asyncio

        from wicket_mcp.cli import checks
        from wicket_mcp.cli.roots import WITHHELD, roots_of_servers
        from wicket_mcp.identity.approver import Approver

        await gateway.catalogue.load()
        names = [name for name in gateway.catalogue.servers if name not in known_bad]
        await asyncio.gather(*(gateway.catalogue.renew(name) for name in names))
        shared = [name for name, roots in (await roots_of_servers(gateway)).items() if roots == WITHHELD]
        findings = [finding for finding in checks.listings(gateway.catalogue) if finding.about not in known_bad]
        if not await Approver(gateway.store).is_set():
            findings += checks.approvals(gateway.config, gateway.catalogue)
        return [*findings, *checks.withheld_roots(shared)]

    return work


def _fix(finding: "Finding") -> "Finding":
    from wicket_mcp.cli.checks import Finding

    if finding.repair is None:
        return finding
    try:
        finding.repair()
    except OSError as problem:
        return Finding(finding.level, finding.about, f"{finding.message} ({problem.strerror})", finding.fix)
    return Finding("ok", finding.about, f"fixed: {finding.message}")


def _group_unpinned(findings: "Iterable[Finding]") -> "list[Finding]":
    """Several servers that run the newest version of something are one finding: few problems stay easy to see."""
    from wicket_mcp.cli.checks import Finding

    grouped = list(findings)
    unpinned = [finding for finding in grouped if finding.unpinned]
    if len(unpinned) < 2:
        return grouped
    names = ", ".join(f"{finding.about} ({finding.unpinned})" for finding in unpinned)
    words = f"{len(unpinned)} servers run the newest version of their package, whichever version that is: {names}"
    grouped = [finding for finding in grouped if not finding.unpinned]
    return [*grouped, Finding("warning", "versions", words, "wicket pin")]


def _print(findings: "Iterable[Finding]", *, verbose: bool) -> None:
    counts = {"ok": 0, "warning": 0, "problem": 0}
    repairable = False
    for finding in sorted(_group_unpinned(findings), key=lambda finding: _ORDER.index(finding.level)):
        mark, colour = _MARKS[finding.level]
        counts[finding.level] += 1
        repairable = repairable or finding.repair is not None
        words = wrap(f"{finding.about}: {finding.message}", "  ").lstrip()
        write(apply_style(mark, colour), " ", apply_style(finding.about, "bold"), words[len(clean(finding.about)) :])
        for line in finding.output:
            say(f"    | {line}")
        if finding.fix and finding.level != "ok":
            say(f"    fix: {finding.fix}")
    words = [
        f"{counts[level]} {level}{'' if counts[level] == 1 else 's'}"
        for level in ("problem", "warning")
        if counts[level]
    ]
    say(f"{', '.join(words)}." if words else "All is well.")
    if repairable:
        say("wicket doctor --fix fixes what can be fixed safely.")
