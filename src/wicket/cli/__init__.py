"""The command line: parsing and printing only; every verb calls the library.

Each verb imports what it needs when it runs, so that `wicket --help` and `wicket serve` start at once.
"""

import sys
from typing import Annotated

import typer

from wicket import __version__
from wicket.cli import catalog, invoke, serve
from wicket.cli.output import fail
from wicket.errors import WicketError

app = typer.Typer(
    name="wicket",
    help="A gateway that shows an agent a handful of tools in front of any number of MCP servers.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
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


app.command("serve")(serve.serve)
app.command("servers")(catalog.servers)
app.command("tools")(catalog.tools)
app.command("search")(catalog.search)
app.command("describe")(catalog.describe)
app.command("call")(invoke.call)
app.command("status")(serve.status)


def main() -> None:
    """The entry point: 0 done, 1 failed, 2 wrong usage."""
    try:
        app()
    except WicketError as problem:
        fail(problem)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(0)
