"""One HTTP request as the application sees it: its headers, its size-limited body, the response.

Decides nothing about what a request means, and nothing about connections (`http_connection.py`).
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from http import HTTPStatus
from typing import Any, Protocol, TypeAlias
from urllib.parse import urlsplit

from wicket_mcp.codec import encode
from wicket_mcp.errors import BadArguments
from wicket_mcp.model import JsonObject

log = logging.getLogger(__name__)

Scope: TypeAlias = Mapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
RawHeaders: TypeAlias = Sequence[tuple[bytes, bytes]]
Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

JSON_HEADERS = ((b"content-type", b"application/json"), (b"cache-control", b"no-store"))
_NONE: frozenset[bytes] = frozenset()


STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
CLOSE = b"connection: close\r\n"
MUCH = 64 * 1024
"""Bytes of unread body above which reading pauses, and bytes of a response above which it is not copied."""

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_STOPPED = b'{"error":"Wicket was stopped before this request ended. A call may have had effects."}'
_LENGTH = re.compile(rb"\r\ncontent-length: ?(\d{1,7})(?=\r\n|$)", re.IGNORECASE)
_UNUSUAL = re.compile(rb"\r\n(?:transfer-encoding|expect|upgrade|connection: *close)|HTTP/1\.0\r\n", re.IGNORECASE)
_FORBIDDEN = (b"\r", b"\n", b"\0")
_MODERN = b"mcp-method"
"""A header that every modern request has, and no other."""

CONNECTION = "wicket.connection"
"""The key of the connection in a request's scope."""


class Connection(Protocol):
    """What a request may know about its connection: whether the client has disconnected, and when it does."""

    lost: bool
    on_lost: Callable[[], None] | None

    def switch(self, successor: asyncio.Protocol, words: bytes) -> asyncio.Transport:
        """Send `words` and hand the connection to another protocol: further data is not HTTP."""
        ...


class Disconnected(Exception):
    """The client left before its message was complete."""


class BodyTooLarge(BadArguments):
    """A body beyond the limit."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"A body may have {limit} bytes at most.")


class RequestHeaders:
    """The headers of one request, parsed once: names in lower case, repeated values joined by a comma."""

    __slots__ = ("_values", "find", "raw", "repeated")

    def __init__(self, raw: RawHeaders) -> None:
        self.raw = raw
        self.repeated = _NONE
        """The names of headers that appear more than once."""
        self._values = dict(raw)
        self.find = self._values.get
        """Returns a value as it was sent, or None."""
        if len(self._values) != len(raw):
            names = [name for name, _ in raw]
            self.repeated = frozenset(name for name in self._values if names.count(name) > 1)
            for name in self.repeated:
                self._values[name] = b", ".join(value for key, value in raw if key == name)

    def __contains__(self, name: bytes) -> bool:
        return name in self._values

    def get(self, name: bytes) -> str | None:
        value = self._values.get(name)
        return None if value is None else value.decode("latin-1").strip(" \t")


def is_own_form(headers: RequestHeaders, address: str) -> bool:
    """Whether a page of ours posted this form: we are at `address`, not at another port or name of this machine.
    Every browser names the page's origin; older ones do not say how that page relates to us.
    """
    split = urlsplit(address)
    own = headers.get(b"origin") == f"{split.scheme}://{split.netloc}"
    return own and (headers.get(b"sec-fetch-site") or "same-origin") == "same-origin"


async def read_body(receive: Receive, headers: RequestHeaders, limit: int) -> bytes:
    """The body. Raises BodyTooLarge (before reading, if the length is declared) and Disconnected."""
    declared = headers.get(b"content-length")
    if declared is not None and declared.isdigit() and int(declared) > limit:
        raise BodyTooLarge(limit)
    turn = getattr(receive, "__self__", None)
    if type(turn) is Turn and (body := turn.take_whole()) is not None:  # nearly always it is already here
        if len(body) > limit:
            raise BodyTooLarge(limit)
        return body
    parts: list[bytes] = []
    size = 0
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise Disconnected
        part: bytes = event.get("body", b"")
        size += len(part)
        if size > limit:
            raise BodyTooLarge(limit)
        parts.append(part)
        if not event.get("more_body"):
            return b"".join(parts)


def read_again(body: bytes, receive: Receive) -> Receive:
    """Replay a body that was already read."""
    unread: list[MutableMapping[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> MutableMapping[str, Any]:
        return unread.pop() if unread else await receive()

    return again


async def wait_until_left(receive: Receive) -> None:
    """Return when the client has closed its connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


