"""Streamable HTTP against peers that misbehave: every fault ends in one typed error that says what to do."""

import asyncio
import contextlib
import resource
import socket
from collections.abc import Awaitable
from pathlib import Path

import pytest
from tests.peers import http_faults as peers
from tests.peers.recording_host import Heard, RecordingHost, shake_hands
from tests.peers.tls import self_signed

from wicket_mcp.errors import Crashed, ProtocolViolation, Refused, Unavailable, UpstreamError
from wicket_mcp.model import MODERN_VERSION
from wicket_mcp.upstream import throttle
from wicket_mcp.upstream.http import HttpClient, HttpConnection, HttpFailed, HttpRefused, HttpRpcError

MAX_MESSAGE = 2**20
TOKEN = "tok-3n-value"


def connect(url: str, client: HttpClient, host: RecordingHost, version: str = "2025-11-25") -> HttpConnection:
    connection = HttpConnection("x", url, {"Authorization": f"Bearer {TOKEN}"}, client, host, max_message=MAX_MESSAGE)
    connection.speak(version)
    return connection


async def failure(peer: peers.HttpPeer, client: HttpClient) -> UpstreamError:
    """How one call to `peer` fails."""
    async with peer:
        connection = connect(peer.url, client, RecordingHost())
        with pytest.raises(UpstreamError) as caught:
            await connection.request("tools/call", {"name": "x"})
        await connection.close()
    assert caught.value.hint or isinstance(caught.value, Refused)
    assert "'x'" in str(caught.value) or isinstance(caught.value, Refused)
    return caught.value


@pytest.mark.parametrize(
    "peer",
    [
        peers.GzipBomb(),
        peers.GzipBombOfEvents(),
        peers.FiveGigabytes(),
        peers.EndlessBody(),
        peers.EndlessEvent(),
    ],
    ids=lambda peer: type(peer).__name__,
)
@pytest.mark.promise("F12", "It is refused at the limit, and needs little memory.")
async def test_f12_a_message_without_measure_is_refused_in_little_memory(
    peer: peers.HttpPeer, client: HttpClient
) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    problem = await failure(peer, client)
    assert isinstance(problem, ProtocolViolation)
    assert "larger than 1 MiB" in str(problem)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 64 * 1024  # KiB, and most of that is the peer's


@pytest.mark.parametrize(
    ("peer", "said"),
    [
        (peers.TruncatedJson(), '{"jsonrpc":"2.0","id":1,"result":{"ok"'),
        (peers.WrongId(), "another request"),
        (peers.Says(200, "text/html; charset=utf-8", b"<h1>\x00Log\x1b[31m in</h1>"), "'text/html': <h1>Log in</h1>."),
        (peers.Says(200, "application/json", b"[1]"), "not JSON-RPC: [1]"),
        (peers.Says(200, "application/json", b'{"jsonrpc": "2.0", "id": 1, "result": 3}'), "not JSON-RPC"),
        (peers.Says(200, "application/json", b"x" * 3000), "x" * 199 + "…"),
        (peers.Says(200, "application/json", b"[" * 100_000), "not JSON-RPC"),
        (peers.Says(202, "", b""), "HTTP 202"),
        (peers.Says(200, "application/json", b"{}", Content_Encoding="br"), "'br', which was not offered"),
        (peers.Says(200, "application/json", b"{}", Content_Encoding="gzip"), "compression is broken"),
        (peers.TruncatedGzip(), "ends too early"),
        (peers.Streams(b'data: {"jsonrpc": "2.0", "id"'), 'not JSON-RPC: {"jsonrpc": "2.0", "id"'),
        (peers.StreamsOn(b'data: {"jsonrpc": "2.0", "id": {id}, "result": NaN}\n\n'), "not JSON-RPC: {"),
        (peers.NotHttp(), "does not speak HTTP"),
    ],
)
@pytest.mark.promise("F4", "Over Streamable HTTP too, a call whose answer cannot be read fails at once.")
async def test_f4_an_answer_that_is_not_mcp_is_a_protocol_violation(
    peer: peers.HttpPeer, said: str, client: HttpClient
) -> None:
    problem = await failure(peer, client)
    assert isinstance(problem, ProtocolViolation)
    assert said in str(problem)


