"""JSON of several megabytes, processed in pieces so that the interpreter is never blocked for more than milliseconds.

The parser and the serialiser of `codec.py` are single C calls that hold the interpreter's lock, so in a thread they
would block the event loop all the same. Here large lists, objects and texts are split in Python, and only pieces of
limited size go to those calls. Meant to run in a thread for messages over `codec.LARGE`; the async functions do that.
The output equals that of `codec`. More than `MAX_VALUES` values are rejected, because even freeing that many objects
takes too long. (Lists and objects have their own limit.)
"""

import asyncio
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, cast

import msgspec

from wicket_mcp.codec import (
    LARGE,
    MAX_DEPTH,
    TooDeep,
    encode,
    is_deep,
    is_large,
    read_float,
    refuse_constant,
    weighs_over,
)

WINDOW = 64 * 1024
"""Characters that are parsed or written in one call."""
MAX_VALUES = 1_000_000
MAX_CONTAINERS = 300_000
"""Lists and objects, because the garbage collector visits all of them in one go."""
THREADS = 2

_scan = json.JSONDecoder(parse_constant=refuse_constant, parse_float=read_float).raw_decode
_decode = msgspec.json.Decoder().decode
_blank = re.compile(r"[ \t\n\r]*").match
_text_end = re.compile(r'[^"\\]*(?:\\(?:u[0-9A-Fa-f]{4}|[^u])[^"\\]*)*').match
_texts = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_SHOWN = {"]": 8, "}": 8, '"': 1}
"""How much of the next item belongs to a guess at an item's end, by the last character of an item."""


async def decode_off_loop(data: bytes, *, strict: bool = False, most: int = MAX_VALUES) -> Any:
    """`codec.decode` of a large document with at most this many values, in a thread. Raises ValueError."""
    return await asyncio.get_running_loop().run_in_executor(_executor(), decode_in_pieces, data, strict, most)


async def encode_off_loop(value: Any) -> bytes:
    """`codec.encode` of a large value, in a thread."""
    return await asyncio.get_running_loop().run_in_executor(_executor(), encode_in_pieces, value)


async def encode_message(message: dict[str, Any]) -> bytes:
    """Encode a JSON-RPC message, off the loop if its content is large."""
    params: Any = message.get("params")
    if type(params) is dict and is_large(cast("dict[str, Any]", params).get("arguments")):
        return await encode_off_loop(message)
    return encode(message)


@cache
def _executor() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, "large JSON")


def decode_in_pieces(
    data: bytes | str, strict: bool = False, most: int | None = MAX_VALUES, window: int = WINDOW
) -> Any:
    """Parse one JSON document of at most this many values; no limit if `most` is None. Raises ValueError."""
    text = data if isinstance(data, str) else data.decode("utf-8", "strict" if strict else "replace")
    # The garbage collector is not paused: it would then look through everything at the end, in one go.
    return _Reader(text, most, window).document()


_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")


