"""Lines out of a byte stream, bounded.

Works on bytes: a bad character costs nothing here. Pieces of an unfinished line are kept in a list and joined
once, so that a long line costs linear time. A line beyond the limit raises, because what follows cannot be trusted.
"""


class LineTooLong(Exception):
    """The peer sent more than the limit without ending the line."""


class LineFramer:
    """Feed it chunks; it gives complete lines without their end."""

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
"""What a pipe holds."""


def read_by_pipefuls(transport: object) -> None:
    """asyncio reads 256 KiB at a time, and what is so large is asked of the kernel, and given back, each time."""
    if hasattr(transport, "max_size"):
        transport.max_size = PIPE  # pyright: ignore[reportAttributeAccessIssue]
