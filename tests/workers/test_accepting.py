"""Processes that accept at one socket share what comes at once."""

import asyncio
import contextlib
import socket
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from wicket_mcp.surface.http import Receive, Scope, Send
from wicket_mcp.surface.server import Server, listen, listen_beside
from wicket_mcp.tasks import Tasks

BURST = 12
GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def test_a_burst_of_connections_is_shared_by_those_who_accept_at_one_socket() -> None:
    """Two servers in one loop, each with its turn; the connections are in the queue before either has one."""
    accepted: Counter[str] = Counter()

    def app(name: str) -> Any:
        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            accepted[name] += 1
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        return answer

    listener = listen("127.0.0.1", 0)
    clients = [socket.create_connection(listener.getsockname()) for _ in range(BURST)]
    servers = [Server(app(name), shared=True) for name in ("first", "second")]
    tasks = Tasks()
    for server in servers:
        tasks.start(server.serve([listener.dup()]), "serve")
    for client in clients:
        client.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=client)
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 204")
        writer.close()
        await writer.wait_closed()
    for server in servers:
        server.stop()
    assert await tasks.wait(10)
    listener.close()
    assert sum(accepted.values()) == BURST
    assert min(accepted["first"], accepted["second"]) >= BURST // 3, accepted


@pytest.mark.parametrize("turns", range(8))
async def test_a_connection_that_comes_while_we_stop_is_answered_once_and_closed(turns: int) -> None:
    """Accepted some turns of the loop before or after the stop: it must not stay open until the process ends."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    listener = listen("127.0.0.1", 0)
    client = socket.create_connection(listener.getsockname())
    server = Server(answer, shared=True, last_call=60.0)
    tasks = Tasks()
    serving = tasks.start(server.serve([listener.dup()]), "serve", awaited=True)
    for _ in range(turns):
        await asyncio.sleep(0)
    server.stop()
    client.setblocking(False)
    reader, writer = await asyncio.open_connection(sock=client)
    writer.write(GET)
    reading = tasks.start(reader.read(), "read", awaited=True)
    async with asyncio.timeout(10):
        await serving
        listener.close()  # if it was not accepted, it is refused now
        with contextlib.suppress(ConnectionResetError):
            assert (await reading).startswith(b"HTTP/1.1 204")
    writer.close()
    await tasks.close()


async def test_what_another_gateway_asks_at_the_last_moment_is_answered_before_we_end(tmp_path: Path) -> None:
    """It does not know yet that we stop, and connects when our last request has just ended."""
    begun, stopped, all_here = asyncio.Event(), asyncio.Event(), asyncio.Event()
    late: list[socket.socket] = []
    waiting: list[str] = []

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/late":
            waiting.append(scope["path"])
            if len(waiting) == BURST:
                all_here.set()
            await all_here.wait()
        else:
            begun.set()
            await stopped.wait()
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})
        if scope["path"] != "/late":
            late.extend(_ask(path, "/late") for _ in range(BURST))

    listener = listen_beside(tmp_path, "one")
    path = listener.getsockname()
    first = _ask(path, "/")
    server = Server(answer, shared=True, last_call=60.0)
    tasks = Tasks()
    serving = tasks.start(server.serve([], [listener]), "serve", awaited=True)
    async with asyncio.timeout(10):
        await begun.wait()
        server.stop()
        stopped.set()
        await serving
    try:
        assert [client.recv(12) for client in (first, *late)] == [b"HTTP/1.1 204"] * (1 + BURST)
        assert not Path(path).exists()  # nobody can connect any more
    finally:
        for client in (first, *late):
            client.close()


def _ask(path: str, target: str) -> socket.socket:
    """A connection to a Unix socket with one request on it. What is not answered yet is not waited for."""
    client = socket.socket(socket.AF_UNIX)
    client.connect(path)
    client.setblocking(False)
    client.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return client
