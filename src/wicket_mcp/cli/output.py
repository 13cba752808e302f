"""Printing: tables for people, JSON for programs, one line for an error. All text is made safe for a terminal.

The answer goes to stdout, everything beside it to stderr. Colour and fitting to the width happen on a terminal only;
elsewhere a table is plain text, every row on one line. Nothing is ever cut: what does not fit goes to the next line.
"""

import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn, TextIO

from wicket_mcp.errors import WicketError
from wicket_mcp.telemetry.log import clean, escape

USAGE = ("config", "bad_arguments", "unknown_name", "ambiguous_name")
"""Codes of errors that the one who typed the command can fix: exit code 2."""

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def say(text: str = "") -> None:
    sys.stdout.write(f"{clean(text)}\n")


def explain(text: str, indent: str = "") -> None:
    """A sentence of the answer, broken between words on a terminal."""
    sys.stdout.write(f"{wrap(text, indent)}\n")


def say_json(value: Any) -> None:
    """JSON in which everything that a terminal could obey is escaped: the same value, and harmless."""
    from wicket_mcp.codec import pretty

    sys.stdout.write(f"{escape(pretty(value))}\n")


def note(text: str) -> None:
    """Something beside the answer: to stderr, so that pipes stay clean."""
    sys.stderr.write(f"{wrap(text) if sys.stderr.isatty() else clean(text)}\n")


def fail(problem: WicketError, *, verbose: bool = False) -> NoReturn:
    """One line, or with `--verbose` everything there is; then the end."""
    whole = str(problem)
    line = whole if verbose else whole.partition("\n")[0]
    note(f"{apply_style('wicket:', 'red', sys.stderr)} {clean(line)}" if _colours(sys.stderr) else f"wicket: {line}")
    if line != whole:
        note("(--verbose shows what it said)")
    sys.exit(2 if problem.code in USAGE else 1)


def apply_style(text: str, style: str, stream: TextIO | None = None) -> str:
    """`text`, cleaned, in a colour or weight where the stream is a terminal that wants it."""
    safe = clean(text)
    return f"\x1b[{_STYLES[style]}m{safe}\x1b[0m" if _colours(stream or sys.stdout) else safe


def write(*pieces: str) -> None:
    """One line of pieces that were made safe by `apply_style` or `clean`."""
    sys.stdout.write(f"{''.join(pieces)}\n")


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, spare: Sequence[str] = ()) -> None:
    """Aligned columns, every cell whole. Where a terminal is too narrow, the columns named in `spare` are left out
    first, then the last cell of each row goes on lines of its own, and then every cell does."""
    cells = [[_one_line(cell) for cell in row] for row in rows]
    width = _columns()
    if width and spare and _table_width(headings, cells) > width:
        places = [place for place, heading in enumerate(headings) if heading not in spare]
        headings = [headings[place] for place in places]
        cells = [[row[place] for place in places] for row in cells]
    if not width or _table_width(headings, cells) <= width:
        _write_rows(headings, cells)
    elif len(headings) > 1 and _table_width(headings[:-1], [row[:-1] for row in cells]) <= width:
        _write_rows(headings[:-1], [row[:-1] for row in cells], [wrap(row[-1], "  ") for row in cells])
    else:
        for row in cells:
            write(apply_style(row[0], "bold"))
            for heading, cell in zip(headings[1:], row[1:], strict=True):
                if cell:
                    write(wrap(f"{heading.lower()}: {cell}", "  "))


def wrap(text: str, indent: str = "") -> str:
    """Safe text, on a terminal broken between words at its edge, every line after `indent`.

    What is to be typed (`wicket VERB …` to the end of the text) stays on one line, and so does a long word such as a
    path: it can be copied whole.
    """
    return "\n".join(_wrap_line(line, indent) for line in clean(text).split("\n"))


def _wrap_line(line: str, indent: str) -> str:
    width = _columns()
    if not width or len(indent) + len(line) <= width:
        return f"{indent}{line}"
    import textwrap  # brings the regular expressions of a module that a pipe never needs

    prose, colon, command = line.partition(": wicket ")
    lines = textwrap.wrap(
        f"{prose}:" if colon else prose,
        width,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join([*lines, f"{indent}    wicket {command}"] if colon else lines)


def bar_width(used: int, most: int) -> int:
    """How long a bar may be beside `used` columns of text: `most`, or what a terminal has left."""
    width = _columns()
    return min(most, max(width - used, 4)) if width else most


def _columns() -> int:
    """How wide the terminal is; 0 where nothing needs to fit: in a pipe or a file."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0


def _table_width(headings: Sequence[str], rows: list[list[str]]) -> int:
    return sum(_widths(headings, rows)) + 2 * (len(headings) - 1)


def _widths(headings: Sequence[str], rows: list[list[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(headings, *rows, strict=True)]


def _write_rows(headings: Sequence[str], rows: list[list[str]], below: Sequence[str] = ()) -> None:
    """Aligned rows, each with what stands `below` it."""
    widths = _widths(headings, rows)

    def align(row: Sequence[str]) -> str:
        return "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()

    write(apply_style(align(headings), "bold"))
    for place, row in enumerate(rows):
        write(align(row))
        if below and below[place].strip():
            write(below[place])


def _one_line(cell: str) -> str:
    return " ".join(clean(cell).split())


def _colours(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
