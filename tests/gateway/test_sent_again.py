"""What did not run is sent again, once and unseen; what may have run never is. The server counts what it executes."""

import pytest

from tests.conftest import OpenGateway
from tests.gateway.serving import raw_client, serve_http
from tests.peers.counting_servers import AsksToWait, ForgetsSessions, KnowsNoSession
from wicket_mcp.errors import Unavailable
from wicket_mcp.upstream.lifecycle import State


async def test_a_session_that_the_server_forgot_is_opened_anew_and_nobody_notices(open_gateway: OpenGateway) -> None:
    async with ForgetsSessions() as server, open_gateway({"x": {"url": server.url}}) as gateway:
        for number in range(5):
            body = await gateway.call("x.echo", {"message": str(number)})
            assert body["content"][0]["text"] == str(number)
        assert server.executed == ["0", "1", "2", "3", "4"]
        assert gateway.pool.state("x") == (State.READY, "")


async def test_a_server_that_forgets_at_once_is_asked_twice_and_no_more(open_gateway: OpenGateway) -> None:
    async with KnowsNoSession() as server, open_gateway({"x": {"url": server.url}}) as gateway:
        await gateway.tools()
        with pytest.raises(Unavailable, match="does not know our session"):
            await gateway.call("x.echo", {"message": "hello"})
        calls = [request for request in server.received if request.rpc_method == "tools/call"]
        assert len({request.headers["mcp-session-id"] for request in calls}) == len(calls) == 2
        assert server.executed == []


@pytest.mark.parametrize("status", [429, 503])
async def test_a_busy_server_is_asked_again_when_it_says_so(open_gateway: OpenGateway, status: int) -> None:
    async with AsksToWait(status, "0", times=2) as server, open_gateway({"x": {"url": server.url}}) as gateway:
        body = await gateway.call("x.echo", {"message": "patience"})
        assert body["content"][0]["text"] == "patience"
        assert (server.turned_away, server.executed) == (2, ["patience"])


async def test_who_cannot_wait_that_long_is_told_how_long(open_gateway: OpenGateway) -> None:
    async with (
        AsksToWait(429, "300", times=9) as server,
        open_gateway({"x": {"url": server.url}}) as gateway,
        serve_http(gateway) as address,
        raw_client(address) as client,
    ):
        call = {"name": "call_tool", "arguments": {"name": "x.echo", "arguments": {"message": "now"}}}
        _, answer = await client.modern("tools/call", call)
        told = answer["result"]["_meta"]["wicket/error"]
        assert told == {"code": "unavailable", "retryable": True, "retry_after": 300.0}
        assert "300 seconds" in answer["result"]["content"][0]["text"]
        assert (server.turned_away, server.executed) == (1, [])
