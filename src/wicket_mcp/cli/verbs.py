"""Every verb of the command line: its name, its place in `--help`, and the module that holds it.

A verb's module is imported and its options are made when the verb is used; `wicket --help` needs this table alone.
The summary of a verb is the first line of its docstring, repeated here for that reason.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.main import get_group

SET_UP, LOOK, USE, KEEP = "Set up", "Look", "Use", "Keep healthy"


class Verb(NamedTuple):
    """Where a verb stands, and `module:function` in this package; a Typer app in place of a function is a group."""

    name: str
    panel: str
    home: str
    summary: str


VERBS = (
    Verb("init", SET_UP, "manage:init", "Write a first wicket.toml."),
    Verb("import", SET_UP, "importing:import_servers", "Import the servers of a client."),
    Verb("add", SET_UP, "manage:add", "Add a server: a command, an address, or what a domain publishes."),
    Verb("remove", SET_UP, "manage:remove", "Remove a server from wicket.toml."),
    Verb("enable", SET_UP, "manage:enable", "Enable a server that was disabled."),
    Verb("disable", SET_UP, "manage:disable", "Stop using a server, but keep its entry."),
    Verb("trust", SET_UP, "trust:trust", "Trust the configuration of a folder."),
    Verb("login", SET_UP, "login:login", "Sign in to a server, or give it your keys."),
    Verb("logout", SET_UP, "login:logout", "Sign out of a server."),
    Verb("servers", LOOK, "catalog:servers", "List the configured servers, and start those never seen once."),
    Verb("tools", LOOK, "catalog:tools", "List tools with what they do."),
    Verb("search", LOOK, "catalog:search", "Find the tools that fit a task."),
    Verb("describe", LOOK, "catalog:describe", "Show what tools take and return."),
    Verb("tokens", LOOK, "tokens:tokens", "Count what your tools cost an agent in tokens."),
    Verb("registry", LOOK, "registry:app", "Search, publish and mirror MCP servers."),
    Verb("call", USE, "invoke:call", "Call a tool and print its answer."),
    Verb("run", USE, "run:run", "Run a script that calls tools, and print its value."),
    Verb("serve", USE, "serve:serve", "Serve one client over stdio, or any number over HTTP."),
    Verb("daemon", USE, "daemon:app", "Show or stop the daemon that clients share, or read its log."),
    Verb("service", USE, "service:app", "Let systemd or launchd run wicket serve --http."),
    Verb("dashboard", USE, "dashboard:dashboard", "Open the dashboard of the running gateway, or of the daemon."),
    Verb("status", KEEP, "status:status", "Show what is configured and known, without starting anything."),
    Verb("top", KEEP, "top:top", "Show what servers are doing: calls of the last minute, until Ctrl-C."),
    Verb("logs", KEEP, "logs:logs", "Show who called what, with what outcome."),
    Verb("doctor", KEEP, "doctor:doctor", "Check configuration, servers and machine, with fixes."),
    Verb("lint", KEEP, "lint:lint", "Look for hidden text and orders to the model in texts of servers."),
    Verb("pins", KEEP, "pins:pins", "List the accepted definitions of servers, and who approved them."),
    Verb("approve", KEEP, "approve:approve", "Approve a changed tool, or a call that waits for approval."),
    Verb("pin", KEEP, "pins:pin", "Pin the packages of servers to their versions."),
    Verb("policy", KEEP, "policy:app", "Explain the rules about calls."),
    Verb("keys", KEEP, "keys:app", "Create, list and revoke API keys."),
    Verb("grants", KEEP, "grants:app", "List and revoke the grants of OAuth clients."),
    Verb("whoami", KEEP, "whoami:whoami", "Show who this command line acts for, and with which scopes."),
    Verb("migrate", KEEP, "migrate:app", "Copy the state to another store."),
    Verb("secret", KEEP, "secret:app", "Keep secrets of servers in the system's keyring."),
    Verb("vault", KEEP, "vault:app", "Manage the credentials that Wicket stores."),
)


class Commands(Mapping[str, Any]):
    """The verbs as Typer's commands, each made when it is asked for."""

    def __init__(self, verbs: tuple[Verb, ...]) -> None:
        self._verbs = {verb.name: verb for verb in verbs}
        self._loaded: dict[str, Any] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._verbs)

    def __len__(self) -> int:
        return len(self._verbs)

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = _load_command(self._verbs[name])
        return self._loaded[name]


def _load_command(verb: Verb) -> Any:
    module, _, attribute = verb.home.partition(":")
    home = import_module(f"wicket_mcp.cli.{module}")
    command = getattr(home, attribute)
    holder = typer.Typer(rich_markup_mode=None)
    if isinstance(command, typer.Typer):
        holder.add_typer(command, name=verb.name, rich_help_panel=verb.panel)
    else:
        parsing = getattr(home, "COMMAND", None)  # a module's own way to read its arguments
        holder.command(verb.name, cls=parsing, rich_help_panel=verb.panel)(command)
    return get_group(holder).commands[verb.name]
