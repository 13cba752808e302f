"""Printing: tables for people, JSON for programs, one line for an error. All text is made safe for a terminal.

The answer goes to stdout, everything beside it to stderr. Colour and cutting at the edge happen on a terminal only;
elsewhere a table is plain text, every row on one line and whole.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn, TextIO

from wicket_mcp.errors import WicketError
from wicket_mcp.telemetry.log import clean, escape

USAGE = ("config", "bad_arguments", "unknown_name", "ambiguous_name")
"""Codes of errors that the one who typed the command can mend: exit code 2."""

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def say(text: str = "") -> None:
    sys.stdout.write(f"{clean(text)}\n")


def say_json(value: Any) -> None:
    """JSON in which everything that a terminal could obey is escaped: the same value, and harmless."""
    from wicket_mcp.codec import pretty

    sys.stdout.write(f"{escape(pretty(value))}\n")


def note(text: str) -> None:
    """Something beside the answer: to stderr, so that pipes stay clean."""
    sys.stderr.write(f"{clean(text)}\n")


def fail(problem: WicketError, *, verbose: bool = False) -> NoReturn:
    """One line, or with `--verbose` everything there is; then the end."""
    whole = str(problem)
    shown = whole if verbose else whole.partition("\n")[0]
    note(f"{styled('wicket:', 'red', sys.stderr)} {clean(shown)}" if _colours(sys.stderr) else f"wicket: {shown}")
    if shown != whole:
        note("(--verbose shows what it said)")
    sys.exit(2 if problem.code in USAGE else 1)


def styled(text: str, style: str, stream: TextIO | None = None) -> str:
    """`text`, cleaned, in a colour or weight where the stream is a terminal that wants it."""
    safe = clean(text)
    return f"\x1b[{_STYLES[style]}m{safe}\x1b[0m" if _colours(stream or sys.stdout) else safe


def write(*pieces: str) -> None:
    """One line of pieces that were made safe by `styled` or `clean`."""
    sys.stdout.write(f"{''.join(pieces)}\n")


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Aligned columns; on a terminal the last one is wrapped at its edge."""
    cells = [[_one_line(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        _pretty_table(headings, cells)
        return
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    for row in (headings, *cells):
        padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        sys.stdout.write(f"{'  '.join(padded).rstrip()}\n")


def _pretty_table(headings: Sequence[str], rows: list[list[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(*headings, box=None, pad_edge=False, header_style="bold")
    for column in grid.columns[:-1]:
        column.no_wrap = True
    for row in rows:
        grid.add_row(*(Text(cell) for cell in row))
    Console(highlight=False).print(grid)


def _one_line(cell: str) -> str:
    return " ".join(clean(cell).split())


def _colours(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
