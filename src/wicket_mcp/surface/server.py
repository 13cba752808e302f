"""The HTTP server: uvicorn, with the bounds and deadlines it lacks.

uvicorn takes a request head of any size, waits without limit for one that arrives a byte at a time, and keeps every
connection. Here a head is bounded in bytes and headers before anybody knows who sends it, a head and a body must each
be complete within a time that no honest client needs, a client that stops reading its answer is cut, and connections
are bounded in all and for each address. Signals are not uvicorn's business: `app.py` tells us to stop.
"""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Callable, Generator
from typing import Any, cast

import uvicorn
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from wicket_mcp.errors import ConfigError
from wicket_mcp.surface.connections import Connections
from wicket_mcp.surface.http import CONNECTION
from wicket_mcp.surface.outbox import StallWatch

log = logging.getLogger(__name__)

HEAD_DEADLINE = 10.0
BODY_DEADLINE = 30.0
MAX_HEAD = 64 * 1024
MAX_HEADERS = 100
MAX_URL = 16 * 1024
DRAIN = 30
LAST_CALL = 3.0
BACKLOG = 2048
FIRST_INHERITED = 3
SAY_EVERY = 10.0  # seconds between two complaints of the same kind
ACCEPTS = 64
"""Connections accepted in one turn of the loop. Also how often a turn tries in vain when no descriptor is left."""

_BUSY_BODY = b'{"error":"Too many connections are open. Try again later."}'
_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\nconnection: close\r\n"
    b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
) % (len(_BUSY_BODY), _BUSY_BODY)


class _HeadRejected(Exception):
    """Raised while a head is parsed: nothing more of it is read."""


class Settings(Config):
    """uvicorn's, and who counts the connections."""

    connections: Connections
    last_call = 0.0
    """Seconds for which idle connections stay open when we leave and somebody else goes on listening: a request that is
    on its way is answered, as the last one of its connection."""


