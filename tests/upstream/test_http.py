"""Streamable HTTP against a real server of the SDK, in both eras."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from tests.peers.recording_host import ENVELOPE, Heard, RecordingHost, call, shake_hands, text_of
from tests.peers.sdk import sdk_addresses

from wicket_mcp.errors import METHOD_NOT_FOUND, Refused, Unavailable
from wicket_mcp.model import META_SERVER_INFO, MODERN_VERSION
from wicket_mcp.upstream.http import HttpClient, HttpConnection


@pytest.fixture(scope="module")
def addresses() -> Iterator[dict[str, str]]:
    with sdk_addresses() as found:
        yield found


@pytest.fixture(params=["events", "json"])
async def legacy(
    request: pytest.FixtureRequest, addresses: dict[str, str], client: HttpClient, host: RecordingHost
) -> AsyncIterator[HttpConnection]:
    connection = HttpConnection("sdk", addresses[request.param], {}, client, host, max_message=2**20)
    await shake_hands(connection)
    yield connection
    await connection.close()


@pytest.fixture(params=["events", "json"])
async def modern(
    request: pytest.FixtureRequest, addresses: dict[str, str], client: HttpClient, host: RecordingHost
) -> AsyncIterator[HttpConnection]:
    connection = HttpConnection("sdk", addresses[request.param], {}, client, host, max_message=2**20)
    connection.speak(MODERN_VERSION)
    yield connection
    await connection.close()


only_events = pytest.mark.parametrize("legacy", ["events"], indirect=True)
only_modern_events = pytest.mark.parametrize("modern", ["events"], indirect=True)


async def test_a_legacy_server_answers_calls_in_its_session(legacy: HttpConnection) -> None:
    results = await asyncio.gather(
        *(legacy.request("tools/call", call("echo", f"no. {number}")) for number in range(50))
    )
    assert [text_of(result) for result in results] == [f"no. {number}" for number in range(50)]


async def test_a_modern_server_answers_without_a_handshake(modern: HttpConnection) -> None:
    greeting = await modern.request("server/discover", {"_meta": ENVELOPE})
    assert MODERN_VERSION in greeting["supportedVersions"]
    result = await modern.request("tools/call", call("echo", "hello", modern=True))
    assert text_of(result) == "hello"
    assert result["_meta"][META_SERVER_INFO]["name"] == "sdk"


async def test_a_tool_whose_name_is_not_ascii_can_be_called(modern: HttpConnection) -> None:
    assert text_of(await modern.request("tools/call", call("né", "hi", modern=True))) == "hi"


async def test_a_large_message_passes_both_ways(legacy: HttpConnection) -> None:
    text = "ä" * 200_000
    assert text_of(await legacy.request("tools/call", call("echo", text))) == text


async def test_an_unknown_method_is_refused_with_the_servers_own_error(
    legacy: HttpConnection, modern: HttpConnection
) -> None:
    for connection, params in ((legacy, {}), (modern, {"_meta": ENVELOPE})):
        with pytest.raises(Refused) as caught:
            await connection.request("no/such", params)
        assert caught.value.rpc_code == METHOD_NOT_FOUND


@only_events
@only_modern_events
async def test_progress_reaches_the_request_it_belongs_to(
    legacy: HttpConnection, modern: HttpConnection, host: RecordingHost
) -> None:
    for connection in (legacy, modern):
        heard = Heard()
        await connection.request("tools/call", call("progress", modern=connection is modern), heard.callbacks)
        assert [(method, params["message"]) for method, params in heard.all] == [("notifications/progress", "half way")]
    assert host.heard.empty()


@only_events
async def test_a_server_may_ask_back_during_a_call(legacy: HttpConnection, host: RecordingHost) -> None:
    assert text_of(await legacy.request("tools/call", call("ask"))) == "{'name': 'Ann'}"
    assert host.asked == ["elicitation/create"]


@only_events
@only_modern_events
async def test_cancelling_the_wait_cancels_the_work(legacy: HttpConnection, modern: HttpConnection) -> None:
    for connection in (legacy, modern):
        heard = Heard()
        params = call("hang", modern=connection is modern)
        waiting = asyncio.ensure_future(connection.request("tools/call", params, heard.callbacks))
        await heard.any.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        # Answered only once the handler was cancelled on the server.
        await connection.request("tools/call", call("was_cancelled", modern=connection is modern))


@only_events
async def test_a_legacy_server_is_heard_between_requests(legacy: HttpConnection, host: RecordingHost) -> None:
    await legacy.listen()
    while host.heard.empty():  # the stream may not stand yet when the first change is told
        await legacy.request("tools/call", call("change"))
    assert (await host.heard.get())[0] == "notifications/tools/list_changed"


@only_events
@only_modern_events
async def test_who_watches_a_resource_hears_the_very_next_change(
    legacy: HttpConnection, modern: HttpConnection, host: RecordingHost
) -> None:
    for connection in (legacy, modern):
        await connection.listen(["sdk://watched"])
        await connection.request("tools/call", call("change", modern=connection is modern))
        async with asyncio.timeout(5):
            assert (await host.heard.get())[0] == "notifications/tools/list_changed"


@only_modern_events
async def test_a_modern_server_is_heard_between_requests(modern: HttpConnection, host: RecordingHost) -> None:
    await modern.listen()
    while host.heard.empty():
        await modern.request("tools/call", call("change", modern=True))
    assert (await host.heard.get())[0] == "notifications/tools/list_changed"


async def test_closing_one_connection_leaves_the_others_alone(
    addresses: dict[str, str], client: HttpClient, host: RecordingHost
) -> None:
    connection = HttpConnection("sdk", addresses["json"], {}, client, host, max_message=2**20)
    await shake_hands(connection)
    twin = HttpConnection("sdk", addresses["json"], {}, client, host, max_message=2**20)
    await shake_hands(twin)
    await connection.listen()
    await connection.close()
    with pytest.raises(Unavailable, match="was closed"):
        await connection.request("tools/list", {})
    assert await twin.request("tools/list", {})
    assert not host.ended
    await twin.close()
