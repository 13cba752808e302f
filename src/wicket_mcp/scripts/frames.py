"""Frames between the gateway and a jailed child: one byte of kind, four of length, then JSON.

Both ends use this file. The child's end blocks; the gateway's end is asyncio and trusts nothing: the length is checked
before a byte is read, the nesting before any code walks a value.
"""

import asyncio
import select
import socket
import struct
from collections.abc import Iterable
from typing import Any, cast

from wicket_mcp import codec
from wicket_mcp.model import Json

JOB = b"J"
BEGUN = b"B"
REPLIES = b"R"
CALLS = b"C"
PRINTED = b"P"
DONE = b"D"
FAILED = b"E"

_HEAD = struct.Struct("!cI")


class BadFrame(Exception):
    """The other end broke the protocol."""


def pack(kind: bytes, payload: bytes) -> bytes:
    return _HEAD.pack(kind, len(payload)) + payload


async def read(reader: asyncio.StreamReader, limit: int) -> tuple[bytes, bytes]:
    """The next frame. Raises BadFrame, and IncompleteReadError at the end of the stream."""
    kind, length = _HEAD.unpack(await reader.readexactly(_HEAD.size))
    if length > limit:
        raise BadFrame(f"a frame of {length} bytes")
    return kind, await reader.readexactly(length)


def parse(payload: bytes, depth: int) -> Json:
    """The JSON of a frame, nested no deeper than `depth`. Raises BadFrame."""
    try:
        value = codec.decode(payload)
    except ValueError as error:
        raise BadFrame(str(error)) from None
    if deeper(value, depth):
        raise BadFrame(f"JSON nested deeper than {depth}")
    return value


def deeper(value: Json, depth: int) -> bool:
    """Whether JSON nests deeper than `depth`. Works level by level, so that a hostile value cannot exhaust our
    recursion.
    """
    level: list[Any] = [value] if isinstance(value, dict | list) else []
    while level and depth:
        depth -= 1
        level = [child for item in level for child in _children(item) if isinstance(child, dict | list)]
    return bool(level)


def _children(container: Any) -> Iterable[Any]:
    return cast("Iterable[Any]", container.values() if isinstance(container, dict) else container)


class Channel:
    """The child's end: blocking reads and writes on its one socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def send(self, kind: bytes, payload: bytes) -> None:
        self.sock.sendall(pack(kind, payload))

    def wait(self, seconds: float | None) -> bool:
        """Whether there is something to receive, now or within that time; None waits without a limit."""
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        return bool(poll.poll(None if seconds is None else seconds * 1000))

    def receive(self) -> tuple[bytes, bytes]:
        kind, length = _HEAD.unpack(self._exactly(_HEAD.size))
        return kind, self._exactly(length)

    def linger(self) -> None:
        """Wait until the other end hangs up: ending with unread data would discard what was sent last."""
        while self.sock.recv(1 << 16):
            pass

    def _exactly(self, count: int) -> bytes:
        parts: list[bytes] = []
        while count:
            part = self.sock.recv(min(count, 1 << 20))
            if not part:
                raise EOFError
            parts.append(part)
            count -= len(part)
        return b"".join(parts)
