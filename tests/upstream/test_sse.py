"""The older HTTP+SSE transport, against a real server of the SDK and against peers that misbehave."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from tests.peers import sse_faults as peers
from tests.peers.http_faults import Says
from tests.peers.recording_host import ENVELOPE, Heard, RecordingHost, call, shake_hands, text_of
from tests.peers.sdk import sdk_addresses
from tests.upstream.test_http_faults import cut_for_flooding

from wicket_mcp.errors import Crashed, NotSent, ProtocolViolation, Refused, Unavailable, UpstreamError
from wicket_mcp.model import MODERN_VERSION
from wicket_mcp.upstream import throttle
from wicket_mcp.upstream.egress import HttpClient
from wicket_mcp.upstream.http_errors import HttpRefused
from wicket_mcp.upstream.sse import SseConnection


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with sdk_addresses() as found:
        yield found["sse"]


@pytest.fixture
async def sdk(address: str, client: HttpClient, host: RecordingHost) -> AsyncIterator[SseConnection]:
    connection = SseConnection("sdk", address, {}, client, host, max_message=2**20)
    await shake_hands(connection)
    yield connection
    await connection.close()
    assert not host.ended


def connect(url: str, client: HttpClient, host: RecordingHost) -> SseConnection:
    return SseConnection("x", url, {}, client, host, max_message=2**20)


async def test_answers_find_their_requests(sdk: SseConnection) -> None:
    results = await asyncio.gather(*(sdk.request("tools/call", call("echo", f"no. {n}")) for n in range(50)))
    assert [text_of(result) for result in results] == [f"no. {n}" for n in range(50)]


async def test_the_servers_own_error_is_kept(sdk: SseConnection) -> None:
    with pytest.raises(Refused, match="Method not found"):
        await sdk.request("no/such", {})


async def test_progress_goes_to_its_request_and_the_rest_to_the_host(sdk: SseConnection, host: RecordingHost) -> None:
    heard = Heard()
    await sdk.request("tools/call", call("progress"), heard.callbacks)
    await sdk.request("tools/call", call("change"), heard.callbacks)
    assert [params["message"] for _, params in heard.all] == ["half way"]
    assert (await host.heard.get())[0] == "notifications/tools/list_changed"


async def test_a_modern_server_tells_of_changes(address: str, client: HttpClient, host: RecordingHost) -> None:
    connection = SseConnection("sdk", address, {}, client, host, max_message=2**20)
    connection.speak(MODERN_VERSION)
    await connection.request("server/discover", {"_meta": ENVELOPE})
    await connection.listen()
    assert (await host.heard.get())[0] == "notifications/subscriptions/acknowledged"
    await connection.request("tools/call", call("change", modern=True))
    assert (await host.heard.get())[0] == "notifications/tools/list_changed"
    await connection.close()


async def test_the_server_may_ask_back_during_a_call(sdk: SseConnection, host: RecordingHost) -> None:
    assert text_of(await sdk.request("tools/call", call("ask"))) == "{'name': 'Ann'}"
    assert host.asked == ["elicitation/create"]


async def test_cancelling_the_wait_cancels_the_work(sdk: SseConnection) -> None:
    heard = Heard()
    waiting = asyncio.ensure_future(sdk.request("tools/call", call("hang"), heard.callbacks))
    await heard.any.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await sdk.request("tools/call", call("was_cancelled"))


async def test_strays_cost_themselves_only(client: HttpClient, host: RecordingHost) -> None:
    async with peers.Babbles() as peer:
        connection = connect(peer.url, client, host)
        for _ in range(3):
            assert await connection.request("tools/list", {}) == {"ok": True}
        await connection.close()
        assert {request.path for request in peer.received} == {"/sse", "/messages?session=1"}


@pytest.mark.parametrize(
    ("peer", "kind", "said"),
    [
        (peers.MailboxElsewhere(), ProtocolViolation, "another origin, http://127.0.0.1:1/messages"),
        (peers.EndsBeforeMailbox(), Unavailable, "before it said where to post"),
        (peers.MailboxFull(), HttpRefused, "HTTP 413"),
        (peers.EndlessEvent(), ProtocolViolation, "larger than 1 MiB"),
        (peers.EndsMidCall(), Crashed, "ended its stream"),
        (peers.AnswersWithout(), ProtocolViolation, "without a result"),
        (peers.AnswersTooDeeply(), ProtocolViolation, "sent an answer that cannot be read"),
        (Says(401, "text/plain", b"who?"), HttpRefused, "HTTP 401"),
        (Says(200, "text/html", b"<h1>"), ProtocolViolation, "'text/html'"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, peers.HttpPeer) else "",
)
@pytest.mark.promise("F4", "Over HTTP+SSE too, a call whose answer cannot be read fails at once.")
async def test_f4_a_fault_ends_in_one_typed_error(
    peer: peers.HttpPeer, kind: type[UpstreamError], said: str, client: HttpClient, host: RecordingHost
) -> None:
    async with peer:
        connection = connect(peer.url, client, host)
        with pytest.raises(kind, match=said) as caught:
            await connection.request("tools/call", {"name": "x"})
        assert caught.value.hint
        await connection.close()


async def test_the_end_of_the_stream_fails_every_call_and_is_told_once(client: HttpClient, host: RecordingHost) -> None:
    async with peers.NeverAnswers() as peer:
        connection = connect(peer.url, client, host)
        calls = [asyncio.ensure_future(connection.request("tools/call", {})) for _ in range(3)]
        await peer.asked.wait()
        assert peer.stream
        peer.stream.close()
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert [isinstance(outcome, Crashed) for outcome in outcomes] == [True] * 3
        assert [type(reason) for reason in host.ended] == [Crashed]
        with pytest.raises(NotSent):
            await connection.request("tools/list", {})
        await connection.close()


async def test_closing_fails_what_was_sent_and_tells_nobody(client: HttpClient, host: RecordingHost) -> None:
    async with peers.NeverAnswers() as peer:
        connection = connect(peer.url, client, host)
        waiting = asyncio.ensure_future(connection.request("tools/call", {}))
        await peer.asked.wait()
        await connection.close()
        with pytest.raises(Crashed, match="disconnected"):
            await waiting
        with pytest.raises(Unavailable):
            await connection.request("tools/list", {})
        assert not host.ended


async def test_giving_up_tells_the_server(client: HttpClient, host: RecordingHost) -> None:
    async with peers.NeverAnswers() as peer:
        connection = connect(peer.url, client, host)
        waiting = asyncio.ensure_future(connection.request("tools/call", {}))
        await peer.asked.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await peer.told.wait()
        assert peer.received[-1].body["params"]["requestId"] == peer.received[1].body["id"]
        await connection.close()


@pytest.mark.promise("V26", "Too many messages over HTTP+SSE are slowed and cut off as over a pipe.")
async def test_v26_a_flood_is_slowed_and_cut(
    client: HttpClient, host: RecordingHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttle, "CUT_AFTER", 0.3)
    async with peers.Floods() as peer:
        connection = connect(peer.url, client, host)
        work = asyncio.ensure_future(connection.request("tools/call", {"name": "x"}))
        assert await cut_for_flooding(host, work) == 0
        await connection.close()
