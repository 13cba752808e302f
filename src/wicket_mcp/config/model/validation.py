"""Values by their path of keys, and the error for an invalid value.

`formats` turns such a path into a line of the file and raises the ConfigError that users see. InvalidOption never
leaves this package.
"""

import re
from collections.abc import Mapping
from typing import Any, TypeAlias, cast

KeyPath: TypeAlias = tuple[str | int, ...]

_BARE = re.compile(r"[A-Za-z0-9_-]+")


class InvalidOption(Exception):
    """The value at `path` cannot be used. `line` is set only if it is already known."""

    def __init__(self, path: KeyPath, message: str, hint: str = "", line: int | None = None) -> None:
        super().__init__(message)
        self.path, self.message, self.hint, self.line = path, message, hint, line


def value_at(tree: Any, path: KeyPath) -> Any:
    """The value at `path` in nested tables and lists; None if there is none."""
    for key in path:
        if isinstance(tree, list) and isinstance(key, int):
            tree = next(iter(cast("list[Any]", tree)[key : key + 1]), None)
        else:
            tree = cast("Mapping[Any, Any]", tree).get(key) if isinstance(tree, Mapping) else None
    return tree


def render_path(path: KeyPath) -> str:
    """A path as a person writes it: `servers.github.args[1]`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
            continue
        name = part if _BARE.fullmatch(part) else f'"{part}"'
        text += f".{name}" if text else name
    return text


def quote_names(names: tuple[str, ...] | list[str]) -> str:
    """`'a', 'b' or 'c'`."""
    quotes = [f"'{name}'" for name in names]
    return quotes[0] if len(quotes) == 1 else f"{', '.join(quotes[:-1])} or {quotes[-1]}"
