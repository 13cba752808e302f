"""`wicket import`: puts the servers of clients' files into wicket.toml; connects the clients to Wicket if asked.

Owns what is asked and shown; the work is `config.edit.import_plan`'s.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wicket_mcp.cli.common import JsonOption, VerboseOption
from wicket_mcp.cli.completion import complete_client
from wicket_mcp.cli.outline import outline_server
from wicket_mcp.cli.output import note, say, say_json, table
from wicket_mcp.cli.trust import keep_trust
from wicket_mcp.telemetry.log import one_line

if TYPE_CHECKING:
    from wicket_mcp.config.edit.client_entries import ClientEntries
    from wicket_mcp.config.edit.import_plan import Imported
    from wicket_mcp.config.model.server import ServerConfig
    from wicket_mcp.config.read.client_files import Client


def import_servers(
    source: Annotated[
        str | None,
        typer.Argument(
            help="claude-desktop, claude-code, cursor, vscode, vscode-insiders, vscodium, windsurf, zed, codex, "
            "gemini, cline, copilot, kiro, lm-studio, junie, jetbrains, copilot-jetbrains, opencode, goose, or a file. "
            "Without it: list what can be imported.",
            autocompletion=complete_client,
        ),
    ] = None,
    project: Annotated[bool, typer.Option("--project", help="Use the client's file in this folder.")] = False,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Connect the client only to Wicket, and keep a copy of its file.")
    ] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Give the client its own servers back.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would happen and change nothing.")] = False,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="The wicket.toml to write to.", show_default=False)
    ] = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Import the servers of a client.

    Example: wicket import cursor --take-over
    """
    from wicket_mcp.config.edit import import_plan
    from wicket_mcp.config.edit.client_entries import read_any
    from wicket_mcp.config.edit.take_over import check_changeable
    from wicket_mcp.config.edit.wicket_toml import find_target
    from wicket_mcp.config.read.client_files import CLIENTS, folders

    if source is None:
        show_overview(json=json)
        return
    client = CLIENTS.get(source.lower())
    if client is None:
        _reject_misspelt(source, tuple(CLIENTS))
    places = import_plan.files_of(client, folders(), project=project) if client else ()
    if undo:
        restored = import_plan.undo(places) if client else import_plan.undo_file(Path(source).expanduser())
        _show_restored(restored, source, json=json)
        return
    files = import_plan.read_files(places) if client else [read_any(Path(source).expanduser())]
    if take_over:
        check_changeable(files)
    path = find_target(config)
    with keep_trust(path):
        imported = import_plan.import_servers(files, path, dry_run=dry_run)
    profile = _profile_of(client, project=project) if client else _profile_of_file(Path(source).expanduser())
    replaced: list[tuple[Path, Path]] = []
    if take_over and not dry_run:
        if profile and imported.outcomes:
            with keep_trust(path):
                import_plan.write_profile(path, profile, (outcome.name for outcome in imported.outcomes))
        replaced = take_over_files(files, client, path, profile, imported.variables())
    if json:
        say_json(_as_json(imported, replaced))
    else:
        show_imported(imported, dry_run=dry_run)
        _show_taken_over(replaced, files, source, requested=take_over, dry_run=dry_run)
        if replaced and profile:
            note(f"It sees the servers that it had: [profiles.{profile}] in {path}. Name more there to show more.")


def _reject_misspelt(source: str, clients: tuple[str, ...]) -> None:
    """Raises UnknownName for what is not a file and nearly a client's name."""
    from wicket_mcp.errors import UnknownName
    from wicket_mcp.spelling import nearest

    near = nearest(source, clients)
    if near and not Path(source).expanduser().exists():
        raise UnknownName("client", source, near, hint=f"There is no file '{source}' either.")


def show_overview(*, json: bool = False) -> "list[tuple[Client, list[ClientEntries]]]":
    """Show which clients have servers on this machine; changes nothing."""
    clients = list_clients()
    rows = [
        (client.id, str(file.path), [entry.key for entry in file.entries], file)
        for client, files in clients
        for file in files
    ]
    if json:
        say_json([{"client": client, "file": path, "servers": keys} for client, path, keys, _ in rows])
        return clients
    if not rows:
        note("No client's list of servers was found. Add servers one by one: wicket add time -- uvx mcp-server-time")
        return clients
    table(
        ("CLIENT", "SERVERS", "FILE"),
        ((client, ", ".join(keys) or _describe_empty(file), path) for client, path, keys, file in rows),
    )
    first = next((client for client, _, keys, _ in rows if keys), None)
    if first:
        note(f"Import them: wicket import {first}")
    return clients


def list_clients() -> "list[tuple[Client, list[ClientEntries]]]":
    """Every client that has a file with servers here; one that cannot be read is named and left out."""
    from wicket_mcp.config.edit.client_entries import read_client
    from wicket_mcp.config.read.client_files import CLIENTS, folders, project_file, user_files
    from wicket_mcp.errors import ConfigError

    where = folders()
    clients: list[tuple[Client, list[ClientEntries]]] = []
    for client in CLIENTS.values():
        own = project_file(client, where)
        readable: list[ClientEntries] = []
        for file in (*user_files(client, where), *((own,) if own else ())):
            try:
                entries = read_client(file)
            except ConfigError as problem:
                note(f"wicket: {problem}")
                continue
            if entries is not None and entries.section is not None:
                readable.append(entries)
        if readable:
            clients.append((client, readable))
    return clients