@pytest.mark.parametrize(
    "peer",
    [
        peers.ResetsAfterHeaders(),
        peers.ResetsBeforeAnswer(),
        peers.CutShort(),
        peers.Streams(b""),
        peers.Streams(b'data: {"jsonrpc": "2.0", "id": 99, "result": {}}\n\n'),
        peers.Says(502, "text/html", b"Bad Gateway"),
    ],
    ids=["reset after headers", "reset", "cut short", "empty stream", "stream for another id", "bad gateway"],
)
@pytest.mark.promise("F11", "The error says that the call may have had effects, and the call is not repeated.")
async def test_f11_a_connection_lost_after_sending_is_a_crash_and_not_repeated(
    peer: peers.HttpPeer, client: HttpClient
) -> None:
    problem = await failure(peer, client)
    assert isinstance(problem, Crashed)
    assert not problem.retryable
    assert len(peer.received) == 1


async def test_a_closed_port_is_unavailable(client: HttpClient, host: RecordingHost) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(Unavailable, match="Check that it is running"):
        await connect(f"http://127.0.0.1:{port}/mcp", client, host).request("tools/list", {})


async def test_a_host_name_nobody_knows_is_unavailable(client: HttpClient, host: RecordingHost) -> None:
    with pytest.raises(Unavailable, match="cannot be resolved"):
        await connect("http://nobody.invalid/mcp", client, host).request("tools/list", {})


async def test_https_to_a_server_without_tls_is_unavailable(client: HttpClient, host: RecordingHost) -> None:
    async with peers.NoTls() as peer:
        url = peer.url.replace("http:", "https:")
        with pytest.raises(Unavailable, match="offers no TLS"):
            await connect(url, client, host).request("tools/list", {})


async def test_a_certificate_that_nobody_vouches_for_is_not_accepted(
    client: HttpClient, host: RecordingHost, tmp_path: Path
) -> None:
    async with peers.HttpPeer(self_signed(tmp_path)) as peer:
        url = peer.url.replace("http:", "https:").replace("127.0.0.1", "localhost")
        with pytest.raises(Unavailable, match="certificate that is not accepted"):
            await connect(url, client, host).request("tools/list", {})
        assert not peer.received


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/x", "http://", "nonsense", "http://[broken/"])
async def test_an_address_that_is_none_is_unavailable(url: str, client: HttpClient, host: RecordingHost) -> None:
    with pytest.raises(Unavailable, match="malformed"):
        await connect(url, client, host).request("tools/list", {})


async def test_a_header_with_a_line_break_is_unavailable_and_not_shown(client: HttpClient, host: RecordingHost) -> None:
    async with peers.HttpPeer() as peer:
        connection = HttpConnection("x", peer.url, {"X": f"{TOKEN}\r\nEvil: 1"}, client, host, max_message=MAX_MESSAGE)
        with pytest.raises(Unavailable) as caught:
            await connection.request("tools/list", {})
        assert TOKEN not in str(caught.value)
        assert not peer.received


@pytest.mark.parametrize(("status", "hint"), [(401, "headers"), (403, "headers"), (404, "URL"), (405, "URL")])
async def test_being_turned_away_names_the_status_and_the_remedy(status: int, hint: str, client: HttpClient) -> None:
    problem = await failure(peers.Says(status, "text/plain", b"no"), client)
    assert isinstance(problem, HttpRefused)
    assert problem.status == status
    assert hint in problem.hint


async def test_a_server_that_wants_oauth_says_so(client: HttpClient) -> None:
    challenge = {"WWW_Authenticate": 'Bearer resource_metadata="https://example.com/x"'}
    assert "It wants OAuth" in (await failure(peers.Says(401, "", b"", **challenge), client)).hint


