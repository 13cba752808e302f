"""The HTTP server: listening, accepting, and an end that lets requests under way finish.

What a connection may send and how long it may take is decided in `http_connection.py`. Signals are not our business:
`app.py` tells us to stop.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Sequence
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
SAY_EVERY = 10.0  # seconds between two complaints of the same kind
ACCEPTS = 64
"""Connections accepted in one turn of the loop. Also how often a turn fails when no descriptor is left. Where
several processes accept at one socket it is one: whoever is idle has the next turn sooner than who is at work, and a
client that opens many connections at once does not have all of them at the same process."""


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


class Server:
    """Accepts connections on sockets made beforehand, until it is told to stop; then lets requests under way end."""

    def __init__(
        self,
        app: App,
        connections: Connections | None = None,
        *,
        last_call: float = 0.0,
        shared: bool = False,
        intake: Intake | None = None,
    ) -> None:
        """`shared` says that other processes accept connections at the same sockets."""
        self._accepts = 1 if shared else ACCEPTS
        self._served = Served(app, Connections() if connections is None else connections, last_call, intake or Intake())
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        self._stopping.set()

    async def serve(self, sockets: Sequence[socket.socket]) -> None:
        loop = asyncio.get_running_loop()
        if loop.get_exception_handler() is None:
            loop.set_exception_handler(_AcceptProblems())
        servers: list[asyncio.Server] = []
        try:
            for sock in sockets:
                servers.append(
                    await loop.create_server(lambda: HttpConnection(self._served), sock=sock, backlog=self._accepts)
                )
                sock.listen(BACKLOG)  # asyncio accepts as many at once as it asks the kernel to queue
            await self._stopping.wait()
        finally:
            for server in servers:
                server.close()
            for sock in sockets:
                sock.close()
        await self._drain()

    async def _drain(self) -> None:
        served = self._served
        for connection in tuple(served.open):
            connection.leave()
        served.look()
        try:
            async with asyncio.timeout(DRAIN):
                await served.idle.wait()
        except TimeoutError:
            log.error("%d requests did not end within %d seconds and are cancelled", len(served.turns), DRAIN)
            for turn in tuple(served.turns):
                turn.cancel()


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


def listen_beside(folder: Path, name: str) -> socket.socket:
    """A listening socket for the other workers of this machine, in a folder that is their user's alone."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.bind(str(folder / f"{name}.socket"))
    sock.listen(BACKLOG)
    return sock


def address_of(sock: socket.socket) -> str:
    """The web address of a listening socket; `unix:` and its path for one of this machine."""
    if sock.family == socket.AF_UNIX:
        return f"unix:{sock.getsockname()}"
    host, port = sock.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