class _Reader:
    """A cursor over a text, with a window of it that goes to the parser."""

    def __init__(self, text: str, most: int | None, window: int) -> None:
        self._text = text
        self._most = most
        self._width = window
        self._window = text[:window]
        self._base = 0
        self._values = 0
        self._containers = 0
        self._guess_failed_at = -1

    def document(self) -> Any:
        value, end = self.read(self.skip(0), 0)
        if self.skip(end) != len(self._text):
            raise ValueError(f"JSON is malformed: trailing characters (character {end})")
        return value

    def skip(self, at: int) -> int:
        """The next position that is not blank."""
        return cast("re.Match[str]", _blank(self._text, at)).end()

    def read(self, at: int, depth: int) -> tuple[Any, int]:
        """The value that begins here, and its end."""
        value = self._scan(at, depth)
        if value is not None:
            return value
        if depth >= MAX_DEPTH:
            raise TooDeep
        match self._text[at : at + 1]:
            case "[":
                return self._list(at + 1, depth + 1)
            case "{":
                return self._object(at + 1, depth + 1)
            case '"':
                return self._string(at + 1)
            case _:
                return self._number(at)

    def _number(self, at: int) -> tuple[Any, int]:
        """A number longer than a window."""
        number = _NUMBER.match(self._text, at)
        if number is None:
            raise self._error_at(at)
        return _scan(number[0], 0)[0], number.end()

    def _scan(self, at: int, depth: int) -> tuple[Any, int] | None:
        """The value, if it lies within a window; a number at the end of the window may continue, as "1.5e+9" does."""
        for moved in (False, True):
            if moved:
                self._window, self._base = self._text[at : at + self._width], at
            elif not self._base <= at < self._base + len(self._window):
                continue
            try:
                value, end = _scan(self._window, at - self._base)
            except json.JSONDecodeError:
                continue
            except RecursionError:
                raise TooDeep from None
            if end + 2 < len(self._window) or self._base + len(self._window) >= len(self._text):
                self._check(value, self._window[at - self._base : end], depth)
                return value, self._base + end
        return None

    def _check(self, value: Any, source: str, depth: int) -> None:
        self._values += 1
        if isinstance(value, dict | list):
            marks = _texts.sub("", source)
            containers = marks.count("[") + marks.count("{")
            self._values += marks.count(",") + containers
            self._containers += containers
            if is_deep(source, value, MAX_DEPTH - depth):  # pyright: ignore[reportUnknownArgumentType]
                raise TooDeep
        if self._most is None:
            return
        if self._values > self._most:
            raise ValueError(f"JSON has too many values: {self._most:,} are accepted")
        if self._containers > MAX_CONTAINERS:
            raise ValueError(f"JSON has too many lists and objects: {MAX_CONTAINERS:,} are accepted")

    def _list(self, at: int, depth: int) -> tuple[list[Any], int]:
        items: list[Any] = []
        at = self.skip(at)
        if self._text[at : at + 1] == "]":
            return items, at + 1
        while True:
            item, end = self.read(at, depth)
            items.append(item)
            comma = self.skip(end)
            match self._text[comma : comma + 1]:
                case "]":
                    return items, comma + 1
                case ",":
                    start, at = at, self.skip(comma + 1)
                    at = self._batch(items, start, end, at, depth)
                case _:
                    raise self._error_at(comma)

    def _batch(self, items: list[Any], start: int, end: int, at: int, depth: int) -> int:
        """Parse as many items as the window holds, if they end and begin like the last one; returns where to continue.

        A guess at an item's end is right exactly if the text before it can be parsed.
        """
        base, window = self._base, self._window
        if base == self._guess_failed_at or not base <= start < at < base + len(window):
            return at
        last = self._text[end - 1]
        shown_length = _SHOWN.get(last)
        if shown_length is None:  # a number or a word
            last = ""
        cut = window.rfind(last + self._text[end:at] + self._text[at : at + (shown_length or 0)])
        if cut <= at - base:
            self._guess_failed_at = base
            return at
        source = window[at - base : cut + len(last)]
        try:
            more: list[Any] = _decode(f"[{source}]")
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            self._guess_failed_at = base
            return at
        self._check(more, source, depth - 1)
        items += more
        return base + cut + len(last) + (at - end)

    def _object(self, at: int, depth: int) -> tuple[dict[str, Any], int]:
        members: dict[str, Any] = {}
        at = self.skip(at)
        if self._text[at : at + 1] == "}":
            return members, at + 1
        while True:
            if self._text[at : at + 1] != '"':
                raise self._error_at(at)
            key, end = self.read(at, depth)
            colon = self.skip(end)
            if self._text[colon : colon + 1] != ":":
                raise self._error_at(colon)
            members[key], end = self.read(self.skip(colon + 1), depth)
            comma = self.skip(end)
            match self._text[comma : comma + 1]:
                case "}":
                    return members, comma + 1
                case ",":
                    at = self.skip(comma + 1)
                case _:
                    raise self._error_at(comma)

    def _string(self, at: int) -> tuple[str, int]:
        """A text larger than the window."""
        parts: list[str] = []
        while True:
            end = cast("re.Match[str]", _text_end(self._text, at, at + self._width)).end()
            ended = self._text[end : end + 1] == '"'
            if end == at and not ended:
                raise self._error_at(at)
            part = _parse_text(self._text[at:end], at)
            if parts and "\ud800" <= parts[-1][-1:] <= "\udbff" and "\udc00" <= part[:1] <= "\udfff":
                halves = parts[-1][-1] + part[0]  # of one character, as two escapes
                parts[-1] = parts[-1][:-1]
                part = halves.encode("utf-16", "surrogatepass").decode("utf-16") + part[1:]
            parts.append(part)
            at = end
            if ended:
                return "".join(parts), at + 1

    def _error_at(self, at: int) -> ValueError:
        if at >= len(self._text):
            return ValueError("JSON is malformed: it ends too early")
        return ValueError(f"JSON is malformed: {self._text[at]!r} at character {at} does not belong there")


def _parse_text(piece: str, at: int) -> str:
    try:
        return json.loads(f'"{piece}"')  # noqa: TID251
    except json.JSONDecodeError:
        raise ValueError(f"JSON is malformed: a text at character {at}") from None


def encode_in_pieces(value: Any, window: int = WINDOW) -> bytes:
    """Serialise compactly to UTF-8."""
    return b"".join(_pieces(value, window))


def _pieces(value: Any, window: int) -> Iterator[bytes]:
    if isinstance(value, str) and len(value) > window:
        yield b'"'
        for at in range(0, len(value), window):
            yield encode(value[at : at + window])[1:-1]
        yield b'"'
    elif isinstance(value, dict) and weighs_over(value, window):
        before = b"{"
        for key, member in cast("dict[str, Any]", value).items():
            yield before + encode(key) + b":"
            yield from _pieces(member, window)
            before = b","
        yield b"}"
    elif isinstance(value, list) and weighs_over(value, window):
        yield from _list_pieces(cast("list[Any]", value), window)
    else:
        yield encode(value)


def _list_pieces(items: list[Any], window: int) -> Iterator[bytes]:
    """Runs of small items are written in one call."""
    before, at, run = b"[", 0, 1
    while at < len(items):
        batch = items[at : at + run]
        if not weighs_over(batch, window):
            yield before + encode(batch)[1:-1]
            at, run = at + run, 2 * run
        elif run > 1:
            run = max(1, run // 4)
            continue
        else:
            yield before
            yield from _pieces(items[at], window)
            at += 1
        before = b","
    yield b"]"


__all__ = ["LARGE", "decode_in_pieces", "decode_off_loop", "encode_in_pieces", "encode_message", "encode_off_loop"]
