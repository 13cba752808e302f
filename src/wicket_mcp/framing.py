"""Splits a byte stream into lines, with a length limit.

Works on bytes, so invalid characters do not matter here. Pieces of an unfinished line are kept in a list and joined
once, so that a long line takes linear time. A line over the limit raises, because the data after it cannot be trusted.
"""


class LineTooLong(Exception):
    """The peer sent more than the limit without ending the line."""


class LineFramer:
    """Feed it chunks; it returns complete lines without their line ends."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self.waiting = False
        """Whether the beginning of a line is kept."""

    def feed(self, data: bytes) -> list[bytes]:
        ended = data.split(b"\n")
        partial = ended.pop()
        longest = self._size + len(data)
        if ended and self._parts:
            ended[0] = b"".join((*self._parts, ended[0]))
            self._parts.clear()
            self._size = 0
        if partial:
            self._parts.append(partial)
            self._size += len(partial)
        self.waiting = bool(self._parts)
        if longest > self._limit and (self._size > self._limit or any(len(line) > self._limit for line in ended)):
            raise LineTooLong
        return ended


PIPE = 64 * 1024
"""The capacity of a pipe."""


def read_by_pipefuls(transport: object) -> None:
    """Read 64 KiB at a time: asyncio's 256 KiB buffers are requested from the kernel, and returned, on every read."""
    if hasattr(transport, "max_size"):
        transport.max_size = PIPE  # pyright: ignore[reportAttributeAccessIssue]