def _profile_of(client: "Client", *, project: bool) -> str:
    """The profile that a client is given: what it had, and not what all clients had together."""
    from wicket_mcp.config.model.names import derive

    return f"{client.id}-{derive(Path.cwd().name).replace('.', '-')}" if project else client.id


def _profile_of_file(path: Path) -> str:
    """The profile of a file that was named: a client's, if the file is one's, else one of its own."""
    from wicket_mcp.config.model.names import derive
    from wicket_mcp.config.read.client_files import CLIENTS, folders, user_files

    where, resolved = folders(), path.absolute()
    for client in CLIENTS.values():
        if any(file.path.absolute() == resolved for file in user_files(client, where)):
            return client.id
    folders_above = resolved.parts[-3:-1] if resolved.parent.name.startswith(".") else resolved.parts[-2:-1]
    words = (*folders_above, resolved.name.strip(".").partition(".")[0])
    return derive("-".join(word.strip("./\\") for word in words)).replace(".", "-")


def take_over_files(
    files: "list[ClientEntries]", client: "Client | None", config: Path, profile: str, variables: tuple[str, ...]
) -> list[tuple[Path, Path]]:
    """Connect the clients of these files only to Wicket; the files, and the copies that were kept of them."""
    from wicket_mcp.cli.snippets import own_command
    from wicket_mcp.config.edit import import_plan
    from wicket_mcp.config.edit.take_over import entry

    extra = dict(client.extra) if client else {}
    if variables and client is not None and client.variables is not None:
        extra |= client.variables(variables)
    new = entry(own_command(), config.absolute(), extra, profile)
    if client is not None and client.command_is_list:
        new["command"] = [new["command"], *new.pop("args")]
    return import_plan.take_over(files, new)


def show_imported(imported: "Imported", *, dry_run: bool = False) -> None:
    """Show what was imported, what was not, and where it is now."""
    from wicket_mcp.spelling import count_of

    table(
        ("SERVER", "RUNS", "OUTCOME"),
        (
            (
                outcome.name,
                describe_start(outcome.server),
                "already there"
                if not outcome.is_new
                else "new" + (f", was {outcome.server.name}" if outcome.name != outcome.server.name else ""),
            )
            for outcome in imported.outcomes
        ),
    )
    for outcome in imported.outcomes:
        if outcome.is_new:
            for line in outline_server(outcome.server, masked=True):
                note(f"  {line}")
    for text in imported.notes:
        note(f"wicket: {one_line(text)}")
    for path in imported.secrets:
        note(f"A secret of the file {'would be' if dry_run else 'is'} kept in {path} (only you can read it).")
    servers = count_of(sum(outcome.is_new for outcome in imported.outcomes), "server")
    say(f"{servers} {'would be ' if dry_run else ''}added to {imported.path}")


def describe_start(server: "ServerConfig") -> str:
    """What a server runs: its address without secrets, or its program and the first argument that is not a flag."""
    from wicket_mcp.telemetry.redact import mask_url

    if server.url is not None:
        return mask_url(server.url)
    first = next((argument for argument in server.args if not argument.startswith("-")), "")
    return f"{server.command} {first}".strip()


def _show_taken_over(
    replaced: list[tuple[Path, Path]], files: "list[ClientEntries]", source: str, *, requested: bool, dry_run: bool
) -> None:
    from wicket_mcp.config.edit.take_over import is_changeable

    for path, backup in replaced:
        say(f"{path} now starts only Wicket; its old content is in {backup.name}.")
        say(f"To undo: wicket import {source} --undo")
    if replaced:
        note("Restart the client to see the change.")
    elif requested and dry_run:
        for path in dict.fromkeys(file.path for file in files if file.entries):
            say(f"{path} would be rewritten to start only Wicket; a copy would be kept beside it.")
    elif requested:
        note("Nothing to take over: the client has no servers besides Wicket.")
    elif not requested and any(file.entries and is_changeable(file) for file in files):
        note(f"To connect the client only to Wicket: wicket import {source} --take-over")


def _show_restored(restored: list[Path], source: str, *, json: bool) -> None:
    if json:
        say_json({"restored": [str(path) for path in restored]})
        return
    for path in restored:
        say(
            f"{path} has its own servers again. They are also still in wicket.toml; remove one with: wicket remove NAME"
        )
    if not restored:
        note(f"wicket: '{source}' was not taken over, so there is nothing to undo.")
        raise typer.Exit(1)


def _describe_empty(file: "ClientEntries") -> str:
    return "(only Wicket)" if file.has_wicket else "(none that Wicket can run)"


def _as_json(imported: "Imported", replaced: list[tuple[Path, Path]]) -> dict[str, Any]:
    return {
        "config": str(imported.path),
        "servers": [{"name": o.name, "from": o.server.name, "new": o.is_new} for o in imported.outcomes],
        "notes": list(imported.notes),
        "secrets": [str(path) for path in imported.secrets],
        "taken_over": [{"file": str(path), "backup": str(backup)} for path, backup in replaced],
    }