class DeadlineProtocol(HttpToolsProtocol):
    """Closes a connection whose request does not arrive, or whose answer is not taken, in time; bounds the head."""

    _deadline: asyncio.TimerHandle | None = None
    _awaited: float | None = None
    _stall: StallWatch | None = None
    _turned = False
    _in_head = True
    _between = True
    _leaving = False
    _head_size = 0
    _piece = 0
    _rejection = (400, "Invalid HTTP request received.")
    lost = False
    on_lost: Callable[[], None] | None = None
    """Called once when the client leaves: set by the request that is at work, which would have to keep asking."""
    _address: str | None = None
    """Where it comes from, while it counts among the connections."""

    def connection_made(self, transport: Any) -> None:
        peer: Any = transport.get_extra_info("peername")
        address = str(peer[0]) if peer else ""
        if not self._connections.enter(address):
            transport.write(_BUSY)
            transport.close()
            return
        self._address = address
        super().connection_made(cast("asyncio.Transport", Joined(transport, self.loop)))
        self._stall = StallWatch(transport)
        self._expect(HEAD_DEADLINE)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._address is None:
            return
        self._connections.leave(self._address)
        self._address = None
        self._expect(None)
        if self._stall is not None:
            self._stall.resume()
        super().connection_lost(exc)
        self.lost = True
        if self.on_lost is not None:
            self.on_lost()
        self._unset_keepalive_if_required()  # uvicorn keeps the timer, and with it all buffers, after a reset

    def data_received(self, data: bytes) -> None:
        if self._address is None:
            return
        self._piece = len(data)
        super().data_received(data)
        if self._turned:  # most requests arrive whole, and then need no timer at all
            self._turned = False
            self._expect(self._awaited)
        if self._in_head:
            self._bound_head()

    def _bound_head(self) -> None:
        """After data that did not complete a head: how much of it there is, and until when it must be complete."""
        if self._between:  # empty lines, say: they end uvicorn's wait for the next request, so ours begins
            cycle = cast("RequestResponseCycle | None", self.cycle)  # None before the first request
            idle = cycle is None or cycle.response_complete
            if idle and self._deadline is None and self.timeout_keep_alive_task is None:
                self._expect(HEAD_DEADLINE)
            return
        self._head_size += self._piece
        if self._head_size > MAX_HEAD and not self.transport.is_closing():
            self._rejection = (431, f"A request's head may have {MAX_HEAD} bytes at most.")
            self.send_400_response("")

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._stall is not None:
            self._stall.pause()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stall is not None:
            self._stall.resume()

    def on_message_begin(self) -> None:
        self._awaited, self._turned = HEAD_DEADLINE, True
        self._in_head, self._between, self._head_size = True, False, 0
        super().on_message_begin()
        cast("dict[str, Any]", self.scope)[CONNECTION] = self

    def on_url(self, url: bytes) -> None:
        if len(self.url) + len(url) > MAX_URL:
            self._rejection = (414, f"An address may have {MAX_URL} bytes at most.")
            raise _HeadRejected
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.headers) >= MAX_HEADERS:  # trailers count too
            self._rejection = (431, f"A request may have {MAX_HEADERS} headers at most.")
            raise _HeadRejected
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._awaited, self._turned = BODY_DEADLINE, True
        self._in_head = False
        # Only a piece of data that is larger can hold a whole head that is.
        if self._piece > MAX_HEAD and sum(len(name) + len(value) for name, value in self.headers) > MAX_HEAD:
            self._rejection = (431, f"A request's head may have {MAX_HEAD} bytes at most.")
            raise _HeadRejected
        super().on_headers_complete()
        if self._leaving:
            self.cycle.keep_alive = False

    def shutdown(self) -> None:
        self._leaving = True
        wait = cast("Settings", self.config).last_call
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if wait and (cycle is None or cycle.response_complete):
            self.loop.call_later(wait, super().shutdown)
        else:
            super().shutdown()

    def on_message_complete(self) -> None:
        self._awaited, self._turned = None, True
        self._in_head = self._between = True
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """What uvicorn answers to a request that it cannot read; with our status where it was one of our bounds."""
        status, reason = self._rejection
        body = reason.encode()
        head = b"connection: close\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n\r\n" % len(body)
        self.transport.write(STATUS_LINE[status] + head + body)
        self.transport.close()

    def timeout_keep_alive_handler(self) -> None:
        if self.transport.get_write_buffer_size():  # to close would wait for a client that has not read for a minute
            self.transport.abort()
        super().timeout_keep_alive_handler()

    @property
    def _connections(self) -> Connections:
        return cast("Settings", self.config).connections

    def _expect(self, seconds: float | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if seconds is not None:
            self._deadline = self.loop.call_later(seconds, self._too_slow)

    def _too_slow(self) -> None:
        transport: Any = self.transport
        if transport is not None and not transport.is_closing():
            transport.abort()


class Joined:
    """A transport that sends the head of an answer together with what follows it: one packet, one system call."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if self._held:
            held, self._held = self._held, b""
            self._transport.write(held + data)
        elif data.startswith(b"HTTP/1.1 "):
            self._held = data
            self._loop.call_soon(self._flush)
        else:
            self._transport.write(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._held:
            self.write(b"")


class _AcceptProblems:
    """Logs once in a while that no descriptor is left, which asyncio says for every attempt, with a traceback."""

    def __init__(self) -> None:
        self._said_at = float("-inf")

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if "accept() out of system resource" not in context["message"]:
            loop.default_exception_handler(context)
        elif loop.time() - self._said_at > SAY_EVERY:
            self._said_at = loop.time()
            log.warning("no descriptor is left for new connections; they wait until there is: %s", context["exception"])


class Server(uvicorn.Server):
    """A uvicorn server that leaves signals alone and listens on a socket made beforehand."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        loop = asyncio.get_running_loop()
        if loop.get_exception_handler() is None:
            loop.set_exception_handler(_AcceptProblems())
        for sock in sockets or ():  # asyncio accepts as many at once as it asks the kernel to queue
            sock.listen(BACKLOG)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises ConfigError when the address is taken or not ours."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol must be named: asyncio turns Nagle's algorithm off only for sockets that say they are TCP, and with
    # it on, the head of an answer waits 40 ms for the client's delayed acknowledgement before its body follows.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(BACKLOG)  # from here on a client may connect, and waits until we serve
    except OSError as problem:
        sock.close()
        raise ConfigError(
            f"cannot listen on {host}:{port}: {problem.strerror}",
            key="http.port",
            hint="Choose another with --http HOST:PORT, or stop what uses it.",
        ) from None
    return sock


def inherit_listener() -> socket.socket | None:
    """The socket that systemd has listened on for us (`sd_listen_fds(3)`); None where it has not."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()) or os.environ.get("LISTEN_FDS", "0") == "0":
        return None
    for name in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"):
        os.environ.pop(name, None)
    os.set_inheritable(FIRST_INHERITED, False)
    return socket.socket(fileno=FIRST_INHERITED)


def address_of(sock: socket.socket) -> str:
    """The web address of a listening socket."""
    host, port = sock.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def make_server(app: Any, connections: Connections | None = None, *, last_call: float = 0.0) -> Server:
    settings = Settings(
        app,
        http=DeadlineProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",  # what strangers send that is not HTTP is not worth a line each
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=DRAIN,
        backlog=ACCEPTS,
    )
    settings.last_call = last_call
    settings.connections = Connections() if connections is None else connections
    return Server(settings)
