"""Where each configuration value comes from: the line of the file that sets it, or the default.

Reads the file again, only for the Settings page. Finds lines in TOML only; for other layouts it only knows which values
differ from the default.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from wicket_mcp.config.model.options import options_of

_TABLE = re.compile(r"\s*\[([^\[\]]+)\]")
_KEY = re.compile(r"\s*([A-Za-z0-9_.-]+)\s*=")


def lines_of(path: Path | None) -> Mapping[str, int]:
    """The line number that sets each option, by its name with its section (`http.port`)."""
    if path is None or path.suffix != ".toml":
        return {}
    try:
        text = path.read_text("utf-8")
    except (OSError, ValueError):
        return {}
    numbers: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("[["):
            name = line.strip(" \t[]")
            index = sum(known.startswith(f"{name}.") and known[len(name) + 1 :].isdecimal() for known in numbers)
            table = f"{name}.{index}."
            numbers.setdefault(name, number)
            numbers[f"{name}.{index}"] = number
        elif match := _TABLE.match(line):
            table = f"{match[1].strip()}."
            numbers.setdefault(match[1].strip(), number)
            numbers.setdefault(match[1].partition(".")[0].strip(), number)
        elif match := _KEY.match(line):
            numbers.setdefault(f"{table}{match[1]}", number)
    return numbers


def source_of(struct: Struct, name: str, section: str, path: Path | None, lines: Mapping[str, int]) -> str:
    """Where the value of an option comes from, as text for the page."""
    number = lines.get(f"{section}.{name}" if section else name)
    if path is not None and number is not None:
        return f"{path.name}, line {number}"
    if options_of(type(struct))[name].default == getattr(struct, name):
        return "default"
    return "command line or environment" if lines else "configured"