@pytest.mark.parametrize(
    ("status", "after", "seconds"),
    [
        (429, "7", 7.0),
        (503, "120", 120.0),
        (429, "99999999", 300.0),
        (503, "Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        (429, "soon", None),
        (503, "Thu, 01 Jan 99999999999 00:00:00 GMT", None),
        (429, "Thu, 01 Jan 1970 00:00:00 +99999999999999", None),
    ],
)
@pytest.mark.promise("F10", "The error says when to try again.")
async def test_f10_a_busy_server_says_when_to_come_back(
    status: int, after: str, seconds: float | None, client: HttpClient
) -> None:
    """Defect 12: it says the pause that is kept."""
    problem = await failure(peers.Says(status, "text/plain", b"busy", Retry_After=after), client)
    assert isinstance(problem, HttpRefused)
    assert (problem.status, problem.retry_after, problem.retryable) == (status, seconds, True)
    assert seconds is None or f"{seconds:.0f} seconds" in str(problem)


@pytest.mark.parametrize("status", [400, 404, 500])
async def test_a_json_rpc_error_speaks_for_itself_whatever_the_status(status: int, client: HttpClient) -> None:
    error = b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32022, "message": "no", "data": {"vendor": 1}}}'
    problem = await failure(peers.Says(status, "application/json", error), client)
    assert isinstance(problem, HttpRpcError)
    assert (problem.status, problem.rpc_code) == (status, -32022)
    assert problem.error["data"] == {"vendor": 1}


async def test_an_error_status_without_json_rpc_is_not_taken_for_it(client: HttpClient) -> None:
    refused = await failure(peers.Says(400, "application/json", b'{"error": {"code": 5, "message": "x"}}'), client)
    assert isinstance(refused, HttpRefused)
    failed = await failure(peers.Says(500, "text/plain", b"x" * 2**21), client)
    assert isinstance(failed, HttpFailed)


async def test_what_the_server_repeats_of_our_secrets_is_not_shown(client: HttpClient, host: RecordingHost) -> None:
    async with peers.EchoesCredentials() as peer:
        connection = connect(f"{peer.origin}/api/a-long-secret-key/mcp?k=0123456789", client, host)
        with pytest.raises(HttpRefused) as caught:
            await connection.request("tools/list", {})
    assert "no entry for" in str(caught.value)
    for secret in (TOKEN, "a-long-secret-key", "0123456789", "\x1b", "\x00"):
        assert secret not in str(caught.value)
        assert secret not in repr(connection)


async def test_a_redirect_to_another_origin_is_not_followed(client: HttpClient, host: RecordingHost) -> None:
    async with peers.HttpPeer() as elsewhere, peers.Redirects(307, f"{elsewhere.origin}/new?t=1") as peer:
        with pytest.raises(Unavailable) as caught:
            await connect(peer.url, client, host).request("tools/list", {})
        assert f"{elsewhere.origin}/new," in str(caught.value)
        assert not elsewhere.received


@pytest.mark.parametrize(
    ("status", "location"),
    [(302, "/mcp/"), (303, "/right"), (307, ""), (307, "/mcp"), (308, "//["), (307, "file:///etc/passwd")],
)
async def test_a_redirect_that_keeps_neither_method_nor_end_is_not_followed(
    status: int, location: str, client: HttpClient
) -> None:
    peer = peers.Redirects(status, location, "/right")
    problem = await failure(peer, client)
    assert isinstance(problem, Unavailable)
    assert len(peer.received) <= 3


async def test_a_redirect_within_the_origin_is_followed_and_remembered(client: HttpClient, host: RecordingHost) -> None:
    async with peers.Redirects(307, "/mcp/", "/mcp/") as peer:
        connection = connect(peer.url, client, host)
        for _ in range(2):
            assert await connection.request("tools/list", {"cursor": "c"}) == {"ok": True}
        assert [request.path for request in peer.received] == ["/mcp", "/mcp/", "/mcp/"]
        assert {request.body["params"]["cursor"] for request in peer.received} == {"c"}


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "raw deflate"])
async def test_a_compressed_answer_is_read(encoding: str, client: HttpClient, host: RecordingHost) -> None:
    async with peers.Compresses(encoding) as peer:
        result = await connect(peer.url, client, host).request("tools/list", {})
        assert result == {"text": "x" * 300_000}
        assert peer.received[0].headers["accept-encoding"] == "gzip, deflate"


async def test_a_bad_byte_costs_one_character(client: HttpClient, host: RecordingHost) -> None:
    async with peers.InvalidUtf8() as peer:
        assert await connect(peer.url, client, host).request("tools/list", {}) == {"text": "caf�"}


