"""Splits a byte stream into lines, with a length limit.

Works on bytes, so invalid characters do not matter here. Pieces of an unfinished line are kept in a list and joined
once, so that a long line takes linear time. A line over the limit raises, because the data after it cannot be trusted;
a reader that must go on after it allows some bytes to be skipped, and gets the two ends of the line instead.
"""

EDGE = 200
"""Bytes that are kept of each end of a line over the limit."""


class LineTooLong(Exception):
    """The peer sent more than the limit without ending the line."""


class CutLine(bytes):
    """The beginning and the end of a line over the limit."""


class LineFramer:
    """Feed it chunks; it returns complete lines without their line ends."""

    def __init__(self, limit: int, skip: int = 0) -> None:
        """`skip` is how far over the limit a line may be; of such a line there is a `CutLine`."""
        self._limit = limit
        self._skip = skip
        self._parts: list[bytes] = []
        self._size = 0
        self._cut = False
        """Whether only the two ends of the unfinished line are kept."""
        self.waiting = False
        """Whether the beginning of a line is kept."""

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that `data` completes. Raises LineTooLong."""
        ended = data.split(b"\n")
        partial = ended.pop()
        if ended and self.waiting:
            self._keep(ended[0])
            joined = b"".join(self._parts)
            ended[0] = CutLine(joined) if self._cut else joined
            self._parts.clear()
            self._size, self._cut, self.waiting = 0, False, False
        if len(data) > self._limit:
            ended = [self._shorten(line) if len(line) > self._limit else line for line in ended]
        if partial:
            self._keep(partial)
            self.waiting = True
        return ended

    def _keep(self, piece: bytes) -> None:
        self._parts.append(piece)
        self._size += len(piece)
        if self._size > self._limit + self._skip:
            raise LineTooLong
        if self._cut:
            beginning, *pieces = self._parts
            self._parts = [beginning, b"".join(pieces)[-EDGE:]]
        elif self._size > self._limit:
            joined = b"".join(self._parts)
            self._parts, self._cut = [joined[:EDGE], joined[EDGE:][-EDGE:]], True

    def _shorten(self, line: bytes) -> CutLine:
        if isinstance(line, CutLine):
            return line
        if len(line) > self._limit + self._skip:
            raise LineTooLong
        return CutLine(line[:EDGE] + line[EDGE:][-EDGE:])


PIPE = 64 * 1024
"""The capacity of a pipe."""


def read_by_pipefuls(transport: object) -> None:
    """Read 64 KiB at a time: asyncio's 256 KiB buffers are requested from the kernel, and returned, on every read."""
    if hasattr(transport, "max_size"):
        transport.max_size = PIPE  # pyright: ignore[reportAttributeAccessIssue]
