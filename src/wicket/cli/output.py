"""Printing: tables for people, JSON for programs, one line for an error. All text is made safe for a terminal."""

import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from wicket.codec import pretty
from wicket.errors import WicketError
from wicket.telemetry import clean


def say(text: str = "") -> None:
    sys.stdout.write(f"{clean(text)}\n")


def say_json(value: Any) -> None:
    sys.stdout.write(f"{pretty(value)}\n")


def note(text: str) -> None:
    """Something beside the answer: to stderr, so that pipes stay clean."""
    sys.stderr.write(f"{clean(text)}\n")


def fail(problem: WicketError) -> NoReturn:
    note(f"wicket: {problem}")
    sys.exit(2 if problem.code in ("config", "bad_arguments", "unknown_name", "ambiguous_name") else 1)


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Aligned columns, the last one cut at the terminal's edge; plain text where nobody looks."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
    grid = Table(*headings, box=None, pad_edge=False, header_style="bold")
    for column in grid.columns[:-1]:
        column.no_wrap = True
    for row in rows:
        grid.add_row(*(_literal(cell) for cell in row))
    if sys.stdout.isatty():
        console.print(grid)
    else:
        console.print(grid, width=10_000, crop=False)


def _literal(cell: str) -> Any:
    from rich.text import Text

    return Text(clean(cell))
