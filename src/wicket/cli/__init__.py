"""The command line: parsing and printing only; every verb calls the library.

The modules of this package import nothing heavy when they are loaded: a verb imports what it needs when it runs, so
that `wicket --help` and `wicket serve` start at once.
"""

import sys
from typing import Annotated

import typer

from wicket import __version__
from wicket.cli import catalog, doctor, importing, invoke, keys, manage, registry, run, serve, status, tokens
from wicket.cli.root import Root

app = typer.Typer(
    name="wicket",
    cls=Root,
    help="A gateway that shows an agent a handful of tools in front of any number of MCP servers.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # loading Rich takes longer than all the rest of --help
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"wicket {__version__}\n")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options of the whole program."""


SET_UP, LOOK, USE, KEEP = "Set up", "Look", "Use", "Keep healthy"

app.command("init", rich_help_panel=SET_UP)(manage.init)
app.command("import", rich_help_panel=SET_UP)(importing.import_servers)
app.command("add", rich_help_panel=SET_UP)(manage.add)
app.command("remove", rich_help_panel=SET_UP)(manage.remove)
app.command("enable", rich_help_panel=SET_UP)(manage.enable)
app.command("disable", rich_help_panel=SET_UP)(manage.disable)
app.command("servers", rich_help_panel=LOOK)(catalog.servers)
app.command("tools", rich_help_panel=LOOK)(catalog.tools)
app.command("search", rich_help_panel=LOOK)(catalog.search)
app.command("describe", rich_help_panel=LOOK)(catalog.describe)
app.command("tokens", rich_help_panel=LOOK)(tokens.tokens)
app.command("call", rich_help_panel=USE)(invoke.call)
app.command("run", rich_help_panel=USE)(run.run)
app.command("serve", rich_help_panel=USE)(serve.serve)
app.add_typer(registry.app, name="registry", rich_help_panel=LOOK)
app.command("status", rich_help_panel=KEEP)(status.status)
app.command("doctor", rich_help_panel=KEEP)(doctor.doctor)
app.add_typer(keys.app, name="keys", rich_help_panel=KEEP)


def main() -> None:
    """The entry point: 0 done, 1 failed, 2 wrong usage."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")  # half a surrogate pair of an upstream must not end a command
    try:
        app(prog_name="wicket")
    except KeyboardInterrupt:
        sys.exit(130)
