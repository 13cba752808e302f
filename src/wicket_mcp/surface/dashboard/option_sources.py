"""Where each configuration value comes from: the line of the file that sets it, or the default.

Reads the file again, only for the Settings page.
"""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from wicket_mcp.config.model.options import options_of
from wicket_mcp.config.model.validation import InvalidOption, KeyPath
from wicket_mcp.config.read import layouts, syntax


def lines_of(path: Path | None) -> Mapping[str, int]:
    """The line number that sets each option, by its name with its section (`http.port`); of the whole file by "".

    Nothing, if there is no file, or if it cannot be read any more.
    """
    if path is None:
        return {}
    try:
        document = syntax.read(path.read_text("utf-8-sig"))
        outline = layouts.translate(document.tree, document.syntax)
    except (OSError, ValueError, InvalidOption):
        return {}
    keys = _keys_of(outline) if outline.lenient else {key: key for key in document.all_lines()}
    lines = {".".join(map(str, option)): document.line(key) for option, key in keys.items()}
    return {"": 1, **{option: line for option, line in lines.items() if line is not None}}


def _keys_of(outline: layouts.Outline) -> dict[KeyPath, KeyPath]:
    """For each option that another program's file sets: its key in that file."""
    keys: dict[KeyPath, KeyPath] = {(name,): (name,) for name in outline.options} | outline.sources
    for draft in outline.servers:
        for option in draft.values:
            keys["servers", draft.name, option] = (*draft.at, *draft.sources.get(option, (option,)))
    return keys


def source_of(struct: Struct, name: str, section: str, path: Path | None, lines: Mapping[str, int]) -> str:
    """Where the value of an option comes from, as text for the page."""
    number = lines.get(f"{section}.{name}" if section else name)
    if path is not None and number is not None:
        return f"{path.name}, line {number}"
    if options_of(type(struct))[name].default == getattr(struct, name):
        return "default"
    if lines:
        return "command line or environment"
    return path.name if path is not None else "configured"
