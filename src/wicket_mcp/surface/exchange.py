"""One HTTP request whose answer may take a while: a JSON body if nothing happens on the way, an event stream otherwise.

The first message that is sent before the answer turns the response into a stream. A modern client that leaves cancels
its call; a legacy one does not (its protocol says that leaving means nothing).
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from wicket_mcp.codec import encode
from wicket_mcp.errors import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CLIENT_CAPABILITY,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
)
from wicket_mcp.model import JsonObject
from wicket_mcp.surface.answers import respond
from wicket_mcp.surface.protocol import Protocol, Request
from wicket_mcp.tasks import Tasks

Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

WATCH_AFTER = 0.05  # seconds after which we look whether a modern client has left; most answers are there before
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
        self._headers: tuple[tuple[bytes, bytes], ...] = ()
        self._frames: list[bytes] = []
        self._wake = asyncio.Event()
        self._tasks = Tasks()
        self._answering: asyncio.Task[Any] | None = None
        self._streaming: asyncio.Task[None] | None = None
        self._given_up = False
        self._gone = False
        self._over = False

    def post(self, message: JsonObject) -> None:
        """Send a message ahead of the answer."""
        self._frames.append(frame(message))
        self._wake.set()
        if self._streaming is None and not self._over:
            self._streaming = self._tasks.start(self._stream(), "stream")

    def cancel(self) -> None:
        """End the request without an answer, as its client asked."""
        if self._answering is not None and not self._given_up:
            self._given_up = True
            self._answering.cancel()

    async def run(self, protocol: Protocol, request: Request, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        """Answer `request`; `headers` are added to the response."""
        self._headers = headers
        watching = asyncio.get_running_loop().call_later(WATCH_AFTER, self._watch) if request.modern else None
        try:
            response = await self._answer(protocol, request)
            if response is not None and self._streaming is None:
                self._over = True
                await send_json(self._send, _status(request, response), response, headers)
            elif not self._gone:
                await self._finish(response)
        finally:
            if watching is not None:
                watching.cancel()
            await self._tasks.close()

    async def _answer(self, protocol: Protocol, request: Request) -> JsonObject | None:
        """The response, or None when the client gave the request up."""
        # In the server's own task: one more for every request would cost a tenth of the whole call.
        task = self._answering = asyncio.current_task()
        try:
            return await respond(protocol, request)
        except asyncio.CancelledError:
            if task is None or not self._given_up:
                raise
            task.uncancel()
            return None
        finally:
            self._answering = None

    async def _stream(self) -> None:
        head = {"type": "http.response.start", "status": 200, "headers": [*STREAM_HEADERS, *self._headers]}
        await self._send(head)
        while not self._gone:
            frames, self._frames = self._frames, []
            ended = self._over
            body = b"".join(frames) or b": still here\n\n"
            await self._send({"type": "http.response.body", "body": body, "more_body": not ended})
            if ended:
                return
            self._wake.clear()
            if not self._frames and not self._over:
                await wait(self._wake, KEEPALIVE)

    async def _finish(self, response: JsonObject | None) -> None:
        """Put the response, if there is one, at the end of the stream."""
        # What an upstream took back just before it answered must reach the client before the answer does.
        await asyncio.sleep(0)
        if response is not None:
            self._frames.append(frame(response))
        self._over = True
        self._wake.set()
        await (self._streaming or self._stream())

    def _watch(self) -> None:
        self._tasks.start(self._until_gone(), "watch client")

    async def _until_gone(self) -> None:
        await left(self._receive)
        self._gone = True
        self._wake.set()
        self.cancel()


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
