"""Accepts shims, serves each client over its connection, and ends after an idle time.

A connection begins with one line: from a shim, the settings of its client (keys, log level, profile, dialects); from
`wicket daemon`, its question. Lines that begin with `!` are for the shim, not for its client. A daemon that must be
replaced (the package was upgraded, its socket was deleted) releases its lock and socket at once, asks its clients to
move, and ends with the last of them; calls in flight are answered.
"""

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, cast

from msgspec import to_builtins

from wicket_mcp import __version__
from wicket_mcp.app import Gateway
from wicket_mcp.codec import encode
from wicket_mcp.config.model.config import Config
from wicket_mcp.errors import ConfigError, WicketError
from wicket_mcp.model import JsonObject
from wicket_mcp.rooms import profile_name
from wicket_mcp.shim.finding import CannotShare, check_peer
from wicket_mcp.shim.identity import SEPARATOR, installation
from wicket_mcp.surface.socket_client import SocketClient
from wicket_mcp.surface.stdio import DRAIN
from wicket_mcp.tasks import Tasks
from wicket_mcp.telemetry.log import LineHandler

if TYPE_CHECKING:
    from wicket_mcp.surface.under_way import ConnectedClient

log = logging.getLogger(__name__)

IDLE = 300.0
"""Seconds for which a daemon without clients waits for another."""
LOOK_EVERY = 1.0
HELLO_WITHIN = 10.0
LONGEST_HELLO = 64 * 1024
LONGEST_HELD = 600.0
"""Seconds for which an outdated daemon waits for clients with an open question before they must move."""
LARGEST_LOG, KEPT_LOG = 4 * 1024 * 1024, 256 * 1024


