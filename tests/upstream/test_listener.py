"""When a stream for unasked messages is not offered, listening ends by itself."""

import asyncio

import pytest

from wicket_mcp.errors import Refused, UpstreamError
from wicket_mcp.upstream.egress import Answer
from wicket_mcp.upstream.http_errors import HttpRefused, HttpRpcError
from wicket_mcp.upstream.listener import Listener

NOT_FOUND = {"code": -32601, "message": "Method not found"}


@pytest.mark.parametrize(
    "refusal",
    [
        None,
        Refused("x", NOT_FOUND),
        HttpRpcError("x", {"code": -32602, "message": "?"}, status=400),
        *(HttpRefused("x", "no", status=status, hint="none") for status in (401, 404, 405, 406, 501)),
    ],
    ids=repr,
)
async def test_a_server_that_does_not_offer_it_is_asked_once(refusal: UpstreamError | None) -> None:
    asked: list[str] = []

    async def opener(last_id: str) -> Answer | None:
        asked.append(last_id)
        if refusal is not None:
            raise refusal
        return None

    async def receive(data: bytes) -> None:
        raise AssertionError(f"nothing was offered, and yet {data!r} came")

    async def overhear(count: int) -> None:
        raise AssertionError(f"nothing was offered, and yet {count} lines came")

    await Listener(opener, receive, overhear, 1000).run()
    assert asked == [""]


@pytest.mark.parametrize("code", [-32602, -32601])
async def test_a_refused_subscription_is_known_before_anybody_waits_for_it_in_vain(code: int) -> None:
    async def opener(last_id: str) -> Answer | None:
        raise Refused("x", {"code": code, "message": "no such resource"})

    async def receive(data: bytes) -> None:
        raise AssertionError(f"nothing was offered, and yet {data!r} came")

    async def overhear(count: int) -> None:
        raise AssertionError(f"nothing was offered, and yet {count} lines came")

    listener = Listener(opener, receive, overhear, 1000, acknowledged=True)
    running = asyncio.ensure_future(listener.run())
    await listener.settled.wait()
    assert (listener.refusal is not None) == (code == -32602), "a server without subscriptions refuses no resource"
    running.cancel()
    await asyncio.wait({running})
