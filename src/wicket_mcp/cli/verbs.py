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
    Verb("import", SET_UP, "importing:import_servers", "Import the servers that a client has."),
    Verb("add", SET_UP, "manage:add", "Add a server: a command, an address, or what a domain publishes."),
    Verb("remove", SET_UP, "manage:remove", "Remove a server from wicket.toml."),
    Verb("enable", SET_UP, "manage:enable", "Enable a server that was disabled."),
    Verb("disable", SET_UP, "manage:disable", "Keep a server's entry but stop using it."),
    Verb("trust", SET_UP, "trust:trust", "Trust the configuration of a folder."),
    Verb("login", SET_UP, "login:login", "Sign in to a server, or give it your keys."),
    Verb("logout", SET_UP, "login:logout", "Forget what you signed in to a server with."),
    Verb("servers", LOOK, "catalog:servers", "List the configured servers, asking those never seen."),
    Verb("tools", LOOK, "catalog:tools", "List tools with what they do."),
    Verb("search", LOOK, "catalog:search", "Find the tools that fit a task."),
    Verb("describe", LOOK, "catalog:describe", "Show what tools take and return."),
    Verb("tokens", LOOK, "tokens:tokens", "Count what your tools cost an agent in tokens."),
    Verb("registry", LOOK, "registry:app", "Search, publish and mirror MCP servers."),
    Verb("call", USE, "invoke:call", "Call a tool and print its answer."),
    Verb("run", USE, "run:run", "Run a script that calls tools, and print its value."),
    Verb("serve", USE, "serve:serve", "Serve one client over stdio, or any number over HTTP."),
    Verb("daemon", USE, "daemon:app", "Look at, stop and read the log of the daemon that clients share."),
    Verb("service", USE, "service:app", "Have systemd or launchd run wicket serve --http for you."),
    Verb("dashboard", USE, "dashboard:dashboard", "Open the dashboard of the gateway that runs (wicket serve --http)."),
    Verb("status", KEEP, "status:status", "Show what is configured and known; starts nothing."),
    Verb("top", KEEP, "top:top", "Show what servers do now: calls of the last minute, renewed until Ctrl-C."),
    Verb("logs", KEEP, "logs:logs", "Show who called what, with what outcome."),
    Verb("doctor", KEEP, "doctor:doctor", "Check configuration, servers and machine, with fixes."),
    Verb("lint", KEEP, "lint:lint", "Look for hidden text and orders in what servers say."),
    Verb("pins", KEEP, "pins:pins", "List what servers may say, and who approved it."),
    Verb("approve", KEEP, "approve:approve", "Approve a tool that changed, or a call that waits."),
    Verb("pin", KEEP, "pins:pin", "Pin the packages of servers to their versions."),
    Verb("policy", KEEP, "policy:app", "Explain the rules about calls."),
    Verb("keys", KEEP, "keys:app", "Create, list and revoke API keys."),
    Verb("grants", KEEP, "grants:app", "List and revoke what OAuth clients were allowed."),
    Verb("whoami", KEEP, "whoami:whoami", "Show who this gateway thinks you are."),
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
    command = getattr(import_module(f"wicket_mcp.cli.{module}"), attribute)
    holder = typer.Typer(rich_markup_mode=None)
    if isinstance(command, typer.Typer):
        holder.add_typer(command, name=verb.name, rich_help_panel=verb.panel)
    else:
        holder.command(verb.name, rich_help_panel=verb.panel)(command)
    return get_group(holder).commands[verb.name]