class Daemon:
    """See the module's docstring."""

    def __init__(
        self,
        gateway: Gateway,
        listener: socket.socket,
        lock: int,
        stop: asyncio.Event,
        installed: Callable[[], str] = installation,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`installed` names what is installed on disk, or raises OSError while that is being replaced."""
        self._installed = installed
        self._clock = clock
        self._gateway = gateway
        self._listener = listener
        self._path = Path(str(listener.getsockname()))
        self._inode = _inode(self._path)
        self._lock = lock
        self._stop = stop
        self._idle = float(os.environ.get("WICKET_DAEMON_IDLE") or IDLE)
        self._clients: set[SocketClient] = set()
        self._connections = 0
        self._dashboard = ""
        """Its address, once it is served."""
        self._unused_since = self._started = clock()
        self._installed_version: str | None = installed()
        self._changed: str | None = self._installed_version
        self._retired_at = 0.0
        self._server: asyncio.Server | None = None
        self._tasks = Tasks()
        gateway.on_reload.append(self._on_reloaded)

    def __repr__(self) -> str:
        return f"<Daemon {len(self._clients)} clients{', retired' if self._retired_at else ''}>"

    @property
    def log_file(self) -> Path:
        return self._path.with_suffix(".log")

    async def run(self) -> None:
        """Serve until we are told to stop, or the idle time is over."""
        self._server = await asyncio.get_running_loop().create_unix_server(self._greet, sock=self._listener)
        os.pwrite(self._lock, f"{os.getpid()}\n".encode(), 0)  # whom we do not answer now need not wait for our start
        log.info("daemon %d serves %s", os.getpid(), self._gateway.config.path)
        try:
            while not self._stop.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_EVERY):
                        await self._stop.wait()
                self.look()
        finally:
            self._retire("it stops")
            self._stop.set()
            await self._tasks.wait(DRAIN + 5)
            await self._tasks.close()
            log.info("daemon %d ends", os.getpid())

    # Connections

    def _greet(self) -> asyncio.Protocol:
        self._connections += 1
        return _Greeting(self._begin, self._on_left)

    def _on_left(self) -> None:
        """A connection ended without becoming a client."""
        self._connections -= 1

    def _begin(self, transport: asyncio.Transport, hello: str, early: bytes) -> None:
        kind, *fields = hello.split(SEPARATOR)
        if kind == "wicket-shim" and fields[:1] == ["1"] and len(fields) == 6:
            self._tasks.start(self._serve(transport, fields[1:], early), "client")
            return
        answer = self._answer(fields[1:]) if kind == "wicket-control" else None
        if answer is None:
            _refuse(transport, "another version of wicket is running here")
        else:
            transport.write(encode(answer) + b"\n")
            transport.close()
        self._on_left()

    def _answer(self, fields: list[str]) -> JsonObject | None:
        """The answer to a question of another process of this user; None if we do not know it."""
        match fields:
            case ["status"]:
                return self.status()
            case ["stop"]:
                self._stop.set()
                return self.status()
            case ["dashboard"]:
                return {"address": self._open_dashboard()}
            case ["about", question]:
                return self._look(question)
            case _:
                return None

    def _look(self, text: str) -> JsonObject:
        """What happens here, for the dashboard of another gateway with the same state; empty for any other."""
        from wicket_mcp.observing import look_here, stop_server  # noqa: PLC0415  (for those who open one)
        from wicket_mcp.surface.neighbours import read_question  # noqa: PLC0415

        question = read_question(text, self._gateway.config.state_path)
        if question is None:
            return {}
        if not question.stop:
            here = look_here(self._gateway, self._list_clients)
            return to_builtins(here.look(question.asker, question.server))
        if question.asker.may("admin"):
            self._tasks.start(stop_server(self._gateway, question.server), f"stop {question.server}")
        return {}

    def _open_dashboard(self) -> str:
        """The address of the dashboard, which is served once somebody asks for it, on this machine only."""
        if not self._dashboard:
            from wicket_mcp.serving import serve_dashboard  # noqa: PLC0415  (for those who open it)
            from wicket_mcp.surface.owner_token import load_token  # noqa: PLC0415
            from wicket_mcp.surface.server import address_of, listen  # noqa: PLC0415

            token, _ = load_token(self._gateway.config.state_path)
            listener = listen("127.0.0.1", 0)
            self._dashboard = address_of(listener)
            work = serve_dashboard(self._gateway, self._stop, token, listener, self._list_clients, self._path)
            self._tasks.start(work, "dashboard")
        return self._dashboard

    def _list_clients(self) -> "list[ConnectedClient]":
        return [client.describe() for client in self._clients]

    async def _serve(self, transport: asyncio.Transport, fields: list[str], early: bytes) -> None:
        """Serve one client from its first message to its last."""
        api_key, lookup_key, level, profile, dialects = fields
        environ = {"WICKET_API_KEY": api_key, "MCPLOOKUP_API_KEY": lookup_key}
        client: SocketClient | None = None
        try:
            names = self._names(profile, dialects)
            protocol, principal = await self._gateway.admit_client(environ, *names)
            client = SocketClient(protocol, principal, self._gateway.outbox_counters, self._gateway.pool.settle_roots)
            client.attach(transport)
            self._clients.add(client)
            client.order("ready", f"served by daemon {os.getpid()}; its log is {self.log_file}")
            if untrusted := self._gateway.config.untrusted:
                client.order("log", f"wicket: {untrusted}")
            with _logging_to(client, level):
                if early:
                    client.data_received(early)
                transport.resume_reading()
                await _first(client.finished, self._stop)
                protocol.closing.set()
                await client.drain(DRAIN, self._stop)
        except WicketError as problem:
            _refuse(transport, str(problem))
        finally:
            self._connections -= 1
            if client is not None:
                self._clients.discard(client)
                self._unused_since = self._clock()
                await client.close()
                await self._gateway.pool.close_session(client.session)

    def _names(self, profile: str, dialects: str) -> tuple[str, ...]:
        """The dialect names for a client that asks for this profile or these dialects. Raises ConfigError."""
        if not profile:
            return tuple(name for name in dialects.split(",") if name)
        if profile not in {entry.name for entry in self._gateway.config.profiles}:
            raise ConfigError(f"there is no profile '{profile}'")
        return (profile_name(profile),)

    # Periodic checks

    def look(self) -> None:
        """Look for what changed around us: the installation, our socket, how long nobody has used us."""
        now = self._clock()
        if self._connections:
            self._unused_since = now
        version = self._read_installation()
        if version is not None and version != self._installed_version and version == self._changed:
            self._retire("another version is installed")
        self._changed = version
        if _inode(self._path) != self._inode and not self._retired_at:
            self._retire("its socket is gone")
        if self._retired_at:
            held = len(self._gateway.held) or self._gateway.local_tasks.under_way
            if not held or now - self._retired_at > LONGEST_HELD:
                for client in self._clients:
                    client.order("move")
        if not self._connections and (self._retired_at or now - self._unused_since >= self._idle):
            self._retire("it is idle")
            if not self._connections:  # no client came meanwhile
                self._stop.set()
        _shorten(self.log_file)

    def _read_installation(self) -> str | None:
        """The installation on disk; None while it is being replaced."""
        try:
            return self._installed()
        except OSError:
            return None

    def _retire(self, why: str) -> None:
        """Release our lock and socket: new shims find or start another daemon. Clients stay until they move."""
        if self._retired_at:
            return
        self._retired_at = self._clock()
        log.info("daemon %d takes no new clients: %s", os.getpid(), why)
        if _inode(self._path) == self._inode:
            self._path.unlink(missing_ok=True)
        os.close(self._lock)
        if self._server is not None:
            with contextlib.suppress(BlockingIOError, OSError):
                while True:  # shims that have connected but are not accepted yet
                    accepted, _ = self._listener.accept()
                    accepted.setblocking(False)
                    greeting = self._greet()  # now: as long as it is not counted, we may end
                    work = asyncio.get_running_loop().connect_accepted_socket(lambda held=greeting: held, accepted)
                    self._tasks.start(work, "accept")
            self._server.close()

    def _on_reloaded(self, config: Config) -> None:
        """The configuration may name other variables now: every shim checks whether this is still its daemon."""
        level_logs(config.log_level)
        for client in self._clients:
            client.order("check")

    def status(self) -> JsonObject:
        """What `wicket daemon status` shows."""
        pool = self._gateway.pool
        return {
            "pid": os.getpid(),
            "version": __version__,
            "config": str(self._gateway.config.path),
            "folder": str(Path.cwd()),
            "seconds": round(self._clock() - self._started),
            "clients": len(self._clients),
            "calls": pool.calls,
            "servers": {load.server: str(load.state) for load in pool.loads()},
            "log": str(self.log_file),
            "retired": bool(self._retired_at),
        }


class _Greeting(asyncio.Protocol):
    """A connection before its first line has arrived."""

    def __init__(self, begin: "Callable[[asyncio.Transport, str, bytes], None]", left: Callable[[], None]) -> None:
        self._begin = begin
        self._leave = left
        self._data = b""
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        try:
            check_peer(self._transport.get_extra_info("socket"))
        except CannotShare as problem:
            log.warning("a connection was refused: %s", problem)
            self._transport.abort()
        self._timer = asyncio.get_running_loop().call_later(HELLO_WITHIN, self._transport.abort)

    def data_received(self, data: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        self._data += data
        hello, newline, early = self._data.partition(b"\n")
        if newline:
            self._end_wait()
            self._transport.pause_reading()
            begin, self._leave = self._begin, _nothing
            begin(self._transport, hello.decode("utf-8", "replace"), early)
        elif len(self._data) > LONGEST_HELLO:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_wait()
        self._leave()

    def _end_wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


def _nothing() -> None:
    """The connection is counted elsewhere from now on."""


def _refuse(transport: asyncio.Transport, why: str) -> None:
    if not transport.is_closing():
        transport.write(f"!refused {' '.join(why.splitlines())}\n".encode("utf-8", "replace"))
        transport.close()


@contextlib.contextmanager
def _logging_to(client: SocketClient, level: str) -> Generator[None]:
    """While connected, a client that asked for logs gets the daemon's logs on its stderr."""
    if not level:
        yield
        return
    root = logging.getLogger("wicket_mcp")
    handler = LineHandler(lambda line: client.order("log", line))
    try:
        handler.setLevel(level.upper())
        root.addHandler(handler)
        level_logs()
        yield
    finally:
        root.removeHandler(handler)
        level_logs()


def level_logs(own: str = "") -> None:
    """Log at the lowest wanted level: that of our file, from now on `own`, and those of clients that asked for logs."""
    root = logging.getLogger("wicket_mcp")
    if own and root.handlers:
        root.handlers[0].setLevel(own.upper())
    root.setLevel(min((handler.level for handler in root.handlers), default=logging.INFO))


async def _first(*events: asyncio.Event) -> None:
    waiting = Tasks()
    waits = {waiting.start(event.wait(), "wait") for event in events}
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    await waiting.close()


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0


def _shorten(path: Path) -> None:
    """Keep only the end of a log that has grown long. Only we append to it."""
    with contextlib.suppress(OSError):
        if path.stat().st_size > LARGEST_LOG:
            tail = path.read_bytes()[-KEPT_LOG:].partition(b"\n")[2]
            os.truncate(path, 0)
            with path.open("ab") as file:
                file.write(tail)
