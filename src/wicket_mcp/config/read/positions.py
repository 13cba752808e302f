"""Finds the line of a key in a TOML or JSON text.

Fast parsers keep no positions, so this reads the text a second time, only for the line of an error. The text has been
parsed before, so it is well-formed.
"""

import re
from bisect import bisect_right

from wicket_mcp import codec
from wicket_mcp.config.model.validation import KeyPath

_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"?|[{}\[\],:]|[^\s{}\[\],:"]+')
_TOML_BLANK = re.compile(r"(?:\s|#[^\n]*)*")
_TOML_KEY = re.compile(r"""\s*(?:([A-Za-z0-9_-]+)|"((?:[^"\\]|\\.)*)"|'([^']*)')\s*""")
_TOML_SCALAR = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}' + r"|'''.*?'{3,5}" + r'|"(?:[^"\\]|\\.)*"' + r"|'[^']*'" + r"|[^,\]}#\n]+",
    re.DOTALL,
)


class _Lines:
    """Lines by offset, and the lines of the keys seen so far."""

    def __init__(self, text: str) -> None:
        self._ends = [match.start() for match in re.finditer("\n", text)]
        self.keys: dict[KeyPath, int] = {}
        self.repeated: dict[KeyPath, int] = {}

    def mark(self, path: KeyPath, offset: int) -> None:
        line = bisect_right(self._ends, offset - 1) + 1
        if path in self.keys:
            self.repeated[path] = line
        self.keys[path] = line

    def mark_first(self, path: KeyPath, offset: int) -> None:
        """The line of a table that is mentioned only in the names of its subtables, such as `a` of `[a.b]`."""
        if path not in self.keys:
            self.mark(path, offset)


def json_lines(text: str) -> tuple[dict[KeyPath, int], dict[KeyPath, int]]:
    """The line of each key and list item, and of each key that repeats one of the same object."""
    lines = _Lines(text)
    path: list[str | int] = []
    wants_key: list[bool] = []
    for match in _JSON_TOKEN.finditer(text):
        piece = match[0]
        if piece in {"}", "]"}:
            path.pop()
            wants_key.pop()
        elif piece == ",":
            wants_key[-1] = isinstance(path[-1], str)
            path[-1] = path[-1] + 1 if isinstance(path[-1], int) else ""
        elif piece == ":":
            wants_key[-1] = False
        else:
            if wants_key and wants_key[-1]:
                path[-1] = codec.decode(piece)
                lines.mark(tuple(path), match.start())
            elif path and isinstance(path[-1], int):
                lines.mark(tuple(path), match.start())
            if piece in {"{", "["}:
                path.append("" if piece == "{" else 0)
                wants_key.append(piece == "{")
    return lines.keys, lines.repeated


def toml_lines(text: str) -> dict[KeyPath, int]:
    """The line of each table, key and list item. A list of tables (`[[policy]]`) has the line of the last."""
    return _Toml(text).read()


class _Toml:
    """Walks over a TOML text, records where keys start and skips their values."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._lines = _Lines(text)
        self._newest: dict[KeyPath, int] = {}
        """The number of the last table of each list of tables."""

    def read(self) -> dict[KeyPath, int]:
        table: KeyPath = ()
        while self._next():
            if self._next() == "[":
                table = self._table()
            else:
                self._pair(table)
        return self._lines.keys

    def _table(self) -> KeyPath:
        """The path of the table that begins here; in a list of tables it ends with a number."""
        start = self._at
        is_listed = self._text.startswith("[[", start)
        self._take("[")
        *above, name = self._key()
        self._take("]")
        table: KeyPath = ()
        for part in above:
            table = (*table, part)
            if table in self._newest:
                table = (*table, self._newest[table])
        table = (*table, name)
        self._lines.mark(table, start)
        for length in range(1, len(table)):
            self._lines.mark_first(table[:length], start)
        if is_listed:
            self._newest[table] = number = self._newest.get(table, -1) + 1
            table = (*table, number)
            self._lines.mark(table, start)
        return table

    def _next(self) -> str:
        """The next significant character, without consuming it; empty at the end."""
        match = _TOML_BLANK.match(self._text, self._at)
        self._at = match.end() if match else self._at
        return self._text[self._at : self._at + 1]

    def _take(self, character: str) -> None:
        while self._text.startswith(character, self._at):
            self._at += 1

    def _key(self) -> KeyPath:
        parts: list[str] = []
        while match := _TOML_KEY.match(self._text, self._at):
            self._at = match.end()
            escaped = match[2]
            parts.append(match[1] or match[3] or "" if escaped is None else _unescape(escaped))
            if not self._text.startswith(".", self._at):
                break
            self._at += 1
        return tuple(parts)

    def _pair(self, table: KeyPath) -> None:
        start = self._at
        key = self._key()
        for length in range(1, len(key) + 1):
            self._lines.mark((*table, *key[:length]), start)
        self._at += 1  # the equals sign
        self._value((*table, *key))

    def _value(self, path: KeyPath) -> None:
        opening = self._next()
        if opening not in {"{", "["}:
            match = _TOML_SCALAR.match(self._text, self._at)
            self._at = match.end() if match else self._at + 1
            return
        self._at += 1
        index = 0
        while (character := self._next()) not in {"", "}", "]"}:
            if character == ",":
                self._at += 1
                index += 1
            elif opening == "{":
                self._pair(path)
            else:
                self._lines.mark((*path, index), self._at)
                self._value((*path, index))
        self._at += 1


def _unescape(text: str) -> str:
    try:
        return str(codec.decode(f'"{text}"'))
    except ValueError:  # an escape that JSON does not have
        return text
