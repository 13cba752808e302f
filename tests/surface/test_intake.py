"""Requests that come all at once: a few begin in each turn of the event loop, whoever waits too long is turned away."""

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from wicket_mcp.surface.intake import Intake
from wicket_mcp.surface.server import Server, listen
from wicket_mcp.tasks import Tasks


class App:
    """Answers with how much it was sent, and notes in which turn of the loop each request began, by its path."""

    def __init__(self) -> None:
        self.turn = 0
        self.begun: list[tuple[int, str]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.begun.append((self.turn, scope["path"]))
        size, more = 0, True
        while more:
            event = await receive()
            size, more = size + len(event.get("body", b"")), event.get("more_body", False)
        text = str(size).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(text))]})
        await send({"type": "http.response.body", "body": text})

    def count(self) -> None:
        self.turn += 1
        asyncio.get_running_loop().call_soon(self.count)


@asynccontextmanager
async def serve(app: App, intake: Intake) -> AsyncGenerator[int]:
    """The port of a server."""
    listener = listen("127.0.0.1", 0)
    server = Server(app, intake=intake)
    serving = Tasks().start(server.serve([listener]), "serve")
    app.count()
    try:
        yield listener.getsockname()[1]
    finally:
        server.stop()
        await serving


async def connect(port: int, count: int) -> list[socket.socket]:
    """Connections that have been answered once: the server knows them."""
    clients: list[socket.socket] = []
    for _ in range(count):
        client = socket.create_connection(("127.0.0.1", port))
        client.setblocking(False)
        await exchange(client, b"GET /first HTTP/1.1\r\nHost: h\r\n\r\n")
        clients.append(client)
    return clients


async def exchange(client: socket.socket, request: bytes) -> bytes:
    client.send(request)
    return await read_answer(client)


async def read_answer(client: socket.socket) -> bytes:
    answer = b""
    while b"\r\n\r\n" not in answer or answer.endswith(b"\r\n\r\n"):
        part = await asyncio.get_running_loop().sock_recv(client, 65536)
        if not part:
            break
        answer += part
    return answer


@pytest.mark.promise("F34", "Of many simultaneous requests, a few start in each turn; the others wait unread.")
async def test_f34_a_crowd_begins_a_few_at_a_time_in_the_order_it_came() -> None:
    app = App()
    async with serve(app, Intake(starts=2)) as port:
        clients = await connect(port, 9)
        app.begun.clear()
        for number, client in enumerate(clients):  # all of them before the loop has its next turn
            client.send(b"GET /%d HTTP/1.1\r\nHost: h\r\n\r\n" % number)
        for client in clients:
            assert (await read_answer(client)).startswith(b"HTTP/1.1 200")
            client.close()
    assert max(Counter(turn for turn, _ in app.begun).values()) == 3, "one before there was a crowd, and two"
    assert sorted(path for _, path in app.begun) == [f"/{number}" for number in range(9)]


async def test_f34_who_would_wait_too_long_is_turned_away_unread() -> None:
    app = App()
    async with serve(app, Intake(starts=1, fewest_waiting=2)) as port:
        clients = await connect(port, 5)
        app.begun.clear()
        for number, client in enumerate(clients):
            client.send(b"GET /%d HTTP/1.1\r\nHost: h\r\n\r\n" % number)
        answers = [await read_answer(client) for client in clients]
        for client in clients:
            client.close()
    refused = [answer for answer in answers if answer.startswith(b"HTTP/1.1 503")]
    assert len(refused) == 2, "one began at once, two waited"
    assert len(app.begun) == 3
    assert all(b"retry-after: " in answer and b"connection: close" in answer for answer in refused)


async def test_f34_as_many_may_wait_as_begin_in_two_seconds() -> None:
    app, now = App(), [0.0]

    def clock() -> float:
        now[0] += 0.01  # asked once for each turn in which somebody waited
        return now[0]

    intake = Intake(starts=2, fewest_waiting=3, clock=clock)
    async with serve(app, intake) as port:
        clients = await connect(port, 6)
        for _ in range(60):
            for client in clients:
                client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            for client in clients:
                assert (await read_answer(client)).startswith(b"HTTP/1.1 200")
        for client in clients:
            client.close()
    assert intake.rejected == 0
    assert intake.most_waiting > 3


async def test_f34_what_follows_on_a_connection_that_waits_keeps_its_place() -> None:
    app = App()
    body = b"x" * 200_000
    async with serve(app, Intake(starts=1)) as port:
        clients = await connect(port, 3)
        for client in clients:
            client.send(b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % len(body))
        loop = asyncio.get_running_loop()
        await asyncio.gather(*(loop.sock_sendall(client, body) for client in clients))
        for client in clients:
            assert (await read_answer(client)).endswith(b"\r\n\r\n200000")
            client.close()


async def test_f34_who_leaves_while_it_waits_is_forgotten() -> None:
    app = App()
    async with serve(app, Intake(starts=1)) as port:
        clients = await connect(port, 3)
        app.begun.clear()
        for number, client in enumerate(clients):
            client.send(b"GET /%d HTTP/1.1\r\nHost: h\r\n\r\n" % number)
            if number == 1:
                client.close()
        for client in (clients[0], clients[2]):
            assert (await read_answer(client)).startswith(b"HTTP/1.1 200")
            client.close()
    assert {"/0", "/2"} <= {path for _, path in app.begun}


