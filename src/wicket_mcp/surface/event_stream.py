"""A response that is an event stream: sends what waits in its outbox, and a keep-alive when nothing does.

Used for the answer to one request (`exchange.py`) and for unsolicited messages to a legacy session (`sessions.py`).
"""

import asyncio

from wicket_mcp.codec import encode
from wicket_mcp.model import JsonObject
from wicket_mcp.surface.http import Headers, Send
from wicket_mcp.surface.outbox import Counters, Outbox

KEEPALIVE = 15.0  # seconds of silence before a keep-alive
STILL_HERE = b": still here\n\n"
STREAM_HEADERS = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store, no-transform"),
    (b"x-accel-buffering", b"no"),
)


class EventStream:
    """See the module's docstring."""

    def __init__(self, counters: Counters) -> None:
        self._outbox = Outbox(frame, counters=counters)
        self._wake = asyncio.Event()
        self._ended = False

    def post(self, message: JsonObject) -> None:
        """Queue a message for the client."""
        self._outbox.put(message)
        self._wake.set()

    def post_encoded(self, answer: bytes) -> None:
        """Queue an answer that was encoded elsewhere because of its size."""
        self._outbox.put_packed(_event(answer))
        self._wake.set()

    def end(self) -> None:
        """Close the stream after the queued messages are sent."""
        self._ended = True
        self._wake.set()

    async def run(self, send: Send, headers: Headers = (), greeting: bytes = b"") -> None:
        """Send until the stream has ended; the caller cancels it when the client disconnects."""
        await send({"type": "http.response.start", "status": 200, "headers": [*STREAM_HEADERS, *headers]})
        body = greeting + self._outbox.take()
        while not self._ended:
            await send({"type": "http.response.body", "body": body or STILL_HERE, "more_body": True})
            if not self._outbox.size and not self._ended:
                self._wake.clear()
                await _wait(self._wake, KEEPALIVE)
            body = self._outbox.take()
        await send({"type": "http.response.body", "body": body + self._outbox.take()})


def frame(message: JsonObject) -> bytes:
    """A message encoded as one event of a stream."""
    return _event(encode(message))


def _event(data: bytes) -> bytes:
    return b"".join((b"event: message\ndata: ", data, b"\n\n"))


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Wait for `event`, for at most this long."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
