"""One connection of the HTTP server: bytes become requests, responses become bytes.

httptools (llhttp) parses HTTP/1.1; this module adds the limits that it leaves to its caller. A head is limited in bytes
and headers before the sender is authenticated, and so is what stands between and after the parts of a body. No more is
read while requests that were sent ahead wait for their turn. A head and a body must each be complete within a time that
every honest client can meet. A client that stops reading its response is disconnected. When many requests arrive at
once, `intake.py` starts a few at a time. Most requests arrive whole and are answered whole; they need no timer and no
second write. Created by `server.py`; the application decides what a request means.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from email.utils import formatdate
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

import httptools

from wicket_mcp.framing import read_by_pipefuls
from wicket_mcp.surface.connections import Connections
from wicket_mcp.surface.http import CLOSE, CONNECTION, STATUS_LINES, App, Scope, Turn, is_whole, unavailable
from wicket_mcp.surface.intake import Intake
from wicket_mcp.surface.outbox import StallWatch

log = logging.getLogger(__name__)

HEAD_DEADLINE = 10.0
BODY_DEADLINE = 30.0
KEEP_ALIVE = 75.0
MAX_HEAD = 64 * 1024
MAX_HEADERS = 100
MAX_URL = 16 * 1024

_TOO_MANY = b"Too many connections are open. Try again later."
_TOO_MUCH = b"The gateway is overloaded. Try again after Retry-After seconds."


class Served:
    """What all connections of a server share."""

    def __init__(self, app: App, connections: Connections, last_call: float, intake: Intake) -> None:
        self.app = app
        self.connections = connections
        self.last_call = last_call
        """Seconds for which idle connections stay open at shutdown while another process keeps listening: a request
        that is already on its way is answered, as the last one of its connection."""
        self.open: set[HttpConnection] = set()
        self.turns: set[Turn] = set()
        self.intake = intake
        intake.follow(self.turns)
        self.leaving = False
        """Whether we are shutting down: a connection accepted just before answers one request, like the others."""
        self.idle = asyncio.Event()
        """Set during shutdown when the last connection has closed and the last request has ended."""
        self._second = 0
        self._date = b""

    def date_line(self) -> bytes:
        second = int(time.time())
        if second != self._second:
            self._second = second
            self._date = b"date: " + formatdate(second, usegmt=True).encode() + b"\r\n"
        return self._date

    def look(self) -> None:
        if not self.open and not self.turns:
            self.idle.set()


class _HeadRejected(Exception):
    """Raised while a head is parsed, to stop reading it."""


class HttpConnection(asyncio.Protocol):
    """See the module's docstring."""

    __slots__ = (
        "_address",
        "_awaited",
        "_between",
        "_body_came",
        "_client",
        "_deadline",
        "_expects_continue",
        "_finished",
        "_head_size",
        "_header_count",
        "_headers",
        "_idle_since",
        "_idle_timer",
        "_in_head",
        "_loop",
        "_parser",
        "_parsing",
        "_piece",
        "_queue",
        "_reading_paused",
        "_rejection",
        "_running",
        "_stall",
        "_turned",
        "_unbegun",
        "_url",
        "leaving",
        "lost",
        "on_lost",
        "room",
        "served",
        "transport",
    )

    transport: asyncio.Transport

    def __init__(self, served: Served) -> None:
        self.served = served
        self.lost = False
        self.on_lost: Callable[[], None] | None = None
        """Called once when the client disconnects. Set by the running request, so that it does not have to poll."""
        self.leaving = False
        self.room: asyncio.Event | None = None
        """Set when the transport's buffer has room again; None while it has room."""
        self._loop = asyncio.get_running_loop()
        self._parser: Any = httptools.HttpRequestParser(self)
        # If a client pipelines requests, the first is answered even if it asked to close the connection.
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._address: str | None = None
        """The client's address, while it counts among the connections."""
        self._client: tuple[str, int] | None = None
        self._stall: StallWatch | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._awaited: float | None = None
        self._turned = False
        self._idle_since: float | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._in_head = True
        self._between = True
        self._body_came = False
        """Whether the data that is being parsed contains some of a body."""
        self._unbegun = 0
        """Pieces of data that wait for their request to start."""
        self._finished = False
        """Whether the client has closed its sending side."""
        self._head_size = 0
        self._piece = 0
        self._rejection = (400, "Invalid HTTP request received.")
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._header_count = 0
        self._expects_continue = False
        self._reading_paused = False
        self._parsing: Turn | None = None
        self._running: Turn | None = None
        self._queue: list[Turn] = []

    # The transport

    def connection_made(self, transport: Any) -> None:
        peer: Any = transport.get_extra_info("peername")
        address = str(peer[0]) if peer else ""
        self.transport = transport
        if not self.served.connections.enter(address):
            transport.write(unavailable(_TOO_MANY, 5))
            transport.close()
            return
        read_by_pipefuls(transport)
        self._address = address
        self._client = (address, int(peer[1])) if peer else None
        self.served.open.add(self)
        self._stall = StallWatch(transport)
        self._expect(HEAD_DEADLINE)
        self.leaving = self.served.leaving  # closes after its first request, or at the deadline for its head

    def connection_lost(self, exc: Exception | None) -> None:
        if self._address is None:
            return
        self.served.connections.leave(self._address)
        self.served.open.discard(self)
        self._address = None
        self._parser = self._parsing = None  # break the reference cycles: both hold us
        self._expect(None)
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        self.resume_writing()
        if self._running is not None:
            self._running.disconnect()
        self._queue.clear()  # the client is gone, and none of these has started
        self.lost = True
        if self.on_lost is not None:
            self.on_lost()
        if self.leaving:
            self.served.look()

    def eof_received(self) -> bool:
        """The client has closed its sending side: whether it may still wait for its answer."""
        self._finished = True
        return bool(self._unbegun) or self._answers_last()

    def _answers_last(self) -> bool:
        """Whether the running request is answered to a client that sends nothing more."""
        turn = self._running
        if turn is None or not turn.survives_eof:
            return False
        turn.keep_alive = False
        return True

    def data_received(self, data: bytes) -> None:
        if self._address is None or self.transport.is_closing():
            return
        served = self.served
        if self._unbegun or (self._between and len(served.turns) >= served.intake.crowd):
            self._unbegun += 1
            if not served.intake.admit(self, data):
                self._idle_since = None if self._unbegun else self._idle_since
                self._expect(None)  # how long it waits is up to us now
                if (
                    self._unbegun > 1
                ):  # clients rarely send much before their turn, and pausing costs more than one piece
                    self.transport.pause_reading()
                return
            self._unbegun -= 1
        self._take(data)

    def begin(self, data: bytes) -> None:
        """Start the request that waited for its turn."""
        self._unbegun -= 1
        if self._address is not None and not self.transport.is_closing():
            if self._unbegun == 1 and not self._reading_paused:
                self.transport.resume_reading()
            self._take(data)
            if self._finished and not self._unbegun and not self._answers_last():
                self.transport.close()

    def turn_away(self, data: bytes, seconds: int) -> None:
        """Tell the client of an unread request to come back later. If that is all that it sent, its connection stays
        open: accepting it again would cost as much as a call.
        """
        self._unbegun -= 1
        keep_alive = not self._unbegun and not self.leaving and is_whole(data)
        self.transport.write(unavailable(_TOO_MUCH, seconds, keep_alive=keep_alive))
        if keep_alive:
            self._await_next()
        else:
            self.transport.close()

    def _take(self, data: bytes) -> None:
        self._piece = len(data)
        self._idle_since = None
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:  # the handler of the other protocol takes over: what follows is not HTTP
            self._parser = _Deaf()
        except httptools.HttpParserError:
            self._reject()
        if self._turned:  # most requests arrive whole, and then need no timer at all
            self._turned = False
            self._expect(self._awaited)
        if self._in_head:
            self._bound_head()
        else:
            self._bound_extras()

    def pause_writing(self) -> None:
        if self.room is None:
            self.room = asyncio.Event()
        if self._stall is not None:
            self._stall.pause()

    def resume_writing(self) -> None:
        if self.room is not None:
            self.room.set()
            self.room = None
        if self._stall is not None:
            self._stall.resume()

    async def drain(self) -> None:
        if self.room is not None:
            await self.room.wait()

    def resume_reading(self) -> None:
        if self._reading_paused and not self._queue:
            self._reading_paused = False
            if self._unbegun < 2:
                self.transport.resume_reading()

    def _pause_reading(self) -> None:
        if not self._reading_paused:
            self._reading_paused = True
            self.transport.pause_reading()

    # The parser

    def on_message_begin(self) -> None:
        self._awaited, self._turned = HEAD_DEADLINE, True
        self._in_head, self._between, self._head_size = True, False, 0
        self._url = b""
        self._headers = []
        self._header_count = 0
        self._expects_continue = False

    def on_url(self, url: bytes) -> None:
        if len(self._url) + len(url) > MAX_URL:
            self._rejection = (414, f"An address may have {MAX_URL} bytes at most.")
            raise _HeadRejected
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_count += 1
        if self._header_count > MAX_HEADERS:
            self._rejection = (431, f"A request may have {MAX_HEADERS} headers at most.")
            raise _HeadRejected
        if not self._in_head:  # data after a body must not pass for a request that a proxy in front of us has checked
            return
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self._expects_continue = True
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._awaited, self._turned = BODY_DEADLINE, True
        self._in_head = False
        # Only more data than the limit can contain a head over the limit.
        if (
            self._head_size + self._piece > MAX_HEAD
            and sum(len(name) + len(value) for name, value in self._headers) > MAX_HEAD
        ):
            self._rejection = (431, f"A request's head may have {MAX_HEAD} bytes at most.")
            raise _HeadRejected
        self._head_size = 0
        parser = self._parser
        version: str = parser.get_http_version()
        path, raw_path, query, authority = _split(self._url)
        if authority and [authority.lower()] != [value.lower() for name, value in self._headers if name == b"host"]:
            self._rejection = (421, "This request names two hosts.")
            raise _HeadRejected
        scope: Scope = {
            "type": "http",
            "http_version": version,
            "method": parser.get_method().decode("ascii"),
            "scheme": "http",
            "path": path,
            "raw_path": raw_path,
            "query_string": query,
            "headers": self._headers,
            "client": self._client,
            CONNECTION: self,
        }
        keep_alive = (
            parser.should_keep_alive() and version != "1.0" and not self.leaving and not parser.should_upgrade()
        )
        turn = self._parsing = Turn(self, scope, keep_alive=keep_alive, expects_continue=self._expects_continue)
        if self._running is None:
            self._start(turn)
        else:  # pipelined
            self._pause_reading()
            self._queue.append(turn)

    def on_body(self, body: bytes) -> None:
        self._body_came = True
        turn = self._parsing
        if turn is not None and not turn.complete and turn.take(body):
            self._pause_reading()

    def on_message_complete(self) -> None:
        self._awaited, self._turned = None, True
        self._in_head = self._between = True
        if self._parsing is not None:
            self._parsing.take_end()

    # Requests

    def date_line(self) -> bytes:
        return self.served.date_line()

    def _start(self, turn: Turn) -> None:
        self._running = turn
        self.served.turns.add(turn)
        turn.start(self.served.app, self._loop)

    def finish(self, turn: Turn) -> None:
        """The response to `turn` is written."""
        self._running = None
        if not turn.keep_alive:
            self.transport.close()
        if self.transport.is_closing():
            return
        self.resume_reading()
        if self._queue:
            self._start(self._queue.pop(0))
            return
        self._await_next()

    def _await_next(self) -> None:
        self._idle_since = self._loop.time()
        if self._idle_timer is None:
            self._idle_timer = self._loop.call_later(KEEP_ALIVE, self._look_idle)

    def forget(self, turn: Turn) -> None:
        """No code for `turn` runs any more."""
        self.served.turns.discard(turn)
        if self.served.intake.paused:
            self.served.intake.resume()
        if self.leaving:
            self.served.look()

    def leave(self) -> None:
        """Close as soon as nothing is in flight."""
        self.leaving = True
        for turn in (self._running, *self._queue):
            if turn is not None:
                turn.keep_alive = False
        if self._running is None:
            self._loop.call_later(self.served.last_call, self._close_unless_busy)

    def switch(self, successor: asyncio.Protocol, words: bytes) -> asyncio.Transport:
        """See `surface/http.py`. For the HTTP side, the client has disconnected."""
        self.transport.write(words)
        self.transport.set_protocol(successor)
        self.connection_lost(None)
        return self.transport

    def _close_unless_busy(self) -> None:
        if self._running is None and self._between and not self._unbegun:  # a request that is arriving is answered
            self.transport.close()

    # Bounds

    def _bound_head(self) -> None:
        """Called after data that did not complete a head: limit its size and set its deadline."""
        if self._between:  # for example empty lines: they end the idle wait, so a new wait begins
            if self._running is None and self._deadline is None:
                self._expect(HEAD_DEADLINE)
            return
        self._head_size += self._piece
        if self._head_size > MAX_HEAD and not self.transport.is_closing():
            self._rejection = (431, f"A request's head may have {MAX_HEAD} bytes at most.")
            self._reject()

    def _bound_extras(self) -> None:
        """Called after data that did not complete a body: limit what is no part of it, such as headers behind it."""
        self._head_size = 0 if self._body_came else self._head_size + self._piece
        self._body_came = False
        if self._head_size > MAX_HEAD and not self.transport.is_closing():
            self._rejection = (431, f"The headers after a body may have {MAX_HEAD} bytes at most.")
            self._reject()

    def _reject(self) -> None:
        status, reason = self._rejection
        body = reason.encode()
        head = CLOSE + b"content-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n\r\n" % len(body)
        self.transport.write(STATUS_LINES[status] + head + body)
        self.transport.close()

    def _expect(self, seconds: float | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if seconds is not None:
            self._deadline = self._loop.call_later(seconds, self._too_slow)

    def _too_slow(self) -> None:
        if not self.transport.is_closing():
            self.transport.abort()

    def _look_idle(self) -> None:
        """One timer serves many pauses between requests: a timer per pause would cost each request two timer
        operations.
        """
        self._idle_timer = None
        if self._idle_since is None:
            return
        left = self._idle_since + KEEP_ALIVE - self._loop.time()
        if left > 0:
            self._idle_timer = self._loop.call_later(left, self._look_idle)
        elif self.transport.get_write_buffer_size():  # close() would wait for a client that has not read for a minute
            self.transport.abort()
        else:
            self.transport.close()


class _Deaf:
    """Replaces the parser when no more data of a connection should be read."""

    def feed_data(self, data: bytes) -> None:
        pass


@lru_cache(64)
def _split(url: bytes) -> tuple[str, bytes, bytes, bytes]:
    """A request's path, decoded and as sent, its query, and a host if it names one. Raises HttpParserError."""
    if url.startswith(b"/") and not url.startswith(b"//") and not any(byte in url for byte in (b"?", b"#", b"%")):
        return url.decode("ascii"), url, b"", b""
    parsed: Any = httptools.parse_url(url)
    raw_path: bytes = parsed.path
    path = raw_path.decode("ascii")
    authority = url.split(b"/", 3)[2] if parsed.schema else b""
    return unquote(path) if "%" in path else path, raw_path, parsed.query or b"", authority
