"""One HTTP request: answered with a JSON body, or with an event stream if messages come before the answer.

The first message sent before the answer turns the response into a stream. When a modern client disconnects, its call is
cancelled. For a legacy client it is not, because its protocol says that a disconnect means nothing.
"""

import asyncio
from typing import Any

from wicket_mcp.codec import weighs_over
from wicket_mcp.errors import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CLIENT_CAPABILITY,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
)
from wicket_mcp.large_json import encode_off_loop
from wicket_mcp.model import JsonObject
from wicket_mcp.surface.event_stream import EventStream
from wicket_mcp.surface.http import Connection, Headers, Send, Turn, send_bytes, send_json
from wicket_mcp.surface.outbox import Counters
from wicket_mcp.surface.protocol import Protocol, Request
from wicket_mcp.tasks import Tasks

STATUS_OF_ERROR = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    MISSING_CLIENT_CAPABILITY: 400,
    UNSUPPORTED_VERSION: 400,
    METHOD_NOT_FOUND: 404,
}
"""The modern era's HTTP statuses for JSON-RPC errors. Other errors, and all errors of the legacy era, are 200."""


class Exchange:
    """See the module's docstring."""

    __slots__ = (
        "_answering",
        "_connection",
        "_counters",
        "_given_up",
        "_gone",
        "_headers",
        "_over",
        "_send",
        "_stream",
        "_streaming",
        "_tasks",
    )

    def __init__(self, send: Send, counters: Counters, connection: Connection | None = None) -> None:
        self._connection = connection
        self._send = send
        self._counters = counters
        self._headers: Headers = ()
        self._tasks: Tasks | None = None  # created on demand: most requests are answered without it
        self._answering: asyncio.Task[Any] | None = None
        self._stream: EventStream | None = None
        self._streaming: asyncio.Task[None] | None = None
        self._given_up = False
        self._gone = False
        self._over = False

    def post(self, message: JsonObject) -> None:
        """Send a message before the answer; messages after the answer are dropped."""
        if not self._over:
            (self._stream or self._open_stream()).post(message)

    def cancel(self) -> None:
        """End the request without an answer, because its client cancelled it."""
        if self._answering is not None and not self._given_up:
            self._given_up = True
            self._answering.cancel()

    async def run(self, protocol: Protocol, request: Request, headers: Headers = ()) -> None:
        """Answer `request`; `headers` are added to the response."""
        self._headers = headers
        connection = self._connection if request.modern else None
        if connection is not None:
            if connection.lost:
                return
            connection.on_lost = self._leave
        # Runs in the server's own task: another task per request would add a tenth to the cost of a call.
        task = self._answering = self._send.task if isinstance(self._send, Turn) else asyncio.current_task()
        try:
            try:
                response = await protocol.respond(request)
            except asyncio.CancelledError:
                if task is None or not self._given_up:
                    raise
                task.uncancel()
                response = None  # the client cancelled the request
            self._answering = None
            if response is not None and self._stream is None:
                self._over = True
                status = _status(request, response)
                if weighs_over(response):
                    await send_bytes(self._send, status, await encode_off_loop(response), headers)
                else:
                    await send_json(self._send, status, response, headers)
            elif not self._gone:
                await self._finish(response)
        finally:
            self._over, self._answering = True, None
            if connection is not None:
                connection.on_lost = None
            if self._tasks is not None:
                await self._tasks.close()

    def _open_stream(self) -> EventStream:
        stream = self._stream = EventStream(self._counters)
        self._streaming = self._own_tasks().start(stream.run(self._send, self._headers), "stream", awaited=True)
        return stream

    async def _finish(self, response: JsonObject | None) -> None:
        """Send the response, if there is one, as the last message of the stream."""
        # A notification that an upstream sent just before its answer must reach the client before the answer.
        await asyncio.sleep(0)
        stream = self._stream or self._open_stream()
        if response is not None and weighs_over(response):
            stream.post_encoded(await encode_off_loop(response))
        elif response is not None:
            stream.post(response)
        self._over = True
        stream.end()
        if self._streaming is not None:
            await self._streaming

    def _own_tasks(self) -> Tasks:
        if self._tasks is None:
            self._tasks = Tasks()
        return self._tasks

    def _leave(self) -> None:
        """The client has disconnected."""
        self._gone = True
        self.cancel()


def _status(request: Request, response: JsonObject) -> int:
    if request.modern and "error" in response:
        return STATUS_OF_ERROR.get(response["error"].get("code", 0), 200)
    return 200
