"""Edits of a JSON text, with or without comments, that leave every other character unchanged.

For files that belong to other programs: their comments, order, indentation and unknown keys must stay. The text has
been parsed before (`syntax`), so it is well-formed. Knows nothing about servers.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import msgspec

from wicket_mcp import codec

_TOKEN = re.compile(
    r'"(?:[^"\\]|\\.)*+"?|//[^\n]*|/\*(?:[^*]|\*(?!/))*+(?:\*/)?|[{}\[\],:]|[^\s{}\[\],:"/]+', re.DOTALL
)
_INDENT = re.compile(r"^([ \t]+)\S", re.MULTILINE)


@dataclass(slots=True)
class Value:
    """The position of a value in the text, and its members if it is an object."""

    start: int
    end: int = 0
    members: "list[Member]" = field(default_factory=list["Member"])


@dataclass(slots=True)
class Member:
    """One `"key": value` of an object. `comma` is the position of the comma after it, if there is one."""

    key: str
    start: int
    value: Value
    comma: int | None = None


def locate(text: str, path: tuple[str, ...]) -> Value | None:
    """The position of the value at `path`; None if there is none. For repeated keys, the last counts."""
    value = _Reader(text).read()
    for key in path:
        matching = [member.value for member in value.members if member.key == key]
        if not matching:
            return None
        value = matching[-1]
    return value


def replace_value(text: str, value: Value, new: str) -> str:
    """`text` with `new` in place of `value`."""
    return text[: value.start] + new + text[value.end :]


def set_member(text: str, section: tuple[str, ...], key: str, value: Any, remove: Collection[str] = ()) -> str:
    """`text` with the member `key` first in the object at `section`, and without the members `remove`.

    Comments between members stay; those inside a member are removed with it. Raises KeyError if there is no such
    object.
    """
    container = locate(text, section)
    if container is None:
        raise KeyError(section)
    shorter = remove_members(text, section, {*remove, key})
    followed = any(member.key not in {*remove, key} for member in container.members)
    at = container.start + 1
    return shorter[:at] + _render_member(text, container, key, value, followed=followed) + shorter[at:]


def remove_members(text: str, section: tuple[str, ...], keys: Collection[str]) -> str:
    """`text` without these members of the object at `section`. Raises KeyError if there is no such object."""
    container = locate(text, section)
    if container is None:
        raise KeyError(section)
    staying = [member for member in container.members if member.key not in keys]
    cuts = [_extent(text, member) for member in container.members if member.key in keys]
    if staying and staying[-1] is not container.members[-1] and container.members[-1].comma is None:
        comma = staying[-1].comma
        cuts += [] if comma is None else [(comma, comma + 1)]
    body = text[: container.end]
    for start, end in sorted(cuts, reverse=True):
        body = body[:start] + body[end:]
    return body + text[container.end :]


def _render_member(text: str, container: Value, key: str, value: Any, *, followed: bool) -> str:
    """The new first member, to be inserted after the opening brace, in the style of the file."""
    comma = "," if followed else ""
    inside = text[container.start : container.end]
    if "\n" not in inside and container.members:
        return f"{codec.encode(key).decode()}: {codec.encode(value).decode()}{comma}"
    sample = _INDENT.search(text)
    unit = sample[1] if sample else "  "
    line_start = text.rfind("\n", 0, container.start) + 1
    outer = text[line_start : container.start]
    outer = outer[: len(outer) - len(outer.lstrip())]
    spaces = "\t" if unit.startswith("\t") else " " * len(unit)
    indented = msgspec.json.format(codec.encode(value), indent=2).decode().replace("  ", spaces)
    indented = indented.replace("\n", f"\n{outer}{unit}")
    closing = "" if "\n" in inside else f"\n{outer}"
    return f"\n{outer}{unit}{codec.encode(key).decode()}: {indented}{comma}{closing}"


def _extent(text: str, member: Member) -> tuple[int, int]:
    """The member with its comma; with its whole lines if nothing else is on them."""
    start = member.start
    end = member.value.end if member.comma is None else member.comma + 1
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", end)
    if not text[line_start:start].strip() and line_end >= 0 and not text[end:line_end].strip():
        return line_start - 1, line_end
    return start, end


class _Reader:
    """One pass over the tokens, comments left out."""

    def __init__(self, text: str) -> None:
        matches = _TOKEN.finditer(text)
        self._tokens = [(token[0], token.start(), token.end()) for token in matches if token[0][:2] not in ("//", "/*")]

    def read(self) -> Value:
        """The document. Iterative: a nested file must not exhaust the stack."""
        top = Value(0)
        open_values: list[Value] = []
        key: tuple[str, int] | None = None
        for number, (piece, start, end) in enumerate(self._tokens):
            if piece in ("}", "]"):
                value = open_values.pop()
                value.end = end
            elif piece == ",":
                if open_values and open_values[-1].members:
                    open_values[-1].members[-1].comma = start
            elif piece != ":":
                if self._is_key(number):
                    key = (codec.decode(piece), start)
                    continue
                value = Value(start, end)
                if not open_values:
                    top = value
                elif key is not None:
                    open_values[-1].members.append(Member(*key, value))
                key = None
                if piece in ("{", "["):
                    open_values.append(value)
        return top

    def _is_key(self, number: int) -> bool:
        return number + 1 < len(self._tokens) and self._tokens[number + 1][0] == ":"
