"""Our HTTP server on a real socket: what HTTP/1.1 lets a client do, and what an application may answer."""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from wicket_mcp.surface.http import App, Receive, Scope, Send, send_json
from wicket_mcp.surface.server import DRAIN, Server, listen
from wicket_mcp.tasks import Tasks


@asynccontextmanager
async def serve(app: App, drain: float = DRAIN) -> AsyncGenerator[tuple[Server, socket.socket]]:
    sock = listen("127.0.0.1", 0)
    server = Server(app, drain=drain)
    tasks = Tasks()
    serving = tasks.start(server.serve([sock]), "serve", awaited=True)
    try:
        yield server, sock
    finally:
        server.stop()
        await serving
        await tasks.close()


async def exchange(sock: socket.socket, data: bytes) -> bytes:
    """All that comes back until the server closes the connection."""
    reader, writer = await asyncio.open_connection(*sock.getsockname())
    writer.write(data)
    answer = await reader.read()
    writer.close()
    return answer


async def read_all(receive: Receive) -> bytes:
    parts: list[bytes] = []
    while True:
        event = await receive()
        parts.append(event["body"])
        if not event["more_body"]:
            return b"".join(parts)


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    body = await read_all(receive)
    query = scope["query_string"].decode()
    await send_json(send, 200, {"path": scope["path"], "query": query, "body": body.decode()})


@pytest.mark.parametrize(
    ("target", "status"),
    [
        (b"http://evil.example/", 421),
        (b"http://x:80/", 421),
        (b"http://evil@x/", 421),
        (b"http://x?http://x/", 400),
        (b"http://X/a?b", 200),
        (b"/a?http://evil.example/", 200),
    ],
)
async def test_a_request_that_names_two_hosts_is_not_served(target: bytes, status: int) -> None:
    """W23."""
    async with serve(echo) as (_, sock):
        answer = await exchange(sock, b"GET " + target + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert int(answer.split()[1]) == status


LAST = b"GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


async def test_requests_that_are_sent_ahead_are_answered_one_by_one_in_their_order() -> None:
    ahead = b"".join(b"POST /%d HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab" % number for number in range(20))
    async with serve(echo) as (_, sock):
        answer = await exchange(sock, ahead + LAST)
    assert [part.split(b'"')[0] for part in answer.split(b'"path":"/')[1:]] == [
        *(b"%d" % number for number in range(20)),
        b"last",
    ]
    assert answer.count(b"HTTP/1.1 200 OK") == 21


@pytest.mark.promise("V6", "Requests that are sent ahead of their turn are read only as fast as they are answered.")
async def test_v6_no_more_is_read_while_requests_wait_for_their_turn() -> None:
    answered, enough = 0, asyncio.Event()

    async def count(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal answered
        answered += 1
        if answered == 300:
            enough.set()
        await send_json(send, 200, {})

    async with serve(count) as (_, sock):
        _reader, writer = await asyncio.open_connection(*sock.getsockname())
        ahead = b"GET / HTTP/1.1\r\n\r\n" * 1_000_000
        writer.write(ahead)
        await enough.wait()
        unsent = writer.transport.get_write_buffer_size()
        writer.transport.abort()
    assert unsent > len(ahead) / 2


async def test_a_request_that_came_in_pieces_has_its_whole_body() -> None:
    pieces = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (b"a" * 70_000, b"b" * 70_000, b"c"))
    head = b"POST /x?y=1 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    async with serve(echo) as (_, sock):
        answer = await exchange(sock, head + pieces + b"0\r\n\r\n")
    assert b'"query":"y=1"' in answer
    assert b"a" * 70_000 + b"b" * 70_000 + b"c" in answer


async def test_who_waits_for_permission_to_send_a_body_gets_it_once() -> None:
    async with serve(echo) as (_, sock):
        reader, writer = await asyncio.open_connection(*sock.getsockname())
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"hi")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK\r\n")
        writer.close()


