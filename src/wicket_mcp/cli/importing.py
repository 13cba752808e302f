"""`wicket import`: the servers that clients already have, brought over; and the clients, if asked, taken over."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wicket_mcp.cli.common import JsonOption, VerboseOption
from wicket_mcp.cli.completion import complete_client
from wicket_mcp.cli.output import note, say, say_json, table

if TYPE_CHECKING:
    from wicket_mcp.config.edit.bring import Brought
    from wicket_mcp.config.edit.intake import Intake
    from wicket_mcp.config.model.server import ServerConfig
    from wicket_mcp.config.read.client_files import Client


def import_servers(
    source: Annotated[
        str | None,
        typer.Argument(
            help="claude-desktop, claude-code, cursor, vscode, windsurf, zed, codex, gemini, cline, or a file. "
            "Without it: what there is to import.",
            autocompletion=complete_client,
        ),
    ] = None,
    project: Annotated[bool, typer.Option("--project", help="The client's file of this folder.")] = False,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Let the client talk to Wicket alone; a copy of its file is kept.")
    ] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Give the client its own servers back.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would happen.")] = False,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="The wicket.toml to write to.", show_default=False)
    ] = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Bring over the servers that a client has.

    Example: wicket import cursor --take-over
    """
    from wicket_mcp.config.edit import bring
    from wicket_mcp.config.edit.files import target
    from wicket_mcp.config.edit.intake import read_any
    from wicket_mcp.config.read.client_files import CLIENTS, folders

    if source is None:
        overview(json=json)
        return
    client = CLIENTS.get(source.lower())
    if client is None:
        _refuse_misspelt(source, tuple(CLIENTS))
    files = bring.files_of(client, folders(), project=project) if client else ()
    if undo:
        _undo(bring.undo(files) if client else bring.undo_file(Path(source).expanduser()), source, json=json)
        return
    intakes = bring.read_files(files) if client else [read_any(Path(source).expanduser())]
    path = target(config)
    brought = bring.bring(intakes, path, dry_run=dry_run)
    taken = take_over_files(intakes, client, path) if take_over and not dry_run else []
    if json:
        say_json(_as_json(brought, taken))
    else:
        tell(brought, dry_run=dry_run)
        _tell_taken(taken, intakes, source, asked=take_over, dry_run=dry_run)


def _refuse_misspelt(source: str, clients: tuple[str, ...]) -> None:
    """What is no file but nearly a client's name was meant as one. Raises UnknownName."""
    from wicket_mcp.errors import UnknownName
    from wicket_mcp.spelling import nearest

    near = nearest(source, clients)
    if near and not Path(source).expanduser().exists():
        raise UnknownName("client", source, near, hint=f"A file '{source}' does not exist either.")


def overview(*, json: bool = False) -> "list[tuple[Client, list[Intake]]]":
    """Show which clients have servers on this machine; changes nothing."""
    found = survey()
    rows = [(client.id, intake) for client, intakes in found for intake in intakes]
    if json:
        say_json([{"client": name, "file": str(i.path), "servers": [o.key for o in i.offers]} for name, i in rows])
        return found
    if not rows:
        note("No client's list of servers was found. Add servers one by one: wicket add time -- uvx mcp-server-time")
        return found
    table(
        ("CLIENT", "SERVERS", "FILE"),
        ((name, ", ".join(o.key for o in i.offers) or _none(i), str(i.path)) for name, i in rows),
    )
    first = next((name for name, intake in rows if intake.offers), None)
    if first:
        note(f"Bring them over: wicket import {first}")
    return found


