"""The verbs that change wicket.toml: init, add, remove, enable, disable."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wicket_mcp.cli.added import tell_added
from wicket_mcp.cli.common import JsonOption, ServerArgument, VerboseOption
from wicket_mcp.cli.output import note, say, say_json
from wicket_mcp.cli.trust import keep_trust
from wicket_mcp.errors import ConfigError

if TYPE_CHECKING:
    from wicket_mcp.config.model.server import ServerConfig

FileOption = Annotated[
    Path | None, typer.Option("--config", "-c", help="The wicket.toml to change.", show_default=False)
]


def init(
    in_folder: Annotated[
        bool, typer.Option("--here", help="Write into this folder, not into your configuration folder.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; import the servers of all clients.")] = False,
    config: FileOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Write a first wicket.toml.

    In a terminal it offers to import the servers of your clients.

    Example: wicket init --here
    """
    from wicket_mcp.config.edit import import_plan, wicket_toml
    from wicket_mcp.config.read import locate

    named = config or (Path.cwd() / locate.CONFIG_NAME if in_folder else None)
    path = named or wicket_toml.find_target(None)
    if path.exists():
        elsewhere = "" if named else ", or use --here for one in this folder"
        hint = f"Add to it with 'wicket add' or 'wicket import'{elsewhere}."
        raise ConfigError("already exists.", file=str(path), hint=hint)
    with keep_trust(path):
        wicket_toml.save(path, wicket_toml.TEMPLATE)
    if json:
        say_json({"config": str(path)})
        return
    say(f"Wrote {path}")
    from wicket_mcp.cli.importing import list_clients, show_imported, show_overview

    asking = sys.stdin.isatty() and sys.stdout.isatty() and not yes
    for client, files in list_clients() if asking or yes else show_overview():
        offered = [file for file in files if file.entries]
        names = ", ".join(entry.key for file in offered for entry in file.entries)
        if offered and (yes or (asking and typer.confirm(f"Import from {client.title}: {names}?", default=True))):
            with keep_trust(path):
                show_imported(import_plan.import_servers(offered, path))
    note("Next: wicket servers, then wicket search 'a task'. To connect a client: wicket import CLIENT --take-over")


