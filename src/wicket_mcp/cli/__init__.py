"""The command line: parsing and printing only; every verb calls the library.

Owns arguments, output and exit codes. Must not decide anything that a program using the library would decide
differently. Start reading at `verbs.py`, the list of verbs, then `common.py`. A verb's module is imported when the verb
is used, and imports what it needs when it runs, so that `wicket --help` and `wicket serve` start at once.
"""

import sys
from typing import Annotated

import typer

from wicket_mcp import __version__
from wicket_mcp.cli.root import Root, flush_output

app = typer.Typer(
    name="wicket",
    cls=Root,
    help="A gateway that shows an agent a handful of tools in front of any number of MCP servers.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # loading Rich takes longer than all the rest of --help
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(show: bool) -> None:
    if show:
        sys.stdout.write(f"wicket {__version__}\n")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options of the whole program."""


def main() -> None:
    """The entry point: 0 done, 1 failed, 2 wrong usage.

    Every line leaves at once, also into a pipe: some verbs go on for days.
    """
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            # half a surrogate pair of an upstream must not end a command
            reconfigure(errors="replace", line_buffering=True)
    try:
        app(prog_name="wicket")
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        flush_output()
