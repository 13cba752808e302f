"""Parses server-sent events from a byte stream, with a size limit.

Takes chunks and returns complete events. Works on bytes and in linear time: an unfinished line is a list of pieces
joined once. An event over the limit raises, because the data after it cannot be trusted. Knows nothing about HTTP or
JSON.
"""

from typing import NamedTuple

_BOM = b"\xef\xbb\xbf"
_LONGEST_ID = 4096
_FIELDS = 8  # lines beside the data that an event may have before they count as noise


class Event(NamedTuple):
    """One event: its type ("message" by default), and its data lines joined by newlines."""

    type: str
    data: bytes


class OversizedEventError(Exception):
    """The peer sent an event or a line larger than the limit."""


class EventParser:
    """Feed it chunks; it returns the events that they complete."""

    def __init__(self, limit: int) -> None:
        self.last_id = ""
        """The id to resume after, as last sent by the stream."""
        self.retry: float | None = None
        """Seconds that the stream asks us to wait before reconnecting."""
        self.noise = 0
        """Lines so far that belong to no event: comments, too many fields, empty lines."""
        self._limit = limit
        self._line: list[bytes] = []
        self._line_size = 0
        self._type = ""
        self._fields = 0
        self._data: list[bytes] = []
        self._size = 0
        self._after_cr = False
        self._started = False

    def feed(self, chunk: bytes) -> list[Event]:
        if self._after_cr and chunk:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if b"\n" not in chunk and b"\r" not in chunk:
            self._hold(chunk)
            return []
        if self._line:
            chunk = b"".join((*self._line, chunk))
            self._line.clear()
            self._line_size = 0
        lines = chunk.splitlines()
        if chunk[-1:] == b"\r":
            self._after_cr = True
        partial = b"" if chunk[-1:] in (b"\r", b"\n") else lines.pop()
        events: list[Event] = []
        for line in lines:
            self._take(line, events)
        self._hold(partial)
        return events

    def end(self) -> list[Event]:
        """The unfinished event at the end of the stream, if any. Afterwards a new stream may begin."""
        events: list[Event] = []
        if self._line:
            self._take(b"".join(self._line), events)
        self._dispatch(events)
        self._line.clear()
        self._line_size = 0
        self._after_cr = self._started = False
        return events

    def _hold(self, piece: bytes) -> None:
        if piece:
            self._line.append(piece)
            self._line_size += len(piece)
            self._check()

    def _check(self) -> None:
        if self._line_size + self._size > self._limit:
            raise OversizedEventError

    def _take(self, line: bytes, events: list[Event]) -> None:
        if not self._started:
            self._started = True
            line = line.removeprefix(_BOM)
        if not line:
            self._dispatch(events)
        elif line.startswith(b"data:"):
            self._data.append(line[6:] if line[5:6] == b" " else line[5:])
            self._size += len(line) + 1
            self._check()
        else:
            self._field(line)

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"event":
            self._type = value[:100].decode("utf-8", "replace")
        elif name == b"id":
            identity = value.decode("utf-8", "replace")
            if len(identity) <= _LONGEST_ID and identity.isprintable():
                self.last_id = identity
        elif name == b"retry" and value.isdigit() and len(value) < 10:
            self.retry = int(value) / 1000
        elif name == b"data":
            self._data.append(b"")
            self._size += len(line) + 1
            self._check()
            return
        self._fields += 1
        if not name or self._fields > _FIELDS:
            self.noise += 1

    def _dispatch(self, events: list[Event]) -> None:
        data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        if data:
            events.append(Event(self._type or "message", data))
        else:
            self.noise += 1
        self._data.clear()
        self._size = 0
        self._fields = 0
        self._type = ""