def add(
    name: Annotated[
        str, typer.Argument(help="Name of the server (its tools are NAME.tool), or a domain that publishes servers.")
    ],
    command: Annotated[
        list[str] | None,
        typer.Argument(
            help="Address of a remote server; or after --, the program to start, with its arguments.",
            metavar="URL | -- COMMAND",
        ),
    ] = None,
    url: Annotated[str | None, typer.Option("--url", help="The same as URL, as an option.", show_default=False)] = None,
    env: Annotated[
        list[str] | None, typer.Option("--env", "-e", help="NAME=VALUE, or NAME to take it from Wicket's environment.")
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", help="'Name: value' to send to the server.")
    ] = None,
    cwd: Annotated[str | None, typer.Option("--cwd", help="Folder to start the server in.", show_default=False)] = None,
    description: Annotated[str, typer.Option("--description", help="What the server is for.", show_default=False)] = "",
    from_registry: Annotated[bool, typer.Option("--from-registry", help="NAME is a server in the registry.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; add what is offered.")] = False,
    config: FileOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Add a server: a command, an address, or what a domain publishes.

    Example: wicket add time -- uvx mcp-server-time

    Example: wicket add linear https://mcp.linear.app/mcp

    Example: wicket add --from-registry filesystem -- /projects
    """
    from wicket_mcp.config.edit import wicket_toml

    path = wicket_toml.find_target(config)
    options = _options(env or [], header or [], cwd=cwd, description=description)
    if from_registry:
        from wicket_mcp.cli.from_registry import add_from_registry

        if url:
            raise ConfigError("a server of the registry has its own address.", hint="Leave --url out.")
        add_from_registry(name, path, command or [], options, yes=yes, json=json)
        return
    if "." in name and not command and not url:
        from wicket_mcp.cli.domain import add_from_domain

        add_from_domain(name, path, yes=yes, json=json)
        return
    server = _server(name, command or [], url, options)
    server, secrets = wicket_toml.extract_secrets(server, path.parent)
    text = wicket_toml.add_server(wicket_toml.read_or_start(path), server, path)
    wicket_toml.write_secrets(secrets)
    with keep_trust(path):
        saved = wicket_toml.save(path, text)
    if json:
        say_json({"config": str(path), "added": name, "secrets": [str(file) for file in secrets]})
    else:
        tell_added(server, path, saved, secrets)


def remove(
    name: ServerArgument, config: FileOption = None, json: JsonOption = False, verbose: VerboseOption = False
) -> None:
    """Remove a server from wicket.toml.

    Example: wicket remove time
    """
    from wicket_mcp.config.edit import wicket_toml

    path = wicket_toml.find_target(config)
    with keep_trust(path):
        wicket_toml.save(path, wicket_toml.remove_server(_existing(path), name, path))
    _report(json, path, "removed", name, f"Removed {name} from {path}")


def enable(
    name: ServerArgument, config: FileOption = None, json: JsonOption = False, verbose: VerboseOption = False
) -> None:
    """Enable a server that was disabled.

    Example: wicket enable time
    """
    _set_enabled(name, True, config, json)


def disable(
    name: ServerArgument, config: FileOption = None, json: JsonOption = False, verbose: VerboseOption = False
) -> None:
    """Stop using a server, but keep its entry.

    Example: wicket disable time
    """
    _set_enabled(name, False, config, json)


def _set_enabled(name: str, enabled: bool, config: Path | None, json: bool) -> None:
    from wicket_mcp.config.edit import wicket_toml

    path = wicket_toml.find_target(config)
    with keep_trust(path):
        wicket_toml.save(path, wicket_toml.set_enabled(_existing(path), name, enabled, path))
    word = "enabled" if enabled else "disabled"
    _report(json, path, word, name, f"{name} is {word} in {path}")


def _report(json: bool, path: Path, key: str, name: str, words: str) -> None:
    if json:
        say_json({"config": str(path), key: name})
    else:
        say(words)


def _existing(path: Path) -> str:
    from wicket_mcp.config.edit.client_entries import read_text

    if not path.exists():
        raise ConfigError(
            "does not exist.", file=str(path), hint="Create it: wicket init, or wicket add NAME -- COMMAND."
        )
    return read_text(path)


def _options(env: list[str], header: list[str], **others: Any) -> dict[str, Any]:
    """What the options of `wicket add` say about the server, as in wicket.toml."""
    values = {key: value for key, value in others.items() if value}
    if env:
        values["env"] = {key: value if equals else f"${{{key}}}" for key, equals, value in _pairs(env, "=")}
    if wrong := next((item for item in header if not item.partition(":")[2].strip()), None):
        raise ConfigError(f"the header '{wrong.partition(':')[0]}' has no value.", hint="Write --header 'Name: value'.")
    if header:
        values["headers"] = {key.strip(): value.strip() for key, _, value in _pairs(header, ":")}
    return values


def _server(name: str, command: list[str], url: str | None, options: dict[str, Any]) -> "ServerConfig":
    from wicket_mcp.config.model.config import Config

    if url is None and len(command) == 1 and command[0].startswith(("https://", "http://")):
        command, url = [], command[0]
    if bool(command) == bool(url):
        raise ConfigError(
            "a server needs either a command or an address.",
            hint="wicket add NAME -- COMMAND ARGS…, or wicket add NAME https://…",
        )
    values = options | ({"url": url} if url else {"command": command[0], "args": command[1:]})
    return Config.from_dict({"servers": {name: values}}).servers[0]


def _pairs(items: list[str], separator: str) -> list[tuple[str, str, str]]:
    return [item.partition(separator) for item in items]
