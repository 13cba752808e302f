"""Edits of a TOML text that leave every other character unchanged: add a table, remove one, set a key.

A table with its own header is edited by lines, because a comment right above a header belongs to that table and must be
added and removed with it; tomlkit assigns such a comment to the previous table. All other forms (dotted keys, inline
tables) and all values are edited by tomlkit. Each result is parsed before it is returned: a text that an edit would
damage raises Uneditable. Knows nothing about servers; called by the other modules of this package.
"""

import re
import tomllib
from collections.abc import Mapping
from typing import Any, cast

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Item

from wicket_mcp.config.model.validation import render_path
from wicket_mcp.config.read.positions import toml_lines

Path = tuple[str, ...]

_LONGEST_INLINE = 100


class Uneditable(Exception):
    """The text is written in a way that these edits do not support. `line` is where."""

    def __init__(self, path: Path, line: int | None) -> None:
        super().__init__(render_path(path))
        self.path, self.line = path, line


def add_table(text: str, path: Path, values: Mapping[str, Any]) -> str:
    """`text` with a new table: at its end, or inside the inline table of its siblings."""
    expected = _with_value(tomllib.loads(text), path, values)
    before = text if not text or text.endswith("\n") else f"{text}\n"
    gap = "\n" if before.strip() and not before.endswith("\n\n") else ""
    appended = f"{before}{gap}{render_table(path, values)}"
    return appended if _says(appended, expected, path) else _edit_item(text, path, values, expected)


def remove_table(text: str, path: Path) -> str:
    """`text` without the table and its subtables. A comment right above its header is removed too."""
    expected = _with_value(tomllib.loads(text), path, None)
    lines = _split_lines(text)
    for start, end in reversed(_extents(text, lines, path)):
        del lines[start:end]
    shorter = "".join(lines)
    return shorter if _says(shorter, expected, path) else _edit_item(shorter, path, None, expected)


def set_key(text: str, path: Path, key: str, value: Any) -> str:
    """`text` with `key` of the table set: an existing value is replaced, a new key is put first."""
    tree = tomllib.loads(text)
    expected = _with_value(tree, (*path, key), value)
    lines = _split_lines(text)
    header = next((at for at, name in _headers(text, lines) if name == path), None)
    if header is not None and (*path, key) not in toml_lines(text):
        if not lines[header].endswith("\n"):
            lines[header] += "\n"
        lines.insert(header + 1, f"{_render_key(key)} = {_render_value(value)}\n")
        longer = "".join(lines)
        if _says(longer, expected, path):
            return longer
    return _edit_item(text, (*path, key), value, expected)


def extract_table(text: str, path: Path) -> str:
    """The lines of the table and its subtables under their own headers."""
    lines = _split_lines(text)
    return "".join("".join(lines[start:end]) for start, end in _extents(text, lines, path))


def render_table(path: Path, values: Mapping[str, Any]) -> str:
    """A table as text; a short nested table is written inline, a longer one below it."""
    head = f"[{'.'.join(map(_render_key, path))}]\n"
    below: list[str] = []
    for key, value in values.items():
        rendered = _render_value(value)
        if isinstance(value, Mapping) and len(rendered) > _LONGEST_INLINE:
            below.append("\n" + render_table((*path, key), cast("Mapping[str, Any]", value)))
        else:
            head += f"{_render_key(key)} = {rendered}\n"
    return head + "".join(below)


def _render_key(key: str) -> str:
    return tomlkit.key(key).as_string()


def _render_value(value: Any) -> str:
    if isinstance(value, Mapping):
        pairs = [
            f"{_render_key(key)} = {_render_value(item)}" for key, item in cast("Mapping[str, Any]", value).items()
        ]
        return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_render_value, cast('list[Any]', value)))}]"
    item = cast("Item", tomlkit.item(value))
    return item.as_string()


def _edit_item(text: str, path: Path, value: Any, expected: dict[str, Any]) -> str:
    """The edit by tomlkit; None removes. Raises Uneditable if the result has other content."""
    try:
        document: Any = tomlkit.parse(text)
        parent = document
        for key in path[:-1]:
            parent = parent[key]
        if value is None:
            del parent[path[-1]]
        elif isinstance(value, Mapping):
            parent[path[-1]] = tomlkit.parse(f"value = {_render_value(value)}")["value"]
        else:
            parent[path[-1]] = value
        edited = tomlkit.dumps(document)
    except (TOMLKitError, KeyError, TypeError, ValueError):
        edited = ""
    if not _says(edited, expected, path):
        raise Uneditable(path, _nearest_line(text, path))
    return edited


def _nearest_line(text: str, path: Path) -> int | None:
    """The line of the value, or of what contains it."""
    lines = toml_lines(text)
    above = (path[:size] for size in range(len(path), 0, -1))
    return next((lines[part] for part in above if part in lines), None)


def _split_lines(text: str) -> list[str]:
    """The lines with their ends, as TOML defines them: other separators are part of strings."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _headers(text: str, lines: list[str]) -> list[tuple[int, Path]]:
    """The index and path of every table header, in order."""
    headers: list[tuple[int, Path]] = []
    for path, line in toml_lines(text).items():
        names = tuple(part for part in path if isinstance(part, str))
        if len(names) == len(path) and lines[line - 1].lstrip().startswith("["):
            headers.append((line - 1, names))
    return sorted(headers)


def _extents(text: str, lines: list[str], path: Path) -> list[tuple[int, int]]:
    """The ranges of the table and its subtables: from the comment right above each to that of the next one."""
    headers = _headers(text, lines)
    starts = [_comment_start(lines, at) for at, _ in headers] + [len(lines)]
    inside = [name[: len(path)] == path for _, name in headers]
    return [(starts[at], starts[at + 1]) for at, selected in enumerate(inside) if selected]


def _comment_start(lines: list[str], at: int) -> int:
    """Where the comment right above the line `at` begins. One at the top of the file is about the file."""
    start = at
    while start > 0 and lines[start - 1].lstrip().startswith("#"):
        start -= 1
    return start or at


def _with_value(tree: dict[str, Any], path: Path, value: Any) -> dict[str, Any]:
    """A copy of `tree` with `value` at `path`; None removes it."""
    copy = dict(tree)
    head, tail = path[0], path[1:]
    if tail:
        below = copy.get(head, {})
        copy[head] = _with_value(cast("dict[str, Any]", below) if isinstance(below, dict) else {}, tail, value)
    elif value is None:
        copy.pop(head, None)
    else:
        copy[head] = value
    return copy


def _says(text: str, expected: dict[str, Any], path: Path) -> bool:
    try:
        return _comparable(tomllib.loads(text), path) == _comparable(expected, path)
    except tomllib.TOMLDecodeError:
        return False


def _comparable(tree: dict[str, Any], path: Path) -> Any:
    """Plain data without empty tables above `path`: a text may omit those."""
    if len(path) > 1 and isinstance(below := tree.get(path[0]), dict):
        inner = _comparable(cast("dict[str, Any]", below), path[1:])
        others = {key: value for key, value in tree.items() if key != path[0]}
        tree = {**others, path[0]: inner} if inner else others
    return _plain(tree)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in cast("Mapping[str, Any]", value).items()}
    return [_plain(item) for item in cast("list[Any]", value)] if isinstance(value, list | tuple) else value
