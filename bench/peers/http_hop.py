"""HTTP/1.1 POSTs over kept-alive connections, as cheaply as Python can: a pool, a parser in C, nothing else.

No redirects, no TLS, no compression. What comes back is the status, the headers and the whole body. Also the client
that the load generator measures with, so that its own cost stays small beside what it measures.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import httptools


@dataclass(slots=True)
class Reply:
    """One answer: `headers` in lower case."""

    status: int = 0
    headers: dict[bytes, bytes] = field(default_factory=dict[bytes, bytes])
    body: bytes = b""


class HopLost(Exception):
    """The peer closed the connection before its answer was complete."""


class _Connection(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self) -> None:
        self.usable = True
        self._transport: asyncio.Transport | None = None
        self._parser: Any = None
        self._reply = Reply()
        self._parts: list[bytes] = []
        self._done: asyncio.Future[Reply] | None = None

    async def ask(self, request: bytes) -> Reply:
        assert self._transport is not None
        self._reply, self._parts = Reply(), []
        self._parser = httptools.HttpResponseParser(self)
        self._done = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._done

    def close(self) -> None:
        self.usable = False
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._parser is not None:
            self._parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.usable = False
        if self._done is not None and not self._done.done():
            self._done.set_exception(HopLost("the connection was closed before the answer was complete"))

    # What the parser calls

    def on_header(self, name: bytes, value: bytes) -> None:
        self._reply.headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        self._reply.status = self._parser.get_status_code()
        self.usable = self._parser.should_keep_alive()

    def on_body(self, data: bytes) -> None:
        self._parts.append(data)

    def on_message_complete(self) -> None:
        self._reply.body = b"".join(self._parts)
        if self._done is not None and not self._done.done():
            self._done.set_result(self._reply)


class Hop:
    """POSTs to one address; as many connections as there are requests at the same time."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._idle: list[_Connection] = []

    async def post(self, path: str, headers: Mapping[str, str], body: bytes) -> Reply:
        host, port = self._address
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        head = f"POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: {len(body)}\r\n{lines}\r\n"
        connection = await self._connect()
        reply = await connection.ask(head.encode("latin-1") + body)
        if connection.usable:
            self._idle.append(connection)
        else:
            connection.close()
        return reply

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    async def _connect(self) -> _Connection:
        while self._idle:
            if (connection := self._idle.pop()).usable:
                return connection
        _, connection = await asyncio.get_running_loop().create_connection(_Connection, *self._address)
        return connection
