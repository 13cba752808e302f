"""Durations and sizes as people write them: `90`, `"90s"`, `"24h"`; `4096`, `"16MiB"`.

Parses them into seconds and bytes and prints the shortest exact form. `Seconds` and `Bytes` are the types for options
of such a unit. Invalid input raises a ValueError that says what was expected.
"""

import math
import re
from typing import Annotated, TypeAlias

from msgspec import Meta

DURATION = "a duration in seconds or such as '90s', '10m' or '24h'"
SIZE = "a size in bytes or such as '512KiB' or '16MiB'"
DURATION_PATTERN = r"^\s*[0-9]+(\.[0-9]+)?\s*(ms|s|m|h|d)?\s*$"
SIZE_PATTERN = r"^\s*[0-9]+(\.[0-9]+)?\s*([kKMG]i?)?[bB]?\s*$"

Seconds: TypeAlias = Annotated[float, Meta(extra={"unit": "duration"})]
Bytes: TypeAlias = Annotated[int, Meta(extra={"unit": "size"})]
Count: TypeAlias = Annotated[int, Meta(ge=1)]

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {"": 1, "k": 1000, "ki": 1024, "m": 1000**2, "mi": 1024**2, "g": 1000**3, "gi": 1024**3}
_AMOUNT = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([A-Za-z]*)\s*")


def seconds(value: object) -> float:
    """Read a duration. Raises ValueError."""
    amount, unit = _amount(value, DURATION)
    factor = _SECONDS.get(unit or "s")
    if factor is None:
        raise ValueError(DURATION)
    return round(amount * factor, 6)


def size(value: object) -> int:
    """Read a size. Raises ValueError."""
    amount, unit = _amount(value, SIZE)
    factor = _BYTES.get(unit.lower().removesuffix("b"))
    if factor is None:
        raise ValueError(SIZE)
    return int(amount * factor)


def _amount(value: object, expected: str) -> tuple[float, str]:
    if isinstance(value, str):
        match = _AMOUNT.fullmatch(value)
        if match is None:
            raise ValueError(expected)
        return float(match[1]), match[2]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(expected)
    if not 0 <= value < 1e15 or not math.isfinite(value):
        raise ValueError(expected)
    return value, ""


def spell_seconds(value: float) -> str:
    """The shortest form of a duration that `seconds` can parse: `10m` for 600."""
    for unit in ("h", "m", "s"):
        count = value / _SECONDS[unit]
        if count >= 1 and count == int(count):
            return f"{int(count)}{unit}"
    return f"{value:g}s"


def spell_size(value: int) -> str:
    """The shortest form of a size that `size` can parse: `4MiB` for 4194304."""
    for unit, factor in (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024)):
        if value and value % factor == 0:
            return f"{value // factor}{unit}"
    return str(value)