class Recorder:
    """A connection that notes what becomes of its request."""

    def __init__(self, running: set["Recorder"] | None = None) -> None:
        self.began = False
        self.wait: int | None = None
        self._running = running

    def begin(self, data: bytes) -> None:
        self.began = True
        if self._running is not None:
            self._running.add(self)

    def turn_away(self, data: bytes, seconds: int) -> None:
        self.wait = seconds


@pytest.mark.promise("F34", "While many requests are running, another one starts when one has ended.")
async def test_f34_while_many_are_running_one_starts_when_one_has_ended() -> None:
    running: set[Recorder] = set()
    intake = Intake(starts=2, many=3, more_after=3600)
    intake.follow(running)
    crowd = [Recorder(running) for _ in range(8)]
    for connection in crowd:
        if intake.admit(connection, b""):
            connection.begin(b"")
    for _ in range(5):
        await asyncio.sleep(0)
    assert [connection.began for connection in crowd] == [True] * 3 + [False] * 5
    for number in range(5):
        running.discard(crowd[number])
        intake.resume()
        await asyncio.sleep(0)
        assert sum(connection.began for connection in crowd) == 4 + number


async def test_f34_more_may_run_while_the_loop_has_time() -> None:
    running: set[Recorder] = set()
    intake = Intake(starts=2, many=3)
    intake.follow(running)
    crowd = [Recorder(running) for _ in range(40)]
    for connection in crowd:
        if intake.admit(connection, b""):
            connection.begin(b"")
    while not all(connection.began for connection in crowd):  # although none of them ends
        await asyncio.sleep(0.001)


class Crowd:
    """Comes to an intake that starts a hundred requests in a second."""

    def __init__(self) -> None:
        self._now = 0.0
        self.intake = Intake(starts=1, fewest_waiting=3, clock=lambda: self._now)

    async def come(self, seconds: float, at_once: int = 2) -> list[Recorder]:
        """So many requests whenever one starts."""
        came: list[Recorder] = []
        for _ in range(round(seconds * 100)):
            newest = [Recorder() for _ in range(at_once)]
            for connection in newest:
                self.intake.admit(connection, b"")
            came += newest
            self._now += 0.01
            await asyncio.sleep(0)
        return came

    async def leave(self) -> None:
        """Until none has waited for a while."""
        while "<Intake 0 waiting" not in repr(self.intake):
            await self.come(0.01, at_once=0)
        await self.come(1.0, at_once=0)


@pytest.mark.promise(
    "F34", "A burst may wait; when the waiting lasts, only few may wait, until none had to for a while."
)
async def test_f34_a_burst_may_wait_and_a_load_that_lasts_is_turned_away() -> None:
    crowd = Crowd()
    burst = await crowd.come(1.0)
    assert sum(connection.wait is not None for connection in burst[60:]) == 0, "a burst, once the rate is known"
    await crowd.come(1.0)
    lasting = await crowd.come(1.0)
    assert 90 <= sum(connection.wait is not None for connection in lasting) <= 150, (
        "half of them, and some of the burst"
    )
    await crowd.leave()
    again = await crowd.come(0.5)
    assert sum(connection.wait is not None for connection in again) == 0, "as before"


async def test_f34_more_may_wait_again_once_those_who_were_turned_away_can_be_served() -> None:
    crowd = Crowd()
    await crowd.come(6.0)
    assert crowd.intake.most_waiting == 2
    await crowd.come(40.0, at_once=1)  # as many as start, so that some wait all the time
    assert "<Intake 1 waiting" in repr(crowd.intake)
    assert crowd.intake.most_waiting >= 150


async def test_f34_who_is_turned_away_and_sent_one_whole_request_keeps_its_connection() -> None:
    app = App()
    request = b"POST /%d HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab"
    async with serve(app, Intake(starts=1, fewest_waiting=1)) as port:
        clients = await connect(port, 4)
        for number, client in enumerate(clients):
            client.send(request % number)
        answers = [await read_answer(client) for client in clients]
        refused = [client for client, answer in zip(clients, answers, strict=True) if b" 503 " in answer]
        assert len(refused) == 2
        assert not any(b"connection: close" in answer for answer in answers)
        for client in refused:
            assert (await exchange(client, request % 9)).endswith(b"\r\n\r\n2")
        for client in clients:
            client.close()


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 2\r\nContent-Length: 2",
        b"Content-Length: 2\r\nTransfer-Encoding: chunked",
        b"Content-Length: 3",
        b"Content-Length: 1",
        b"Content-Length: 2\r\nConnection: close",
        b"X: y",
    ],
)
async def test_f34_whoever_may_send_more_than_was_read_does_not_keep_its_connection(head: bytes) -> None:
    async with serve(App(), Intake(starts=1, fewest_waiting=0)) as port:
        clients = await connect(port, 3)
        for client in clients:
            client.send(b"POST / HTTP/1.1\r\nHost: h\r\n%b\r\n\r\nab" % head)
        answers = [await read_answer(client) for client in clients[1:]]
        for client in clients:
            client.close()
    refused = [answer for answer in answers if b" 503 " in answer]
    assert refused
    assert all(b"connection: close" in answer for answer in refused)
