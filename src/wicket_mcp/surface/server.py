"""The HTTP server: uvicorn, with the three deadlines it lacks.

uvicorn waits without limit for a request that arrives a byte at a time; two hundred such connections stay open for as
long as their sender likes. Here a request's head and its body must each be complete within a time that no honest client
needs, and a client that stops reading its answer is cut. Signals are not uvicorn's business: `app.py` tells us to stop.
"""

import asyncio
import contextlib
import socket
from collections.abc import Generator
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from wicket_mcp.errors import ConfigError
from wicket_mcp.surface.outbox import StallWatch

HEAD_DEADLINE = 10.0
BODY_DEADLINE = 30.0
DRAIN = 30
BACKLOG = 2048


class DeadlineProtocol(HttpToolsProtocol):
    """Closes a connection whose request does not arrive, or whose answer is not taken, in time."""

    _deadline: asyncio.TimerHandle | None = None
    _awaited: float | None = None
    _stall: StallWatch | None = None
    _turned = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(cast("asyncio.Transport", Joined(transport, self.loop)))
        self._stall = StallWatch(transport)
        self._expect(HEAD_DEADLINE)

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect(None)
        if self._stall is not None:
            self._stall.resume()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._turned:  # most requests arrive whole, and then need no timer at all
            self._turned = False
            self._expect(self._awaited)

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
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._awaited, self._turned = BODY_DEADLINE, True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._awaited, self._turned = None, True
        super().on_message_complete()

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


class Server(uvicorn.Server):
    """A uvicorn server that leaves signals alone and listens on a socket made beforehand."""

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


def make_server(app: Any) -> Server:
    config = uvicorn.Config(
        app,
        http=DeadlineProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=DRAIN,
        h11_max_incomplete_event_size=65536,
    )
    return Server(config)