async def test_head_is_answered_without_a_body_and_the_connection_goes_on() -> None:
    async with serve(echo) as (_, sock):
        answer = await exchange(sock, b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n" + LAST)
    head, _, rest = answer.partition(b"\r\n\r\n")
    assert b"content-length: " in head
    assert rest.startswith(b"HTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize("request_line", [b"GET / HTTP/1.0", b"GET / HTTP/1.1\r\nConnection: close"])
async def test_the_connection_closes_where_the_client_says_so(request_line: bytes) -> None:
    async with serve(echo) as (_, sock):
        answer = await exchange(sock, request_line + b"\r\nHost: x\r\n\r\n")
    assert b"connection: close\r\n" in answer
    assert answer.count(b"HTTP/1.1 ") == 1


async def test_another_protocol_is_not_taken_up_and_what_follows_is_not_read() -> None:
    upgrade = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    async with serve(echo) as (_, sock):
        answer = await exchange(sock, upgrade + b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"smuggled" not in answer


async def test_a_path_is_decoded_once_and_also_known_as_it_was_sent() -> None:
    seen: list[Scope] = []

    async def note(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope)
        await send_json(send, 200, None)

    async with serve(note) as (_, sock):
        await exchange(sock, b"GET /a%2520b?q=%20 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        await exchange(sock, b"GET http://x/whole HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert [(scope["path"], scope["raw_path"], scope["query_string"]) for scope in seen] == [
        ("/a%20b", b"/a%2520b", b"q=%20"),
        ("/whole", b"/whole", b""),
    ]


async def test_headers_behind_a_body_do_not_count_as_headers() -> None:
    async def show(scope: Scope, receive: Receive, send: Send) -> None:
        await read_all(receive)
        await send_json(send, 200, {"names": [name.decode() for name, _ in scope["headers"]]})

    head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTrailer: Authorization\r\n\r\n"
    async with serve(show) as (_, sock):
        answer = await exchange(sock, head + b"1\r\na\r\n0\r\nAuthorization: Bearer x\r\n\r\n" + LAST)
    assert b"authorization" not in answer
    assert answer.count(b'"names"') == 2


@pytest.mark.parametrize(
    "request_head",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
    ],
    ids=["two lengths", "length and pieces", "space in a name", "folded line", "TLS"],
)
async def test_what_two_servers_could_read_in_two_ways_is_refused(request_head: bytes) -> None:
    async with serve(echo) as (_, sock):
        answer = await exchange(sock, request_head)
    assert answer.startswith(b"HTTP/1.1 400 ")


async def test_a_response_in_pieces_leaves_as_it_is_made() -> None:
    go_on = asyncio.Event()

    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
        await go_on.wait()
        await send({"type": "http.response.body", "body": b"one", "more_body": True})
        await send({"type": "http.response.body", "body": b"two"})

    async with serve(stream) as (_, sock):
        reader, writer = await asyncio.open_connection(*sock.getsockname())
        writer.write(LAST)
        head = await reader.readuntil(b"\r\n\r\n")  # before any of the body is there
        assert b"transfer-encoding: chunked\r\n" in head
        go_on.set()
        assert await reader.read() == b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"
        writer.close()


@pytest.mark.parametrize("value", [b"a\r\nset-cookie: b", b"a\nb", b"a\0b"])
async def test_a_header_that_would_end_its_line_is_never_sent(value: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def inject(scope: Scope, receive: Receive, send: Send) -> None:
        await send_json(send, 200, {}, ((b"x-hint", value),))

    async with serve(inject) as (_, sock):
        answer = await exchange(sock, LAST)
    assert b"x-hint" not in answer
    assert "line break" in caplog.text


async def test_an_application_that_fails_is_answered_for_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(scope: Scope, receive: Receive, send: Send) -> None:
        raise KeyError("oops")

    async with serve(fail) as (_, sock):
        answer = await exchange(sock, b"GET /where HTTP/1.1\r\nHost: x\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert b"oops" not in answer
    assert "GET /where failed" in caplog.text


async def test_a_body_that_is_not_as_long_as_promised_ends_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    async def short(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
        await send({"type": "http.response.body", "body": b"abc"})

    async with serve(short) as (_, sock):
        answer = await exchange(sock, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + LAST)
    assert answer.count(b"HTTP/1.1 ") <= 1
    assert "not as long" in caplog.text


async def test_who_leaves_is_noticed_by_the_application_that_waits() -> None:
    events: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue()

    async def wait(scope: Scope, receive: Receive, send: Send) -> None:
        events.put_nowait(await receive())
        events.put_nowait(await receive())

    async with serve(wait) as (_, sock):
        _, writer = await asyncio.open_connection(*sock.getsockname())
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await events.get())["type"] == "http.request"
        writer.close()
        assert (await events.get())["type"] == "http.disconnect"


async def test_stopping_lets_a_request_end_and_closes_what_is_idle() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        begun.set()
        await go_on.wait()
        await send_json(send, 200, {"answer": "late"})

    async with serve(slow) as (server, sock):
        busy, write_busy = await asyncio.open_connection(*sock.getsockname())
        idle, write_idle = await asyncio.open_connection(*sock.getsockname())
        write_busy.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await begun.wait()
        server.stop()
        assert await idle.read() == b""
        go_on.set()
        answer = await busy.read()
        assert b"late" in answer
        assert b"connection: close" in answer
        write_busy.close()
        write_idle.close()


@pytest.mark.promise("D19", "A request that does not end before the gateway does gets a JSON error.")
async def test_d19_who_is_not_answered_when_the_gateway_stops_is_told_so() -> None:
    began = asyncio.Event()

    async def wait(scope: Scope, receive: Receive, send: Send) -> None:
        began.set()
        await asyncio.Event().wait()

    async with serve(wait, drain=0.01) as (server, sock):
        answer = asyncio.ensure_future(exchange(sock, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
        await began.wait()
        server.stop()
        head, _, body = (await answer).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ")
    assert b"application/json" in head
    assert "may have had effects" in json.loads(body)["error"]
