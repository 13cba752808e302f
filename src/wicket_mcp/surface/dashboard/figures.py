"""Numbers for people: charts as SVG without script or style, and short words for sizes and times. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 720, 140
_GAP = 0.25


@dataclass(frozen=True, slots=True)
class Bar:
    """One column of a chart: successful calls below, failed ones above."""

    x: float
    width: float
    ok_y: float
    ok_height: float
    failed_y: float
    failed_height: float
    hour: str
    calls: int
    failed: int

    @property
    def title(self) -> str:
        return f"{self.hour}: {self.calls} calls, {self.failed} failed"


def bars(columns: Sequence[tuple[str, int, int]]) -> list[Bar]:
    """Columns of (hour, all, failed) as rectangles in a field of WIDTH by HEIGHT."""
    highest = max((total for _, total, _ in columns), default=0) or 1
    step = WIDTH / max(1, len(columns))
    drawn: list[Bar] = []
    for index, (hour, total, failed) in enumerate(columns):
        ok_height = (total - failed) / highest * (HEIGHT - 4)
        failed_height = failed / highest * (HEIGHT - 4)
        ok_y = HEIGHT - ok_height
        drawn.append(
            Bar(
                round(index * step + step * _GAP / 2, 2),
                round(step * (1 - _GAP), 2),
                round(ok_y, 2),
                round(ok_height, 2),
                round(ok_y - failed_height, 2),
                round(failed_height, 2),
                hour,
                total,
                failed,
            )
        )
    return drawn


def short(number: float) -> str:
    """`812k` for 812,000: short enough for a card."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if abs(number) >= size * (1 if unit == "M" else 10):
            scaled = number / size
            return f"{scaled:.1f}{unit}" if scaled < 10 else f"{scaled:.0f}{unit}"
    return f"{number:,.0f}"


def milliseconds(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.1f} ms" if value < 100 else f"{value:.0f} ms" if value < 10_000 else f"{value / 1000:.1f} s"


def ago(at: float, now: float) -> str:
    seconds = max(0, int(now - at))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit} ago"
    return f"{seconds} s ago"