def survey() -> "list[tuple[Client, list[Intake]]]":
    """Every client that has a file with servers here; one that cannot be read is named and passed over."""
    from wicket_mcp.config.edit.intake import read_client
    from wicket_mcp.config.read.client_files import CLIENTS, folders, project_file, user_files
    from wicket_mcp.errors import ConfigError

    where = folders()
    found: list[tuple[Client, list[Intake]]] = []
    for client in CLIENTS.values():
        own = project_file(client, where)
        intakes: list[Intake] = []
        for file in (*user_files(client, where), *((own,) if own else ())):
            try:
                intake = read_client(file)
            except ConfigError as problem:
                note(f"wicket: {problem}")
                continue
            if intake is not None and intake.section is not None:
                intakes.append(intake)
        if intakes:
            found.append((client, intakes))
    return found


def take_over_files(intakes: "list[Intake]", client: "Client | None", config: Path) -> list[tuple[Path, Path]]:
    from wicket_mcp.cli.snippets import own_command
    from wicket_mcp.config.edit import bring, takeover

    extra = dict(client.extra) if client else {}
    return bring.take_over(intakes, takeover.entry(own_command(), config.absolute(), extra))


def tell(brought: "Brought", *, dry_run: bool = False) -> None:
    """What was brought over, what was not, and where it is now."""
    table(
        ("SERVER", "RUNS", "OUTCOME"),
        (
            (
                outcome.name,
                how(outcome.server),
                "already there"
                if not outcome.is_new
                else "new" + (f", was {outcome.server.name}" if outcome.name != outcome.server.name else ""),
            )
            for outcome in brought.outcomes
        ),
    )
    for text in brought.notes:
        note(f"wicket: {text}")
    for path in brought.secrets:
        note(f"A secret that stood in the file {'would be' if dry_run else 'is'} kept in {path} (yours alone to read).")
    count = sum(outcome.is_new for outcome in brought.outcomes)
    servers = "1 server" if count == 1 else f"{count} servers"
    say(f"{servers} {'would be ' if dry_run else ''}added to {brought.path}")


def how(server: "ServerConfig") -> str:
    """What a server runs: its address, or its program and what that is told first. Never all, for secrets' sake."""
    if server.url is not None:
        return server.url.partition("?")[0]
    first = next((argument for argument in server.args if not argument.startswith("-")), "")
    return f"{server.command} {first}".strip()


def _tell_taken(
    taken: list[tuple[Path, Path]], intakes: "list[Intake]", source: str, *, asked: bool, dry_run: bool
) -> None:
    for path, backup in taken:
        say(f"{path} now starts Wicket alone; what it was is in {backup.name}.")
        say(f"Back again: wicket import {source} --undo")
    if taken:
        note("Restart the client to see the change (one that was running may have to be closed first).")
    elif asked and dry_run:
        for path in dict.fromkeys(intake.path for intake in intakes if intake.offers):
            say(f"{path} would be rewritten to start Wicket alone; a copy of it would be kept beside it.")
    elif asked:
        note("Nothing to take over: the client already has no server but Wicket.")
    elif not asked and any(intake.offers for intake in intakes):
        note(f"Let the client talk to Wicket alone: wicket import {source} --take-over")


def _undo(restored: list[Path], source: str, *, json: bool) -> None:
    if json:
        say_json({"restored": [str(path) for path in restored]})
        return
    for path in restored:
        say(f"{path} has its own servers back. They stay in wicket.toml too: wicket remove NAME takes one out.")
    if not restored:
        note(f"wicket: nothing of '{source}' was taken over, so there is nothing to undo.")
        raise typer.Exit(1)


def _none(intake: "Intake") -> str:
    return "(Wicket alone)" if intake.has_wicket else "(none that Wicket can run)"


def _as_json(brought: "Brought", taken: list[tuple[Path, Path]]) -> dict[str, Any]:
    return {
        "config": str(brought.path),
        "servers": [{"name": o.name, "from": o.server.name, "new": o.is_new} for o in brought.outcomes],
        "notes": list(brought.notes),
        "secrets": [str(path) for path in brought.secrets],
        "taken_over": [{"file": str(path), "backup": str(backup)} for path, backup in taken],
    }
