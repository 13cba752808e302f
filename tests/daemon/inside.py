"""A daemon in the process of its test: over a real socket, lock and gateway, but with a clock and an installation that
the test sets. It looks around itself only when the test says so.
"""

import asyncio
import contextlib
import fcntl
import os
import shutil
import socket
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins

from tests.conftest import Server
from wicket_mcp.app import Gateway
from wicket_mcp.codec import decode, encode
from wicket_mcp.daemon import server
from wicket_mcp.daemon.server import Daemon
from wicket_mcp.model import JsonObject
from wicket_mcp.shim.identity import SEPARATOR
from wicket_mcp.surface.neighbours import Question
from wicket_mcp.tasks import Tasks

HELLO = SEPARATOR.join(("wicket-shim", "1", "", "", "", "", "")).encode() + b"\n"


class Shim:
    """A client's end of a connection to a daemon."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, message: JsonObject | bytes) -> None:
        self._writer.write(message if isinstance(message, bytes) else encode(message) + b"\n")

    async def read(self) -> bytes:
        """The next line; empty if the daemon has ended the connection."""
        try:
            async with asyncio.timeout(20):
                return await self._reader.readline()
        except ConnectionResetError:
            return b""

    async def hear(self, order: str) -> list[bytes]:
        """The lines up to this order of the daemon."""
        lines: list[bytes] = []
        while not lines or not lines[-1].startswith(f"!{order}".encode()):
            lines.append(await self.read())
            assert lines[-1], f"the connection ended after {lines}"
        return lines

    async def ask(self, number: int, method: str, **params: Any) -> tuple[JsonObject, list[bytes]]:
        """The answer to a request, and the lines before it."""
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        before: list[bytes] = []
        while line := await self.read():
            if not line.startswith(b"!") and (message := decode(line)).get("id") == number:
                return message, before
            before.append(line)
        raise AssertionError(f"the connection ended after {before}")

    async def leave(self) -> None:
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()


class Inside:
    """A running daemon, and what is around it."""

    def __init__(self, folder: Path, gateway: Gateway) -> None:
        self.gateway = gateway
        self.path = folder / "d.sock"
        self.lock = folder / "d.lock"
        self.now = 1000.0
        self.installed = "1"
        """What is installed; nothing while it is being replaced."""
        self.stop = asyncio.Event()
        self._shims: list[Shim] = []
        descriptor = os.open(self.lock, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.daemon = Daemon(gateway, listen(self.path), descriptor, self.stop, self._read_installed, lambda: self.now)

    def _read_installed(self) -> str:
        if not self.installed:
            raise FileNotFoundError
        return self.installed

    def connect(self) -> socket.socket:
        """A connection that the daemon has not accepted yet: it takes its turn after us."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.connect(str(self.path))
        sock.setblocking(False)
        return sock

    async def shim(self, sock: socket.socket | None = None, hello: bytes = HELLO) -> Shim:
        """A shim that has said its first line."""
        shim = Shim(*await asyncio.open_unix_connection(sock=sock or self.connect()))
        self._shims.append(shim)
        shim.send(hello)
        return shim

    async def client(self) -> Shim:
        """A client that is served."""
        shim = await self.shim()
        await shim.hear("ready")
        return shim

    async def control(self, *question: str) -> JsonObject:
        """The daemon's answer to another process of the user."""
        shim = await self.shim(hello=SEPARATOR.join(("wicket-control", "1", *question)).encode() + b"\n")
        line = await shim.read()
        await shim.leave()
        return decode(line)

    async def ask_about(self, question: Question) -> JsonObject:
        return await self.control("about", encode(to_builtins(question)).decode())

    async def leave(self) -> None:
        """Stop it, and let go of the clients that are left."""
        self.stop.set()
        for shim in self._shims:
            await shim.leave()

    def states(self) -> dict[str, str]:
        return {load.server: str(load.state) for load in self.gateway.pool.loads()}

    def is_locked(self) -> bool:
        with self.lock.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False


def listen(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen()
    listener.setblocking(False)
    return listener


@asynccontextmanager
async def run_inside(
    monkeypatch: pytest.MonkeyPatch, state: Path, servers: dict[str, Server]
) -> AsyncGenerator[Inside]:
    """A daemon over these servers. It stops with the test, unless it has stopped before."""
    monkeypatch.setattr(server, "LOOK_EVERY", 3600.0)
    folder = Path(tempfile.mkdtemp(prefix="wicket-"))  # a socket's path must be short
    tasks = Tasks()
    try:
        async with Gateway.open({"servers": servers, "state_dir": str(state)}) as gateway:
            inside = Inside(folder, gateway)
            running = tasks.start(inside.daemon.run(), "daemon", awaited=True)
            try:
                yield inside
            finally:
                await inside.leave()
                await running
    finally:
        await tasks.close()
        shutil.rmtree(folder)
