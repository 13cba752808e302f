"""Messages that wait for one client that reads slowly, limited in bytes.

Every outgoing queue is an `Outbox`: the event stream of a request, the stream of a legacy session, the pipe of a stdio
client, and the messages of a held call while its client is away. Within the limit nothing is lost. Beyond it, log
messages are dropped, and only the latest of each kind of progress and other notifications is kept. Answers are always
kept: there is one per call in flight, and `StallWatch` disconnects a client that stops reading. Knows no transport.
"""

import asyncio
import logging
from collections.abc import Callable

import msgspec

from wicket_mcp.codec import encode
from wicket_mcp.errors import Overloaded
from wicket_mcp.model import JsonObject, as_object

log = logging.getLogger(__name__)

LIMIT = 1024 * 1024
"""Bytes that may wait for one client before messages are dropped."""
STALLED = 60.0
"""Seconds without a byte read after which a client is disconnected."""

_LOG = "notifications/message"
_PROGRESS = "notifications/progress"
_KEPT = frozenset({"notifications/cancelled", "notifications/subscriptions/acknowledged"})
"""Notifications that must not be replaced by later ones; there are at most as many of them as requests."""


class Counters(msgspec.Struct):
    """What slow clients have missed; shared by all outboxes of one gateway."""

    dropped: int = 0
    """Messages that were not sent."""
    replaced: int = 0
    """Notifications that were replaced by a later one of the same kind."""
    largest: int = 0
    """The most bytes that waited for one client when its limit was reached."""


class Outbox:
    """See the module's docstring. `pack` encodes a message to the bytes that are written."""

    __slots__ = ("_counters", "_latest", "_latest_size", "_limit", "_pack", "_parts", "_size")

    def __init__(
        self,
        pack: Callable[[JsonObject], bytes] = encode,
        *,
        limit: int = LIMIT,
        counters: Counters | None = None,
    ) -> None:
        self._pack = pack
        self._limit = limit
        self._counters = Counters() if counters is None else counters
        self._parts: list[bytes] = []
        self._size = 0
        self._latest: dict[bytes, bytes] = {}
        self._latest_size = 0

    def __repr__(self) -> str:
        return f"<Outbox {self.size} bytes, {self._counters.dropped} dropped, {self._counters.replaced} replaced>"

    @property
    def size(self) -> int:
        return self._size + self._latest_size

    @property
    def full(self) -> bool:
        return self._size + self._latest_size >= self._limit

    def put(self, message: JsonObject) -> None:
        """Queue a message. Raises Overloaded for a request of ours that exceeds the limit."""
        data = self._pack(message)
        if self._size + len(data) > self._limit and "method" in message and message["method"] not in _KEPT:
            if "id" in message:
                raise Overloaded("The client does not read what it was sent.", hint="Try again later.")
            self._put_beyond(message, data)
            return
        self.put_packed(data)

    def put_packed(self, data: bytes) -> None:
        """Queue the bytes of an answer."""
        if self._latest:  # messages from before an answer are sent before it
            self._settle()
        self._parts.append(data)
        self._size += len(data)

    def take(self) -> bytes:
        """Everything that waits, in order; the outbox is empty afterwards."""
        return b"".join(self.take_each())

    def take_each(self) -> list[bytes]:
        """Like `take`, message by message."""
        if self._latest:
            self._settle()
        parts, self._parts, self._size = self._parts, [], 0
        return parts

    def _put_beyond(self, message: JsonObject, data: bytes) -> None:
        """Queue a notification although the limit is reached: it replaces the previous one, or is dropped."""
        if message["method"] == _LOG or len(data) > self._limit:
            self._counters.dropped += 1
            return
        key = data
        if message["method"] == _PROGRESS:
            key = encode([_PROGRESS, as_object(message.get("params")).get("progressToken")])
        if (earlier := self._latest.pop(key, None)) is not None:
            self._latest_size -= len(earlier)
            self._counters.replaced += 1
        self._latest[key] = data
        self._latest_size += len(data)
        self._counters.largest = max(self._counters.largest, self.size)
        while self._latest_size > self._limit:
            self._latest_size -= len(self._latest.pop(next(iter(self._latest))))
            self._counters.dropped += 1

    def _settle(self) -> None:
        self._parts.extend(self._latest.values())
        self._size += self._latest_size
        self._latest.clear()
        self._latest_size = 0


class StallWatch:
    """Disconnects a client that reads nothing of what was written to it.

    `pause` and `resume` are called when the transport's buffer is full and when it has room again. `is_due` decides
    whether a client that stalls now is disconnected; without it, every such client is.
    """

    def __init__(
        self,
        transport: asyncio.WriteTransport,
        is_due: Callable[[], bool] | None = None,
        seconds: float | None = None,
    ) -> None:
        self._transport = transport
        self._is_due = is_due
        self._seconds = STALLED if seconds is None else seconds
        self._unsent = 0
        self._timer: asyncio.TimerHandle | None = None

    def pause(self) -> None:
        self._unsent = self._transport.get_write_buffer_size()
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._look)

    def resume(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        unsent = self._transport.get_write_buffer_size()
        if unsent >= self._unsent and (self._is_due is None or self._is_due()):
            log.warning("a client read nothing for %g seconds and was disconnected", self._seconds)
            self._timer = None
            self._transport.abort()
        else:
            self.pause()
