"""Printing: tables in Markdown, verdicts on targets, and a JSON file."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from wicket_mcp.codec import pretty
from wicket_mcp.model import JsonObject

OUT = Path(__file__).parent / "out"


@dataclass(frozen=True)
class Verdict:
    """Whether a target was met: what was measured, and what was wanted."""

    target: str
    measured: str
    met: bool

    def __str__(self) -> str:
        return f"{'PASS' if self.met else 'FAIL'}  {self.target}: {self.measured}"


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns also line up on a terminal; all but the first are numbers."""
    widths = [max(len(row[column]) for row in (headings, *rows)) for column in range(len(headings))]

    def line(cells: Sequence[str]) -> str:
        first, *rest = cells
        padded = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))]
        return f"| {' | '.join(padded)} |"

    rule = [f":{'-' * (widths[0] - 1)}", *(f"{'-' * (width - 1)}:" for width in widths[1:])]
    return "\n".join((line(headings), line(rule), *(line(row) for row in rows)))


def save(name: str, facts: JsonObject, verdicts: Sequence[Verdict]) -> Path:
    OUT.mkdir(exist_ok=True)
    path = OUT / f"{name}.json"
    path.write_text(pretty(facts | {"verdicts": [asdict(verdict) for verdict in verdicts]}), "utf-8")
    return path


def number(value: float, digits: int = 2) -> str:
    return "-" if value != value else f"{value:,.{digits}f}"
