"""One HTTP request whose answer may take a while: a JSON body if nothing happens on the way, an event stream otherwise.

The first message that is sent before the answer turns the response into a stream. A modern client that leaves cancels
its call; a legacy one does not (its protocol says that leaving means nothing).
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from wicket.codec import encode
from wicket.errors import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CLIENT_CAPABILITY,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
)
from wicket.model import JsonObject
from wicket.surface.answers import respond
from wicket.surface.protocol import Protocol, Request
from wicket.tasks import Tasks

Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

KEEPALIVE = 15.0  # seconds of silence after which a stream says that it is alive
STATUS_OF_ERROR = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    MISSING_CLIENT_CAPABILITY: 400,
    UNSUPPORTED_VERSION: 400,
    METHOD_NOT_FOUND: 404,
}
"""The modern era's HTTP statuses of JSON-RPC errors; everything else, and all of the legacy era, is 200."""

JSON_HEADERS = ((b"content-type", b"application/json"), (b"cache-control", b"no-store"))
STREAM_HEADERS = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store, no-transform"),
    (b"x-accel-buffering", b"no"),
)


class Exchange:
    """See the module's docstring."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._frames: list[bytes] = []
        self._wake = asyncio.Event()
        self._gone = False
        self._answer: asyncio.Task[JsonObject] | None = None

    def post(self, message: JsonObject) -> None:
        """Send a message ahead of the answer."""
        self._frames.append(frame(message))
        self._wake.set()

    def cancel(self) -> None:
        """End the request without an answer, as its client asked."""
        if self._answer is not None:
            self._answer.cancel()

    async def run(self, protocol: Protocol, request: Request, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        """Answer `request`; `headers` are added to the response."""
        tasks = Tasks()
        answer = self._answer = tasks.start(respond(protocol, request), request.method)
        answer.add_done_callback(lambda _: self._wake.set())
        if request.modern:
            tasks.start(self._watch(), "watch client")
        try:
            await self._wake.wait()
            if answer.done() and not answer.cancelled() and not self._frames:
                response = answer.result()
                await send_json(self._send, _status(request, response), response, headers)
            elif not self._gone:
                await self._stream(answer, headers)
        finally:
            await tasks.close()

    async def _stream(self, answer: "asyncio.Task[JsonObject]", headers: tuple[tuple[bytes, bytes], ...]) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": [*STREAM_HEADERS, *headers]}
        await self._send(start)
        while not self._gone:
            frames, self._frames = self._frames, []
            ended = answer.done()
            if ended and not answer.cancelled():
                frames.append(frame(answer.result()))
            body = b"".join(frames) or b": still here\n\n"
            await self._send({"type": "http.response.body", "body": body, "more_body": not ended})
            if ended:
                return
            self._wake.clear()
            if not self._frames and not answer.done():
                await wait(self._wake, KEEPALIVE)

    async def _watch(self) -> None:
        await left(self._receive)
        self._gone = True
        self._wake.set()


async def left(receive: Receive) -> None:
    """Return when the client has closed its connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


def frame(message: JsonObject) -> bytes:
    """A message as one event of a stream."""
    return b"event: message\ndata: " + encode(message) + b"\n\n"


async def send_json(
    send: Send, status: int, body: JsonObject | None, headers: tuple[tuple[bytes, bytes], ...] = ()
) -> None:
    data = b"" if body is None else encode(body)
    length = (b"content-length", str(len(data)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*JSON_HEADERS, length, *headers]})
    await send({"type": "http.response.body", "body": data})


def _status(request: Request, response: JsonObject) -> int:
    if request.modern and "error" in response:
        return STATUS_OF_ERROR.get(response["error"].get("code", 0), 200)
    return 200


async def wait(event: asyncio.Event, seconds: float) -> None:
    """Wait for `event`, but no longer than this."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
