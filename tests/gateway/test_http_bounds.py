"""What a stranger may send over HTTP before anybody knows who it is: heads, addresses, connections, in time."""

import asyncio
import resource
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.conftest import OpenGateway, peer
from tests.gateway.serving import META, TOKEN, Command, raw_client, serve_http
from wicket_mcp.codec import encode
from wicket_mcp.surface.connections import Connections
from wicket_mcp.surface.http_connection import MAX_HEAD
from wicket_mcp.tasks import Tasks


@asynccontextmanager
async def connect(address: str) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    host, port = address.removeprefix("http://").removesuffix("/mcp").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield reader, writer
    finally:
        writer.close()


async def send(address: str, *pieces: bytes) -> bytes:
    """What comes back, until the gateway closes the connection; it may do so before it has read everything."""
    async with connect(address) as (reader, writer):
        answer = Tasks().start(_read(reader), "read")
        try:
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
        except ConnectionError:
            pass
        return await answer


async def _read(reader: asyncio.StreamReader) -> bytes:
    parts: list[bytes] = []
    try:
        while part := await reader.read(65536):
            parts.append(part)
    except ConnectionError:
        pass
    return b"".join(parts)


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


@pytest.mark.promise("V6", "A head of over 64 KiB, 100 headers or a 16 KiB address is refused before authentication.")
async def test_v6_a_head_of_endless_empty_headers_ends_at_a_hundred(open_gateway: OpenGateway) -> None:
    async with open_gateway({}) as gateway, serve_http(gateway) as address:
        answer = await send(address, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n", b"a:\r\n" * 10_000)
    assert status_of(answer) == 431
    assert b"100 headers" in answer


@pytest.mark.parametrize("pieces", [1, 64], ids=["in one piece", "bit by bit"])
async def test_v6_a_head_has_64_kib_at_most(open_gateway: OpenGateway, pieces: int) -> None:
    size = 4 * MAX_HEAD
    async with open_gateway({}) as gateway, serve_http(gateway) as address:
        long_header = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * size + b"\r\n\r\n"
        step = len(long_header) // pieces
        cut = [long_header[at : at + step] for at in range(0, len(long_header), step)]
        answer = await send(address, *cut)
        assert status_of(answer) == 431
        fine = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: " + b"x" * 60_000 + b"\r\n\r\n"
        assert status_of(await send(address, fine)) == 200


async def test_v6_many_headers_of_some_size_in_one_piece_of_data_are_too_much_together(
    open_gateway: OpenGateway,
) -> None:
    head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"X-Y: %b\r\n" % (b"x" * 1000) * 90 + b"\r\n"
    async with open_gateway({}) as gateway, serve_http(gateway) as address:
        assert status_of(await send(address, head)) == 431


@pytest.mark.promise("V6", "The headers after a body, and what a sender adds to its parts, have 64 KiB at most too.")
@pytest.mark.parametrize("beginning", [b"0\r\nx: ", b"5;"])
async def test_v6_what_follows_a_body_is_bounded_too(open_gateway: OpenGateway, beginning: bytes) -> None:
    head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with open_gateway({}) as gateway, serve_http(gateway) as address:
        answer = await send(address, head, beginning, *[b"a" * 1000] * 1000)
    assert b"HTTP/1.1 431 " in answer


async def test_v6_an_address_has_16_kib_at_most(open_gateway: OpenGateway) -> None:
    async with open_gateway({}) as gateway, serve_http(gateway) as address:
        answer = await send(address, b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert status_of(answer) == 414


@pytest.mark.parametrize(
    "head",
    [
        b"GET /healthz HTTP/1.1\r\nHost: [\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: [::1\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nOrigin: http://[::1\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: \xff\xfe\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost:99999999\r\nOrigin: http://localhost:999999999\xff\r\n",
        b"GET /healthz HTTP/1.1\r\n",
        b"GET http://[ HTTP/1.1\r\nHost: localhost\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n",
        b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n",
        b"GET * HTTP/1.1\r\nHost: localhost\r\n",
        b"GET /mcp/%ff%00 HTTP/1.1\r\nHost: localhost\r\n",
        b"\x00\x01\x02\r\n",
        b"GET /healthz HTTP/9.9\r\nHost: localhost\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n",
    ],
)
async def test_v16_a_malformed_head_gets_a_4xx_and_no_traceback(
    open_gateway: OpenGateway, head: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_gateway({}) as gateway, serve_http(gateway) as address:
        answer = await send(address, head + b"Connection: close\r\n\r\n")
    assert 400 <= status_of(answer) < 500, answer
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.promise("F28", "Connections use at most half of the descriptors, and one address half of those.")
async def test_f28_v6_connections_beyond_the_bound_are_told_so_and_others_go_on(
    open_gateway: OpenGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bounds are asked of the counter itself; here it is that the server asks it, and counts those that leave."""
    monkeypatch.setattr("wicket_mcp.surface.connections.MOST", 4)
    monkeypatch.setattr("wicket_mcp.surface.connections.LEAST", 4)
    fine = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    async with open_gateway({}) as gateway, serve_http(gateway) as address:
        async with connect(address) as first, connect(address) as second:
            for _, writer in (first, second):
                writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert (await first[0].readline()).startswith(b"HTTP/1.1 200")
            assert (await second[0].readline()).startswith(b"HTTP/1.1 200")
            refused = await send(address, fine)
            assert status_of(refused) == 503
            assert b"retry-after" in refused
        while status_of(await send(address, fine)) != 200:  # until it has noticed that they left
            pass


def test_v6_one_address_has_half_of_the_connections() -> None:
    connections = Connections(4)
    assert [connections.enter("a") for _ in range(3)] == [True, True, False]
    assert [connections.enter("b") for _ in range(2)] == [True, True]
    assert not connections.enter("c")
    assert (len(connections), connections.rejected) == (4, 2)
    connections.leave("a")
    assert connections.enter("c")
    assert repr(connections) == "<Connections 4 of 4, 3 addresses, 2 rejected>"


async def test_f31_an_empty_line_after_an_answer_does_not_keep_the_connection(
    open_gateway: OpenGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wicket_mcp.surface.http_connection.HEAD_DEADLINE", 0.2)
    async with open_gateway({}) as gateway, serve_http(gateway) as address, connect(address) as (reader, writer):
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await reader.readuntil(b'"ok"}')
        writer.write(b"\r\n")
        async with asyncio.timeout(10):
            assert await _read(reader) == b""


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"[" * 1000 + b"]" * 1000, 400),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":' + b"[" * 1000 + b"]" * 1000 + b"}}", 400),
        (b'{"jsonrpc":"2.0","id":1,"method":"\xff\xfe","params":{}}', 400),
        (b"\xff\xfe\x00", 400),
        (b"", 400),
        (b"NaN", 400),
        (b"[]", 400),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', 400),
        (b'{"jsonrpc":"2.0","id":1e999,"method":"ping"}', 400),
    ],
)
async def test_v21_a_body_that_is_no_message_is_a_4xx(open_gateway: OpenGateway, body: bytes, status: int) -> None:
    head = (
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %b\r\nConnection: close\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    ) % (TOKEN.encode(), len(body))
    async with open_gateway({}) as gateway, serve_http(gateway) as address:
        answer = await send(address, head + body)
    assert status_of(answer) == status, answer


async def test_v21_a_message_over_http_that_is_not_utf8_or_too_deep_is_a_parse_error(
    open_gateway: OpenGateway,
) -> None:
    deep = b"[" * 500 + b"]" * 500
    async with (
        open_gateway({}) as gateway,
        serve_http(gateway) as address,
        raw_client(address) as client,
    ):
        for bad in (b'"\xff"', deep):
            body = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":' + bad + b"}}"
            status, _, answer = await client.post(body)
            assert (status, answer["error"]["code"]) == (400, -32700)


async def test_a_principal_has_a_bounded_number_of_subscriptions(
    open_gateway: OpenGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wicket_mcp.surface.streamable_http.MAX_LISTENING", 0)
    async with open_gateway({}) as gateway, serve_http(gateway) as address, raw_client(address) as client:
        status, body = await client.modern("subscriptions/listen", {"notifications": {}})
        assert (status, "are open" in body["error"]["message"]) == (429, True)


@pytest.mark.promise("F34", "Too much load is refused early, with 503 and Retry-After.")
async def test_f34_requests_beyond_a_principals_bound_get_503_and_others_are_served(
    open_gateway: OpenGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wicket_mcp.surface.admission.MOST_PER_PRINCIPAL", 2)
    async with (
        open_gateway({"x": peer("Echo")}) as gateway,
        serve_http(gateway, "flat") as address,
        raw_client(address) as client,
    ):
        await gateway.tools()
        other, _ = await gateway.registry.keys.create("other", ["discover", "invoke"])
        tasks = Tasks()
        slow = [tasks.start(client.modern("tools/call", {"name": "x__slow", "arguments": {}}), "slow") for _ in "ab"]
        while (await gateway.call("x.calls"))["structuredContent"]["waiting"] < 2:
            pass
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}
        routing = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}
        status, headers, answer = await client.post(body, routing)
        assert (status, headers["Retry-After"]) == (503, "1")
        assert "is overloaded" in answer["error"]
        legacy = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        status, _, _ = await client.post(legacy, {"Mcp-Method": "subscriptions/listen"})
        assert status == 503, "only a subscription may pass for one"
        status, _, _ = await client.post(body, routing, token=other)
        assert status == 200
        await gateway.call("x.release")
        assert [status for status, _ in [await task for task in slow]] == [200, 200]
        status, _, _ = await client.post(body, routing)
        assert status == 200


@pytest.mark.promise(
    "F28", "Without a free descriptor, new connections wait, little is logged, and all continues later."
)
@pytest.mark.promise("D14", "Without a free descriptor one line is logged, and connections wait.")
async def test_f28_d14_out_of_descriptors_and_back(tmp_path: Path) -> None:
    command = await Command.start(tmp_path, {}, "--http", "127.0.0.1:0", "--no-auth")
    assert command.process.stderr is not None
    while b"http://" not in (line := await command.process.stderr.readline()):
        assert line, "the gateway ended"
    address = line[line.index(b"http://") :].split()[0].decode()
    fine = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    assert status_of(await send(address, fine)) == 200
    pid = command.process.pid
    used = max(int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir()) + 1
    _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (used, hard))
    waiting = asyncio.ensure_future(send(address, fine))
    said = b""
    while b"no descriptor is left" not in said:
        said += await command.process.stderr.readline()
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (hard, hard))
    assert status_of(await waiting) == 200, "it waited in the queue of the kernel"
    command.process.send_signal(signal.SIGTERM)
    _, rest = await command.process.communicate()
    assert command.process.returncode == 0
    assert (said + rest).count(b"descriptor is left") == 1
    assert b"accept()" not in said + rest, "no traceback of asyncio's for every attempt"


@pytest.mark.promise("V28", "A page of another origin cannot call: requests without a CORS preflight are refused.")
@pytest.mark.parametrize(("kind", "status"), [("text/plain", 415), ("", 415), ("application/json; charset=utf-8", 200)])
async def test_v28_what_a_page_may_send_unasked_is_refused(open_gateway: OpenGateway, kind: str, status: int) -> None:
    body = encode({"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": META}})
    head = f"""POST /mcp HTTP/1.1
Host: localhost
Origin: http://localhost:3000
Content-Type: {kind}
Accept: application/json, text/event-stream
MCP-Protocol-Version: 2026-07-28
Mcp-Method: server/discover
Content-Length: {len(body)}
Connection: close

""".replace("\n", "\r\n")
    http = {"allowed_origins": ["http://localhost:3000"]}
    async with open_gateway({}, http=http) as gateway, serve_http(gateway, token=None) as address:
        assert status_of(await send(address, head.encode() + body)) == status


@pytest.mark.promise("V28", "Without a token, pages of other ports of this machine may not call either.")
async def test_v28_a_page_of_another_port_needs_leave_where_no_token_is_needed(open_gateway: OpenGateway) -> None:
    """W22."""
    async with open_gateway({}) as gateway, serve_http(gateway, token=None) as address:
        own = address.removesuffix("/mcp")
        async with raw_client(address) as client:
            for origin, status in (("http://localhost:3000", 403), (own, 200)):
                preflight = {"Origin": origin, "Access-Control-Request-Method": "POST"}
                async with client.session.options(address, headers=preflight) as answer:
                    assert answer.status == {403: 403, 200: 204}[status]
                assert (await client.modern("server/discover", Origin=origin))[0] == status
