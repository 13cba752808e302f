"""The top of the command tree: groups the verbs in `--help`, and is the one place where an error is printed."""

import os
import select
import sys
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from wicket_mcp.cli.verbs import VERBS, Commands
from wicket_mcp.errors import Internal, WicketError

VERBOSE = "wicket.verbose"


class Root(TyperGroup):
    """`wicket` itself."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands: Any = Commands(VERBS)

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except WicketError as problem:
            _fail(problem, verbose=bool(ctx.meta.get(VERBOSE)))
        except (typer.Exit, typer.Abort):
            raise
        except BrokenPipeError:
            if flush_output() and _is_read():
                raise  # it was another pipe
            sys.exit(0)  # the reader has seen enough, as `head` does
        except Exception as bug:  # the boundary to a person: even a defect is told in one line
            if ctx.meta.get(VERBOSE) or hasattr(bug, "exit_code"):  # the latter is Typer's own wrong usage
                raise
            words = f"Wicket itself failed: {type(bug).__name__}: {bug}."
            _fail(Internal(words, hint="--verbose shows where; please report it."))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The verbs by what one wants to do, in the order in which they are declared."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for verb in VERBS:
            panels.setdefault(verb.panel, []).append((verb.name, verb.summary))
        for panel, rows in panels.items():
            with formatter.section(panel):
                formatter.write_dl(rows)


def flush_output() -> bool:
    """Write what is left to say; False if nobody reads it any more, and then nothing more is written."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True


def _is_read() -> bool:
    """Whether our output still has a reader. With PYTHONUNBUFFERED, nothing is left to flush that would tell."""
    watch = select.poll()
    watch.register(sys.stdout.fileno(), 0)
    return not any(events & select.POLLERR for _, events in watch.poll(0))


def _fail(problem: WicketError, *, verbose: bool = False) -> NoReturn:
    from wicket_mcp.cli.output import fail

    fail(problem, verbose=verbose)
