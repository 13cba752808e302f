"""Edits of a TOML text, table by table, that leave every other character as it is.

Enough for lists of servers: add a table, take one out, set one of its keys. Each edit is checked by reading the
result back, so a text that is written in an unusual way (dotted keys, inline tables) is refused, never damaged.
Knows nothing of servers.
"""

import re
import tomllib
from collections.abc import Mapping
from typing import Any, cast

from wicket_mcp import codec
from wicket_mcp.config.model.validation import dotted
from wicket_mcp.config.read.positions import toml_lines

Table = tuple[str, ...]

_BARE = re.compile(r"[A-Za-z0-9_-]+")


class Uneditable(Exception):
    """The text says what it says in a way that these edits do not reach. `line` is where."""

    def __init__(self, table: Table, line: int | None) -> None:
        super().__init__(dotted(table))
        self.table, self.line = table, line


def with_table(text: str, table: Table, values: Mapping[str, Any]) -> str:
    """`text` with a new table at its end."""
    wanted = _put(tomllib.loads(text), table, values)
    before = text if not text or text.endswith("\n") else f"{text}\n"
    gap = "\n" if before.strip() and not before.endswith("\n\n") else ""
    return _checked(f"{before}{gap}{rendered(table, values)}", wanted, text, table)


def without_table(text: str, table: Table) -> str:
    """`text` without `table` and what is below it. A comment right above a table belongs to that table."""
    wanted = _put(tomllib.loads(text), table, None)
    lines = _lines(text)
    for start, end in reversed(_extents(text, lines, table)):
        del lines[start:end]
    return _checked("".join(lines), wanted, text, table)


def with_key(text: str, table: Table, key: str, value: Any) -> str:
    """`text` with `key` of `table` set; where it stands already, its value alone is changed."""
    tree = tomllib.loads(text)
    wanted = _put(tree, (*table, key), value)
    lines = _lines(text)
    places = toml_lines(text)
    if (line := places.get((*table, key))) is not None:
        new = re.sub(r"(=\s*)[^#\n]*?(\s*(?:#.*)?\n?)$", rf"\g<1>{spelled(value)}\g<2>", lines[line - 1], count=1)
        lines[line - 1] = new
    else:
        header = next((at for at, name in _headers(text, lines) if name == table), None)
        if header is None:
            raise Uneditable(table, places.get(table))
        if not lines[header].endswith("\n"):
            lines[header] += "\n"
        lines.insert(header + 1, f"{_key(key)} = {spelled(value)}\n")
    return _checked("".join(lines), wanted, text, table)


def table_text(text: str, table: Table) -> str:
    """The lines of `table` and what is below it, as they stand."""
    lines = _lines(text)
    return "".join("".join(lines[start:end]) for start, end in _extents(text, lines, table))


def rendered(table: Table, values: Mapping[str, Any]) -> str:
    """A table as text; a table inside it is written inline while it is short, else below it."""
    head = f"[{'.'.join(map(_key, table))}]\n"
    inner: list[str] = []
    for key, value in values.items():
        if isinstance(value, Mapping) and len(spelled(value)) > 100:
            inner.append("\n" + rendered((*table, key), cast("Mapping[str, Any]", value)))
        else:
            head += f"{_key(key)} = {spelled(value)}\n"
    return head + "".join(inner)


def spelled(value: Any) -> str:
    """A value as TOML."""
    if isinstance(value, Mapping):
        pairs = [f"{_key(key)} = {spelled(one)}" for key, one in cast("Mapping[str, Any]", value).items()]
        return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(spelled, cast('list[Any]', value)))}]"
    return codec.encode(value).decode().replace("\x7f", "\\u007f")


def _lines(text: str) -> list[str]:
    """The lines with their ends, as TOML counts them: other separators are characters of a string."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else spelled(key)


def _headers(text: str, lines: list[str]) -> list[tuple[int, Table]]:
    """The index of every line that opens a table, in order, and the table."""
    found: list[tuple[int, Table]] = []
    for path, line in toml_lines(text).items():
        names = tuple(part for part in path if isinstance(part, str))
        if len(names) == len(path) and lines[line - 1].lstrip().startswith("["):
            found.append((line - 1, names))
    return sorted(found)


def _extents(text: str, lines: list[str], table: Table) -> list[tuple[int, int]]:
    """Where `table` and those below it stand: from the comment right above each to that of the next one."""
    headers = _headers(text, lines)
    starts = [_with_comment(lines, at) for at, _ in headers] + [len(lines)]
    inside = [name[: len(table)] == table for _, name in headers]
    return [(starts[at], starts[at + 1]) for at, wanted in enumerate(inside) if wanted]


def _with_comment(lines: list[str], at: int) -> int:
    """Where the comment right above the line `at` begins. One at the top of the file speaks about the file."""
    start = at
    while start > 0 and lines[start - 1].lstrip().startswith("#"):
        start -= 1
    return start or at


def _put(tree: dict[str, Any], path: Table, value: Any) -> dict[str, Any]:
    """A copy of `tree` with `value` at `path`; None takes away what is there."""
    copy = dict(tree)
    head, rest = path[0], path[1:]
    if rest:
        below = copy.get(head, {})
        copy[head] = _put(cast("dict[str, Any]", below) if isinstance(below, dict) else {}, rest, value)
    elif value is None:
        copy.pop(head, None)
    else:
        copy[head] = value
    return copy


def _checked(new: str, wanted: dict[str, Any], text: str, table: Table) -> str:
    try:
        same = _comparable(tomllib.loads(new), table) == _comparable(wanted, table)
    except tomllib.TOMLDecodeError:
        same = False
    if not same:
        places = toml_lines(text)
        above = (table[:size] for size in range(len(table), 0, -1))
        raise Uneditable(table, next((places[one] for one in above if one in places), None))
    return new


def _comparable(tree: dict[str, Any], table: Table) -> Any:
    """Plain data, less the tables above `table` that hold nothing: a text may leave those unsaid."""
    if len(table) > 1 and isinstance(below := tree.get(table[0]), dict):
        inner = _comparable(cast("dict[str, Any]", below), table[1:])
        tree = {**tree, table[0]: inner} if inner else {key: one for key, one in tree.items() if key != table[0]}
    return _plain(tree)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in cast("Mapping[str, Any]", value).items()}
    return [_plain(one) for one in cast("list[Any]", value)] if isinstance(value, list | tuple) else value
