"""The top of the command tree: groups the verbs in `--help`, and is the one place where an error is printed."""

from typing import Any

import typer
from typer.core import TyperGroup

from wicket.cli.output import fail
from wicket.errors import Internal, WicketError

VERBOSE = "wicket.verbose"


class Root(TyperGroup):
    """`wicket` itself."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except WicketError as problem:
            fail(problem, verbose=bool(ctx.meta.get(VERBOSE)))
        except (typer.Exit, typer.Abort, BrokenPipeError):
            raise
        except Exception as bug:  # the boundary to a person: even a defect is told in one line
            if ctx.meta.get(VERBOSE) or hasattr(bug, "exit_code"):  # the latter is Typer's own wrong usage
                raise
            words = f"Wicket itself failed: {type(bug).__name__}: {bug}."
            fail(Internal(words, hint="--verbose shows where; please report it."))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The verbs by what one wants to do, in the order in which they were declared."""
        panels: dict[str, list[tuple[str, str]]] = {}
        every = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        shown = {name: command for name, command in every.items() if command is not None and not command.hidden}
        room = formatter.width - 6 - max(map(len, shown))
        for name, command in shown.items():
            panel = str(getattr(command, "rich_help_panel", None) or "More")
            panels.setdefault(panel, []).append((name, command.get_short_help_str(room)))
        for panel, rows in panels.items():
            with formatter.section(panel):
                formatter.write_dl(rows)