async def test_the_first_of_two_answers_counts(client: HttpClient, host: RecordingHost) -> None:
    answer = b'data: {"jsonrpc": "2.0", "id": {id}, "result": {"no": %d}}\n\n'
    stray = b'data: {"jsonrpc": "2.0", "id": 77, "result": {"no": 0}}\n\n: comment\n\nevent: ping\ndata: {}\n\n'
    async with peers.Streams(stray + answer % 1 + answer % 2) as peer:
        connection = connect(peer.url, client, host)
        for _ in range(2):
            assert await connection.request("tools/list", {}) == {"no": 1}


async def test_a_batch_is_taken_apart(client: HttpClient, host: RecordingHost) -> None:
    batch = (
        b'data: [{"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "hi"}},'
        b'{"jsonrpc": "2.0", "id": {id}, "result": {"no": 1}}]\n\n'
    )
    async with peers.Streams(batch) as peer:
        heard = Heard()
        connection = connect(peer.url, client, host)
        result = await connection.request("tools/list", {}, heard.callbacks)
        assert result == {"no": 1}
        assert heard.all == [("notifications/message", {"data": "hi"})]


async def test_what_the_whole_gateway_must_know_goes_to_the_host(client: HttpClient, host: RecordingHost) -> None:
    stream = (
        b'data: {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}\n\n'
        b'data: {"jsonrpc": "2.0", "method": 5, "params": []}\n\n'
        b'data: {"jsonrpc": "2.0", "id": {id}, "result": {}}\n\n'
    )
    async with peers.Streams(stream) as peer:
        heard = Heard()
        await connect(peer.url, client, host).request("x", {}, heard.callbacks)
    assert not heard.all
    assert host.heard.get_nowait() == ("notifications/tools/list_changed", {})


async def test_a_request_that_the_host_denies_is_answered_with_an_error(
    client: HttpClient, host: RecordingHost
) -> None:
    async with peers.AsksBack() as peer:
        assert await connect(peer.url, client, host).request("tools/call", {"name": "x"}) == {"ok": True}
    reply = peer.received[1].body
    assert reply["id"] == "q"
    assert "not for you" in reply["error"]["message"]


async def test_a_modern_server_has_no_way_to_ask(client: HttpClient, host: RecordingHost) -> None:
    async with peers.AsksBack() as peer:
        connection, heard = connect(peer.url, client, host, MODERN_VERSION), Heard()
        calling = asyncio.ensure_future(connection.request("tools/call", {"name": "x"}, heard.callbacks))
        await heard.any.wait()
        await connection.request("tools/list", {})
        assert await calling == {"ok": True}
    assert not host.asked
    assert all("method" in request.body for request in peer.received)


async def test_a_message_of_megabytes_can_be_sent(client: HttpClient, host: RecordingHost) -> None:
    async with peers.HttpPeer() as peer:
        await connect(peer.url, client, host).request("tools/call", {"text": "x" * 3 * 2**20})
        assert len(peer.received[0].body["params"]["text"]) == 3 * 2**20


async def test_closing_ends_the_session_on_the_server(client: HttpClient, host: RecordingHost) -> None:
    async with peers.KeepsSession() as peer:
        connection = connect(peer.url, client, host)
        await shake_hands(connection)
        await connection.close()
    told = peer.received[-1]
    assert (told.verb, told.headers["mcp-session-id"]) == ("DELETE", "one")
    assert told.headers["mcp-protocol-version"] == connection.protocol_version


EXPIRED = b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "Session not found"}}'
RESTARTED = b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "Bad Request: No valid session ID"}}'


@pytest.mark.parametrize(("status", "body"), [(404, EXPIRED), (404, b"gone"), (400, RESTARTED)])
async def test_a_session_that_expired_ends_the_connection_once(
    status: int, body: bytes, client: HttpClient, host: RecordingHost
) -> None:
    async with peers.ExpiringSession(status, body) as peer:
        connection = connect(peer.url, client, host)
        with pytest.raises(Unavailable, match="no longer knows the session"):
            await shake_hands(connection)
        with pytest.raises(Unavailable):
            await connection.request("tools/list", {})
        await connection.close()
        assert [str(reason) for reason in host.ended] == [
            "Server 'x' no longer knows the session; nothing was done. Try again; the next call opens a new one."
        ]
        assert [request.headers.get("mcp-session-id") for request in peer.received] == [None, "one"]


