"""What did not run is sent again, once and unseen; what may have run never is. The server counts what it executes."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from pathlib import Path

import pytest

from tests.conftest import OpenGateway, peer
from tests.gateway.serving import raw_client, serve_http
from tests.peers.counting_servers import (
    AsksNewcomersToWait,
    AsksNewcomersToWaitInModernEra,
    AsksNewcomersToWaitOverSse,
    AsksToWait,
    AsksToWaitInModernEra,
    AsksToWaitOverSse,
    CountingServer,
    CountingSse,
    ForgetsSessions,
    ForgetsSseSessions,
    HangsUpInCalls,
    HangsUpInCallsInModernEra,
    HangsUpInSseCalls,
    HangsUpWhenIdle,
    HangsUpWhenIdleInModernEra,
    KnowsNoSession,
    SpeaksOfSessions,
)
from wicket_mcp.errors import Crashed, Refused, Unavailable
from wicket_mcp.upstream.lifecycle import State


@pytest.mark.parametrize("kind", [ForgetsSessions, ForgetsSseSessions])
@pytest.mark.promise("D17", "A call that a server refused because it forgot the session is sent again in a new one.")
async def test_d17_a_session_that_the_server_forgot_is_opened_anew_and_nobody_notices(
    open_gateway: OpenGateway, kind: type[CountingServer | CountingSse]
) -> None:
    async with kind() as server, open_gateway({"x": {"url": server.url}}) as gateway:
        for number in range(5):
            body = await gateway.call("x.echo", {"message": str(number)})
            assert body["content"][0]["text"] == str(number)
        assert server.executed == ["0", "1", "2", "3", "4"]
        assert gateway.pool.state("x") == (State.READY, "")


@pytest.mark.parametrize("kind", [HangsUpWhenIdle, HangsUpWhenIdleInModernEra])
async def test_a_connection_that_the_server_closed_while_it_was_idle_is_opened_anew(
    open_gateway: OpenGateway, kind: type[CountingServer]
) -> None:
    async with kind() as server, open_gateway({"x": {"url": server.url}}) as gateway:
        for number in range(5):
            await gateway.call("x.echo", {"message": str(number)})
            for _ in range(20):  # turns of the loop, in which its end is seen
                await asyncio.sleep(0)
        assert server.executed == ["0", "1", "2", "3", "4"]


async def test_a_stream_that_the_server_ended_while_it_was_idle_is_opened_anew(open_gateway: OpenGateway) -> None:
    async with CountingSse() as server, open_gateway({"x": {"url": server.url}}) as gateway:
        for number in range(3):
            await gateway.call("x.echo", {"message": str(number)})
            for stream in server.streams.values():
                stream.close()
            while gateway.pool.state("x")[0] is State.READY:
                await asyncio.sleep(0)
        assert server.executed == ["0", "1", "2"]


@pytest.mark.parametrize("kind", ["LeavesAfterCalls", "LeavesAfterCallsInModernEra"])
async def test_a_process_that_ended_while_it_was_idle_is_started_anew(
    open_gateway: OpenGateway, tmp_path: Path, kind: str
) -> None:
    counted = tmp_path / "counted"
    async with open_gateway({"x": peer(kind, env={"COUNTED": str(counted)})}) as gateway:
        for number in range(3):
            await gateway.call("x.echo", {"message": str(number)})
            while gateway.pool.state("x")[0] is State.READY:
                await asyncio.sleep(0)
    assert counted.read_text().split() == ["0", "1", "2"]


async def test_a_server_that_forgets_at_once_is_asked_twice_and_no_more(open_gateway: OpenGateway) -> None:
    async with KnowsNoSession() as server, open_gateway({"x": {"url": server.url}}) as gateway:
        await gateway.tools()
        with pytest.raises(Unavailable, match="no longer knows the session"):
            await gateway.call("x.echo", {"message": "hello"})
        calls = [request for request in server.received if request.rpc_method == "tools/call"]
        assert len({request.headers["mcp-session-id"] for request in calls}) == len(calls) == 2
        assert server.executed == []


async def test_a_call_that_failed_with_words_about_another_session_is_not_sent_again(open_gateway: OpenGateway) -> None:
    async with SpeaksOfSessions() as server, open_gateway({"x": {"url": server.url}}) as gateway:
        with pytest.raises(Refused, match="db session closed"):
            await gateway.call("x.echo", {"message": "hello"})
        assert server.executed == ["hello"]


@pytest.mark.parametrize("kind", [HangsUpInCalls, HangsUpInCallsInModernEra, HangsUpInSseCalls])
async def test_a_call_that_a_server_ran_and_did_not_answer_is_not_sent_again(
    open_gateway: OpenGateway, kind: type[CountingServer | CountingSse]
) -> None:
    async with kind() as server, open_gateway({"x": {"url": server.url}}) as gateway:
        await gateway.tools()
        with pytest.raises(Crashed):
            await gateway.call("x.echo", {"message": "hello"})
        assert server.executed == ["hello"]


@pytest.mark.parametrize("kind", ["LeavesInCalls", "LeavesInCallsInModernEra"])
async def test_a_call_that_a_process_ran_and_did_not_answer_is_not_sent_again(
    open_gateway: OpenGateway, tmp_path: Path, kind: str
) -> None:
    counted = tmp_path / "counted"
    async with open_gateway({"x": peer(kind, env={"COUNTED": str(counted)})}) as gateway:
        with pytest.raises(Crashed):
            await gateway.call("x.echo", {"message": "hello"})
    assert counted.read_text().split() == ["hello"]


def in_an_hour() -> str:
    return format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)


OVER = pytest.mark.parametrize(
    "kind", [AsksToWait, AsksToWaitInModernEra, AsksToWaitOverSse], ids=["http", "modern http", "sse"]
)


@OVER
@pytest.mark.parametrize("when", ["0", "Mon, 16 Nov 2020 09:00:00 GMT"], ids=["seconds", "date"])
@pytest.mark.parametrize("status", [429, 503])
async def test_a_busy_server_is_asked_again_when_it_says_so(
    open_gateway: OpenGateway, status: int, when: str, kind: type[AsksToWait | AsksToWaitOverSse]
) -> None:
    async with kind(status, when, times=2) as server, open_gateway({"x": {"url": server.url}}) as gateway:
        body = await gateway.call("x.echo", {"message": "patience"})
        assert body["content"][0]["text"] == "patience"
        assert (server.turned_away, server.executed) == (2, ["patience"])


@OVER
@pytest.mark.parametrize(("when", "kept"), [("200", 200), ("300", 300), ("an hour", 300), ("99999999", 300)])
async def test_who_cannot_wait_that_long_is_told_how_long_it_is_left_alone(
    open_gateway: OpenGateway, when: str, kept: float, kind: type[AsksToWait | AsksToWaitOverSse]
) -> None:
    """Defect 12."""
    async with (
        kind(429, in_an_hour() if when == "an hour" else when, times=9) as server,
        open_gateway({"x": {"url": server.url}}) as gateway,
        serve_http(gateway) as address,
        raw_client(address) as client,
    ):
        call = {"name": "call_tool", "arguments": {"name": "x.echo", "arguments": {"message": "now"}}}
        _, answer = await client.modern("tools/call", call)
        told = answer["result"]["_meta"]["wicket/error"]
        wait = told.pop("retry_after")
        assert told == {"code": "unavailable", "retryable": True}
        assert wait == kept
        assert f"a pause of {kept} seconds" in answer["result"]["content"][0]["text"]
        assert (server.turned_away, server.executed) == (1, [])


@OVER
@pytest.mark.promise("F10", "While a server asks for a pause, no caller's request is sent to it.")
async def test_f10_a_pause_that_a_server_asked_for_is_kept_by_all(
    open_gateway: OpenGateway, kind: type[AsksToWait | AsksToWaitOverSse]
) -> None:
    async with kind(429, "200", times=1) as server, open_gateway({"x": {"url": server.url}}) as gateway:
        for number in range(5):
            with pytest.raises(Unavailable, match="HTTP 429") as told:
                await gateway.call("x.echo", {"message": str(number)})
            assert told.value.retry_after is not None
            assert 100 < told.value.retry_after <= 200
        assert (server.turned_away, server.executed) == (1, [])


Newcomer = Callable[[int, str, int], AsksNewcomersToWait | AsksNewcomersToWaitOverSse]
NEWCOMERS: dict[str, Newcomer] = {
    "initialize": partial(AsksNewcomersToWait, "initialize"),
    "first request": partial(AsksNewcomersToWait, "server/discover"),
    "initialized": partial(AsksNewcomersToWait, "notifications/initialized"),
    "modern": partial(AsksNewcomersToWaitInModernEra, "server/discover"),
    "sse": AsksNewcomersToWaitOverSse,
}


@pytest.mark.parametrize("kind", NEWCOMERS)
@pytest.mark.parametrize("status", [429, 503])
async def test_a_server_too_busy_to_connect_to_is_asked_again_when_it_says_so(
    open_gateway: OpenGateway, status: int, kind: str
) -> None:
    async with NEWCOMERS[kind](status, "0", 4) as server, open_gateway({"x": {"url": server.url}}) as gateway:
        body = await gateway.call("x.echo", {"message": "patience"})
        assert body["content"][0]["text"] == "patience"
        assert (server.turned_away, server.executed) == (4, ["patience"])
        assert gateway.pool.state("x") == (State.READY, "")


async def test_who_cannot_wait_to_connect_is_told_how_long_and_the_server_is_left_alone(
    open_gateway: OpenGateway,
) -> None:
    async with (
        AsksNewcomersToWait("initialize", 503, "200", times=9) as server,
        open_gateway({"x": {"url": server.url}}) as gateway,
    ):
        for _ in range(4):
            with pytest.raises(Unavailable, match="HTTP 503") as told:
                await gateway.pool.start("x")
            assert told.value.retry_after is not None
            assert 100 < told.value.retry_after <= 200
        assert server.turned_away == 1
