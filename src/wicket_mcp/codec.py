"""JSON encoding and decoding: bytes to plain objects, and back.

Loses nothing that matters: integers of any size stay exact, and a lone surrogate escape or an invalid UTF-8 byte costs
that character, not the message. `decode` raises only ValueError, also for nesting so deep that walking it would
overflow the stack.
"""

import gc
import hashlib
import json
import re
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any

import msgspec

_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()

MAX_DEPTH = 128
_MARKS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)
"""Texts, whose brackets mean nothing, and the brackets that do."""
_NO_BRACKETS = bytes(code for code in range(256) if code not in b"[]{}")
_PASSES = 8
LARGE = 256 * 1024
"""Bytes above which a document is processed by `large_json.py`, off the event loop."""
_LARGEST = sys.float_info.max
_CONTAINERS: tuple[type[Any], ...] = (dict, list)


class TooDeep(ValueError):
    """Nested more deeply than can be walked."""

    def __init__(self) -> None:
        super().__init__(f"JSON is nested too deeply: {MAX_DEPTH} levels are accepted")


def decode(data: bytes | str, *, strict: bool = False) -> Any:
    """Parse one JSON document. Raises ValueError (bad JSON, nested too deeply; with `strict` also bad UTF-8)."""
    try:
        value = _decoder.decode(data) if len(data) < LARGE else _decode_large(data)
    except RecursionError:
        raise TooDeep from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        # The slow, lenient path: half an emoji from a Node server, or a latin-1 byte in a log line.
        text = data if isinstance(data, str) else data.decode("utf-8", "strict" if strict else "replace")
        try:
            value = json.loads(text, parse_constant=refuse_constant, parse_float=read_float)  # noqa: TID251  (the one place)
        except RecursionError:
            raise TooDeep from None
    if len(data) > 2 * MAX_DEPTH and _opens(data) > MAX_DEPTH and is_deep(data, value):
        raise TooDeep
    return value


def cut_depths(data: bytes) -> bytes:
    """The same document with null in place of what is nested too deeply."""
    pieces: list[bytes] = []
    depth = end = 0
    for mark in _MARKS.finditer(data):
        if data[mark.start()] in b"[{":
            depth += 1
            if depth == MAX_DEPTH + 1:
                pieces += (data[end : mark.start()], b"null")
        elif data[mark.start()] in b"]}":
            if depth == MAX_DEPTH + 1:
                end = mark.end()
            depth -= 1
    return b"".join((*pieces, data[end:]))


def _opens(data: bytes | str) -> int:
    """How many objects and lists there are at most."""
    return data.count(b"{") + data.count(b"[") if isinstance(data, bytes) else data.count("{") + data.count("[")


def is_deep(data: bytes | str, value: Any, most: int = MAX_DEPTH) -> bool:
    """Whether `value`, parsed from `data`, is nested more than `most` levels deep."""
    return _may_be_deep(data, most) and _is_deep(value, most)


def weighs_over(value: Any, most: int = LARGE) -> bool:
    """Whether `value` takes more than about `most` bytes as JSON. Stops as soon as it knows."""
    # Every response passes here: avoid function calls for values that are not text.
    weight = 0
    containers: list[Any] = [value if type(value) in _CONTAINERS else (value,)]
    for container in containers:  # grows meanwhile
        weight += 16 * len(container)
        if weight > most:
            return True
        parts: Any = container.values() if container.__class__ is dict else container
        for part in parts:
            kind = part.__class__
            if kind is str:
                weight += len(part)
            elif kind is dict or kind is list:
                containers.append(part)
    return weight > most


def is_large(members: Any) -> bool:
    """Whether a call's arguments should be processed off the event loop; inspects only candidates closely."""
    if type(members) is dict:
        for member in members.values():  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
            if isinstance(member, str):
                if len(member) > LARGE:
                    return True
            elif isinstance(member, _CONTAINERS) and weighs_over(member):
                return True
    return False


@contextmanager
def pause_collector() -> Generator[None]:
    """Pause the garbage collector: JSON has no cycles, and searching for them takes three quarters of parsing a large
    text.
    """
    paused = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if paused:
            gc.enable()


def _decode_large(data: bytes | str) -> Any:
    with pause_collector():
        return _decoder.decode(data)


def _may_be_deep(data: bytes | str, most: int) -> bool:
    """False if the brackets alone show that nothing is too deep; this costs a tenth of parsing."""
    text = data if isinstance(data, bytes) else data.encode("utf-8", "replace")
    brackets = text.translate(None, _NO_BRACKETS)
    for removed in range(0, 2 * _PASSES, 2):
        if len(brackets) <= 2 * (most - removed):
            return False
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")  # one or two levels of each branch, from inside
    return True


def _is_deep(value: Any, most: int) -> bool:
    level: list[Any] = [value]
    for _ in range(most):
        parts: list[Iterable[Any]] = [part.values() if hasattr(part, "values") else part for part in level]
        level = [item for part in parts for item in part if isinstance(item, _CONTAINERS)]
        if not level:
            return False
    return True


def encode(value: Any) -> bytes:
    """Serialise compactly to UTF-8."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:  # a lone surrogate: only an escape can carry it
        return json.dumps(value, separators=(",", ":")).encode("ascii")  # noqa: TID251


def encode_whole(value: Any) -> bytes:
    """Serialise to UTF-8 with "?" in place of lone surrogates, for readers that know whole characters only."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        text = json.dumps(msgspec.to_builtins(value), ensure_ascii=False, separators=(",", ":"))  # noqa: TID251
        return text.encode("utf-8", "replace")


def digest(encoded: bytes) -> tuple[str, int]:
    """What the audit stores instead of the arguments: a digest and their length."""
    return hashlib.blake2b(encoded, digest_size=8).hexdigest(), len(encoded)


def canonical(value: Any) -> bytes:
    """The same bytes for the same value, whatever the order of its keys: the input of digests."""
    try:
        return msgspec.json.encode(value, order="deterministic")
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"), sort_keys=True).encode("ascii")  # noqa: TID251


def pretty(value: Any) -> str:
    """Indented JSON for people."""
    return msgspec.json.format(encode_whole(value), indent=2).decode("utf-8")


def refuse_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def read_float(digits: str) -> float:
    """A number with a fraction or an exponent. One beyond the largest float becomes the largest: an infinity cannot be
    passed on as JSON, and a refusal would cost the whole message.
    """
    return max(-_LARGEST, min(float(digits), _LARGEST))