async def test_a_stream_that_breaks_off_is_resumed_where_it_stopped(client: HttpClient, host: RecordingHost) -> None:
    async with peers.BreaksOff() as peer:
        assert await connect(peer.url, client, host).request("tools/list", {}) == {"ok": True}
        assert [request.verb for request in peer.received] == ["POST", "GET"]


async def test_a_modern_stream_that_breaks_off_is_not_resumed(client: HttpClient, host: RecordingHost) -> None:
    async with peers.BreaksOff() as peer:
        with pytest.raises(Crashed):
            await connect(peer.url, client, host, MODERN_VERSION).request("tools/list", {})
        assert [request.verb for request in peer.received] == ["POST"]


@pytest.mark.parametrize("media_type", ["application/json", "text/event-stream"])
@pytest.mark.parametrize("version", ["2025-11-25", MODERN_VERSION])
async def test_giving_up_hangs_up_and_tells_a_legacy_server(
    media_type: str, version: str, client: HttpClient, host: RecordingHost
) -> None:
    async with peers.Silent(media_type) as peer:
        connection = connect(peer.url, client, host, version)
        waiting = asyncio.ensure_future(connection.request("tools/call", {"name": "x"}))
        await peer.asked.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await peer.hung_up.wait()
        await connection.notify("notifications/marker")
        told = [request.body for request in peer.received if request.rpc_method == "notifications/cancelled"]
        await connection.close()
        if version == MODERN_VERSION:
            assert not told
        else:
            assert told[0]["params"]["requestId"] == peer.received[0].body["id"]


@pytest.mark.parametrize("version", ["2025-11-25", MODERN_VERSION])
async def test_a_listening_stream_that_ends_is_opened_again(
    version: str, client: HttpClient, host: RecordingHost
) -> None:
    async with peers.Gossips() as peer:
        connection = connect(peer.url, client, host, version)
        await connection.listen()
        heard = [await host.heard.get() for _ in range(2)]
        await connection.close()
    assert [(method, params["number"]) for method, params in heard] == [
        ("notifications/tools/list_changed", 1),
        ("notifications/tools/list_changed", 2),
    ]
    resumed = peer.received[1].headers.get("last-event-id")
    assert resumed == (None if version == MODERN_VERSION else "1")


async def cut_for_flooding(host: RecordingHost, work: Awaitable[object]) -> int:
    """How much was heard of a server until it was cut, beyond what the bucket allows for that time: none."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    await host.ended_event.wait()
    allowed = throttle.BURST + throttle.RATE * (loop.time() - began) + 10_000  # and what was read in one piece
    [problem] = host.ended
    assert "floods Wicket with messages that nobody asked for" in str(problem)
    with contextlib.suppress(ProtocolViolation):
        await work
    return max(0, int(host.heard.qsize() - allowed))


@pytest.mark.parametrize("chatter", [b"", b"\n", b": x\n", b"id: 1\n", b"data: {\n\n", b"event: x\ndata: 1\n\n"])
@pytest.mark.parametrize("way", ["answer", "stream"])
@pytest.mark.promise("V26", "Too many messages over Streamable HTTP are slowed and cut off as over a pipe.")
async def test_v26_a_flood_is_slowed_and_cut(
    way: str, chatter: bytes, client: HttpClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(throttle, "CUT_AFTER", 0.3)
    if chatter.endswith(b"\n") and not chatter.endswith(b"\n\n"):
        # One read brings so many lines that its pause would be half a minute.
        monkeypatch.setattr(throttle, "RATE", 20_000.0)
    host = RecordingHost()
    async with peers.Floods(chatter) as peer:
        connection = connect(peer.url, client, host)
        work = connection.request("tools/call", {"name": "x"}) if way == "answer" else connection.listen()
        assert await cut_for_flooding(host, asyncio.ensure_future(work)) == 0
        await connection.close()
    assert "it is read more slowly" in caplog.text