def send_json(send: Send, status: int, body: JsonObject | None, headers: Headers = ()) -> Awaitable[None]:
    return send_bytes(send, status, b"" if body is None else encode(body), headers)


def send_bytes(send: Send, status: int, data: bytes, headers: Headers = ()) -> Awaitable[None]:
    """Send a JSON response that is already encoded."""
    return send.respond(status, data, headers) if isinstance(send, Turn) else _send_events(send, status, data, headers)


async def _send_events(send: Send, status: int, data: bytes, headers: Headers) -> None:
    length = (b"content-length", str(len(data)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*JSON_HEADERS, length, *headers]})
    await send({"type": "http.response.body", "body": data})


def write_headers(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Header lines. Raises ValueError for a value that contains a line break."""
    lines: list[bytes] = []
    for name, value in headers:
        if any(byte in name or byte in value for byte in _FORBIDDEN):
            raise ValueError(f"the response header {name!r} has a line break in it")
        lines += (name, b": ", value, b"\r\n")
    return b"".join(lines)


def unavailable(reason: bytes, seconds: int, *, keep_alive: bool = False) -> bytes:
    """A whole response with status 503: come back after so many seconds."""
    body = b'{"error":"%b"}' % reason
    head = STATUS_LINES[503] + b"retry-after: %d\r\n" % seconds + (b"" if keep_alive else CLOSE)
    return head + b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


def is_whole(data: bytes) -> bool:
    """Whether `data` is exactly one request, as far as can be seen without parsing it. Anything unusual is not."""
    head, end, body = data.partition(b"\r\n\r\n")
    lengths = _LENGTH.findall(head)
    return bool(end) and len(lengths) == 1 and int(lengths[0]) == len(body) and _UNUSUAL.search(head) is None


_JSON_LINES = write_headers(JSON_HEADERS) + b"content-length: "


class Wire(Protocol):
    """The connection, as the response to a request needs it."""

    transport: asyncio.Transport
    room: asyncio.Event | None
    """Set when the transport's buffer has room again; None while it has room."""

    async def drain(self) -> None: ...

    def resume_reading(self) -> None: ...

    def date_line(self) -> bytes: ...

    def finish(self, turn: "Turn") -> None:
        """The response to `turn` is written."""
        ...

    def forget(self, turn: "Turn") -> None:
        """No code for `turn` runs any more."""
        ...


class Turn:
    """One request of a connection and its response: ASGI's `receive` and `send` (this object itself)."""

    __slots__ = (
        "_body",
        "_chunked",
        "_connection",
        "_expects_continue",
        "_head",
        "_left",
        "_news",
        "_scope",
        "_waiter",
        "_whole",
        "complete",
        "disconnected",
        "keep_alive",
        "started",
        "task",
    )

    def __init__(self, connection: "Wire", scope: Scope, *, keep_alive: bool, expects_continue: bool) -> None:
        self._connection = connection
        self._scope = scope
        self._expects_continue = expects_continue
        self._body = b""
        self._whole = False
        self._news = False
        self._head = b""
        self._chunked = False
        self._left = 0
        """Remaining bytes of the body, by the response's declared length."""
        self.keep_alive = keep_alive
        self.started = False
        self.complete = False
        self.disconnected = False
        self._waiter: asyncio.Future[None] | None = None
        self.task: asyncio.Task[None] | None = None
        """Runs the application for this request."""

    # Called by the connection

    def take(self, data: bytes) -> bool:
        """Keep a part of the body; whether reading should pause until the application has read it."""
        self._body = self._body + data if self._body else data
        self._wake()
        return len(self._body) > MUCH

    def take_end(self) -> None:
        self._whole = True
        self._wake()

    @property
    def survives_eof(self) -> bool:
        """Whether a client that closes its sending side still gets the answer. Not from an event stream, which would
        never notice that its client is gone, and not in the modern era, where closing means cancelling.
        """
        scope = self._scope
        return self._whole and scope["method"] == "POST" and all(name != _MODERN for name, _ in scope["headers"])

    def disconnect(self) -> None:
        self.disconnected = True
        self._wake()

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()

    def start(self, app: App, loop: asyncio.AbstractEventLoop) -> None:
        # Owned by the connection. With a name, because asyncio would make one up for every request.
        self.task = asyncio.Task(self._run(app), loop=loop, name="request")

    def _wake(self) -> None:
        self._news = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # Called by the application

    async def _run(self, app: App) -> None:
        try:
            await app(self._scope, self.receive, self)
            if not self.complete and not self.disconnected:
                raise RuntimeError("the application returned without a complete response")
        except asyncio.CancelledError:
            self._end_unanswered()
            raise
        except Exception:
            log.exception("%s %s failed", self._scope["method"], self._scope["path"])
            if self.started:
                self._connection.transport.close()
            else:
                self.keep_alive = False
                await self.respond(500, b'{"error":"A defect in Wicket: its log says more."}')
        finally:
            self._connection.forget(self)

    def _end_unanswered(self) -> None:
        """The gateway stops before the response is complete."""
        transport = self._connection.transport
        if self.started or self.disconnected:
            transport.abort()
            return
        self.started = True
        length = b"%d" % len(_STOPPED)
        transport.write(STATUS_LINES[503] + CLOSE + _JSON_LINES + length + b"\r\n\r\n" + _STOPPED)
        transport.close()

    async def receive(self) -> MutableMapping[str, Any]:
        if self._expects_continue:
            self._expects_continue = False
            self._connection.transport.write(_CONTINUE)
        while not (self._news or self.disconnected or self.complete):
            self._connection.resume_reading()
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        if self.disconnected or self.complete:
            return {"type": "http.disconnect"}
        self._news = False
        body, self._body = self._body, b""
        return {"type": "http.request", "body": body, "more_body": not self._whole}

    def take_whole(self) -> bytes | None:
        """The body, if all of it has arrived and nothing was read of it."""
        if not (self._whole and self._news) or self._expects_continue or self.disconnected or self.complete:
            return None
        self._news = False
        body, self._body = self._body, b""
        return body

    async def __call__(self, event: MutableMapping[str, Any]) -> None:
        if self._connection.room is not None and not self.disconnected:
            await self._connection.drain()
        if self.disconnected:
            return
        if event["type"] == "http.response.start":
            self._begin(event["status"], event.get("headers", ()))
        else:
            self._write(event.get("body", b""), last=not event.get("more_body", False))

    async def respond(self, status: int, data: bytes, headers: Headers = ()) -> None:
        connection = self._connection
        if connection.room is not None and not self.disconnected:
            await connection.drain()
        if self.disconnected:
            return
        if self.started:
            raise RuntimeError("the response has begun already")
        self.started = True
        self._expects_continue = False
        closing = b"\r\n\r\n" if self.keep_alive else b"\r\n" + CLOSE + b"\r\n"
        length = str(len(data)).encode()
        head = STATUS_LINES[status] + connection.date_line() + (write_headers(headers) if headers else b"")
        head += _JSON_LINES + length + closing
        if self._scope["method"] == "HEAD":
            connection.transport.write(head)
        elif len(data) > MUCH:
            connection.transport.write(head)
            connection.transport.write(data)
        else:
            connection.transport.write(head + data)
        self._end()

    def _begin(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Hold the head back for one turn of the loop: usually the body follows, and both are sent together."""
        if self.started:
            raise RuntimeError("the response has begun already")
        self.started = True
        self._expects_continue = False
        named = {name.lower(): value for name, value in headers}
        if named.get(b"connection", b"").lower() == b"close":
            self.keep_alive = False
        head = STATUS_LINES[status] + self._connection.date_line() + write_headers(headers)
        if b"content-length" in named:
            self._left = int(named[b"content-length"])
        elif self._scope["method"] != "HEAD" and status not in (204, 304):
            self._chunked = True
            head += b"transfer-encoding: chunked\r\n"
        if not self.keep_alive and b"connection" not in named:
            head += CLOSE
        self._head = head + b"\r\n"
        asyncio.get_running_loop().call_soon(self._flush)

    def _write(self, data: bytes, *, last: bool) -> None:
        if not self.started or self.complete:
            raise RuntimeError("a part of a response before its beginning or after its end")
        if self._scope["method"] == "HEAD":
            data = b""
            self._left = 0
        elif self._chunked:
            framed = b"%x\r\n%b\r\n" % (len(data), data) if data else b""
            data = framed + b"0\r\n\r\n" if last else framed
        else:
            self._left -= len(data)
        if self._left < 0 or (last and self._left):
            raise RuntimeError("the response is not as long as its head says")
        head, self._head = self._head, b""
        if head or data:
            self._connection.transport.write(head + data)
        if last:
            self._end()

    def _flush(self) -> None:
        if self._head and not self.disconnected:
            head, self._head = self._head, b""
            self._connection.transport.write(head)

    def _end(self) -> None:
        self.complete = True
        self._wake()
        self._connection.finish(self)
