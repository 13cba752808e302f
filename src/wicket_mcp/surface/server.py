"""The HTTP server: listening, accepting, and a shutdown that lets running requests finish.

`http_connection.py` decides what a connection may send and how long it may take. `app.py` handles signals and tells us
to stop.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from wicket_mcp.errors import ConfigError
from wicket_mcp.surface.connections import Connections
from wicket_mcp.surface.http import App
from wicket_mcp.surface.http_connection import HttpConnection, Served
from wicket_mcp.surface.intake import Intake

log = logging.getLogger(__name__)

DRAIN = 30
LAST_CALL = 3.0
BACKLOG = 2048
FIRST_INHERITED = 3
SAY_EVERY = 10.0  # seconds between two log lines of the same kind
TURNS_TO_CONNECT = 3  # of the event loop, between accepting a connection and serving it
ACCEPTS = 64
"""Connections accepted in one turn of the loop, and how often a turn fails when no descriptor is left. It is one when
several processes accept on the same socket: an idle process then gets the next connection sooner than a busy one, and
many connections of one client are spread over the processes."""


class _AcceptProblems:
    """Logs occasionally that no descriptor is left; asyncio would log every attempt, with a traceback."""

    def __init__(self) -> None:
        self._said_at = float("-inf")

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if "accept() out of system resource" not in context["message"]:
            loop.default_exception_handler(context)
        elif loop.time() - self._said_at > SAY_EVERY:
            self._said_at = loop.time()
            log.warning("no descriptor is left for new connections; they wait until there is: %s", context["exception"])


class Server:
    """Accepts connections on existing sockets until it is told to stop; then lets running requests finish."""

    def __init__(
        self,
        app: App,
        connections: Connections | None = None,
        *,
        last_call: float = 0.0,
        shared: bool = False,
        intake: Intake | None = None,
        drain: float = DRAIN,
    ) -> None:
        """`shared` means that other processes accept connections on the same sockets. `drain` is how long running
        requests may take to end at shutdown, in seconds.
        """
        self._drain_time = drain
        self._accepts = 1 if shared else ACCEPTS
        self._served = Served(app, Connections() if connections is None else connections, last_call, intake or Intake())
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        self._stopping.set()

    async def serve(self, sockets: Sequence[socket.socket], reachable: Sequence[socket.socket] = ()) -> None:
        """Connections at `reachable` are accepted also while the last requests end: those may need another gateway that
        needs us. A gateway that does not know yet that we stop may connect until the very end, so what it asked for
        then is answered too.
        """
        loop = asyncio.get_running_loop()
        if loop.get_exception_handler() is None:
            loop.set_exception_handler(_AcceptProblems())
        async with AsyncExitStack() as last:
            for sock in reachable:
                last.push_async_callback(self._end_reachable, await self._accept(sock), sock)
            async with AsyncExitStack() as first:
                for sock in sockets:
                    first.push_async_callback(_end, await self._accept(sock), sock)
                await self._stopping.wait()
            until = loop.time() + self._drain_time
            await self._drain(until)
        await self._drain(until)

    async def _accept(self, sock: socket.socket) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: HttpConnection(self._served), sock=sock, backlog=self._accepts)
        sock.listen(BACKLOG)  # asyncio accepts as many at once as its backlog
        return server

    async def _end_reachable(self, server: asyncio.Server, sock: socket.socket) -> None:
        """Accept no more than those who have connected already: closing the socket would cut them off."""
        if sock.family == socket.AF_UNIX:
            await asyncio.to_thread(os.unlink, sock.getsockname())  # from now on nobody can connect
        loop = asyncio.get_running_loop()
        for _ in range(BACKLOG):
            try:
                connected, _ = sock.accept()
            except OSError:  # nobody is left
                break
            connected.setblocking(False)
            await loop.connect_accepted_socket(lambda: HttpConnection(self._served), connected)
        await _end(server, sock)

    async def _drain(self, until: float) -> None:
        served = self._served
        served.leaving = True
        for connection in tuple(served.open):
            if not connection.leaving:
                connection.leave()
        served.idle.clear()
        served.look()
        try:
            async with asyncio.timeout_at(until):
                await served.idle.wait()
        except TimeoutError:
            log.error("%d requests did not end within %g s and are cancelled", len(served.turns), self._drain_time)
            for turn in tuple(served.turns):
                turn.cancel()


async def _end(server: asyncio.Server, sock: socket.socket) -> None:
    """Accept no more, and let what was accepted become a connection: asyncio drops it if its server is closed first."""
    loop = asyncio.get_running_loop()
    for accepting in server.sockets:
        loop.remove_reader(accepting.fileno())
    for _ in range(TURNS_TO_CONNECT):
        await asyncio.sleep(0)
    server.close()
    sock.close()


def listen(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """A listening socket; `shared` with other processes of our user. Raises ConfigError if the address is taken or not
    available.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol must be named: asyncio turns Nagle's algorithm off only for sockets that say they are TCP, and with
    # it on, the head of an answer waits 40 ms for the client's delayed acknowledgement before its body follows.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        sock.bind((host, port))
        sock.listen(BACKLOG)  # from here on clients may connect; they wait until we serve
    except OSError as problem:
        sock.close()
        raise ConfigError(
            f"cannot listen on {host}:{port}: {problem.strerror}",
            key="http.port",
            hint="Choose another with --http HOST:PORT, or stop what uses it.",
        ) from None
    return sock


def inherit_listener() -> socket.socket | None:
    """The socket that systemd passed to us (`sd_listen_fds(3)`); None if it did not."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()) or os.environ.get("LISTEN_FDS", "0") == "0":
        return None
    for name in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"):
        os.environ.pop(name, None)
    os.set_inheritable(FIRST_INHERITED, False)
    return socket.socket(fileno=FIRST_INHERITED)


def listen_beside(folder: Path, name: str) -> socket.socket:
    """A listening socket for the other workers of this machine, in a folder that only their user can open."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.bind(str(folder / f"{name}.socket"))
    sock.listen(BACKLOG)
    return sock


def address_of(sock: socket.socket) -> str:
    """The URL of a listening socket; `unix:` and its path for a Unix socket."""
    if sock.family == socket.AF_UNIX:
        return f"unix:{sock.getsockname()}"
    host, port = sock.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
