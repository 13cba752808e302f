"""A client that does not read while a server talks without end: it costs a fixed number of bytes, and is cut (V3)."""

import asyncio
import json
import os
import socket
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tests.conftest import OpenGateway, peer
from tests.gateway.serving import META, TOKEN, serve_http
from wicket_mcp.app import Gateway
from wicket_mcp.surface.outbox import LIMIT
from wicket_mcp.surface.stdio import StdioClient

FLOOD = 200  # messages that were not sent, after which it is clear that nothing grows


@pytest.fixture
async def gateway(open_gateway: OpenGateway, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Gateway]:
    monkeypatch.setattr("wicket_mcp.surface.outbox.STALLED", 3.0)  # long enough for the flood on a busy machine
    monkeypatch.setattr("wicket_mcp.upstream.throttle.BURST", 10_000.0)  # more than the system's own buffers hold
    async with open_gateway({"x": peer("FloodsProgress")}) as gateway:
        await gateway.tools()
        yield gateway


def call(*, modern: bool) -> bytes:
    meta = {"progressToken": "t", **(META if modern else {}), "io.modelcontextprotocol/logLevel": "debug"}
    params = {"name": "x__slow", "arguments": {}, "_meta": meta}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()


async def flooded(gateway: Gateway) -> None:
    """Until the server has said far more than the client was sent."""
    counters = gateway.outbox_counters
    while counters.replaced < FLOOD:
        await asyncio.sleep(0)


async def cancelled(gateway: Gateway) -> None:
    """Until the server was told that nobody waits for its call any more."""
    while not (await gateway.call("x.calls"))["structuredContent"]["cancelled"]:
        pass


@pytest.mark.promise("V3", "Over HTTP, an unread stream keeps a fixed number of bytes; the client is cut off.")
@pytest.mark.promise("D4", "A client that reads nothing costs a fixed number of bytes, over HTTP.")
async def test_v3_d4_over_http(gateway: Gateway) -> None:
    async with serve_http(gateway, "flat") as address:
        host, port = address.removeprefix("http://").removesuffix("/mcp").split(":")
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect((host, int(port)))
            body = call(modern=True)
            head = (
                f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
                "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
                "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: x__slow\r\n"
                f"Content-Length: {len(body)}\r\n\r\n"
            )
            client.sendall(head.encode() + body)
            await flooded(gateway)
            assert LIMIT / 2 < gateway.outbox_counters.largest < 1.1 * LIMIT
            await cancelled(gateway)


@pytest.mark.promise("V3", "Over stdio, an unread pipe keeps a fixed number of bytes, and the client is cut off.")
@pytest.mark.promise("D4", "A client that reads nothing costs a fixed number of bytes, over stdio.")
async def test_v3_d4_over_stdio(gateway: Gateway) -> None:
    (source, from_client), (to_client, sink) = os.pipe(), os.pipe()
    client = StdioClient(gateway.protocol("flat"), counters=gateway.outbox_counters)
    await client.open(source, sink)
    try:
        os.write(from_client, call(modern=True) + b"\n")
        await flooded(gateway)
        assert LIMIT / 2 < gateway.outbox_counters.largest < 1.1 * LIMIT
        await client.finished.wait()
        await cancelled(gateway)
    finally:
        await client.close()
        os.close(from_client)
        os.close(to_client)
        os.close(source)


async def test_v3_who_reads_again_in_time_gets_the_last_progress_and_the_answer(
    open_gateway: OpenGateway,
) -> None:
    """Nothing is cut that is only slow."""
    async with open_gateway({"x": peer("FloodsProgress")}) as gateway:
        await gateway.tools()
        (source, from_client), (to_client, sink) = os.pipe(), os.pipe()
        client = StdioClient(gateway.protocol("flat"), counters=gateway.outbox_counters)
        await client.open(source, sink)
        os.write(from_client, call(modern=True) + b"\n")
        await flooded(gateway)
        await gateway.call("x.release")
        messages = await asyncio.to_thread(_read_until_answer, to_client)
        progress = [m["params"]["progress"] for m in messages if m.get("method") == "notifications/progress"]
        assert progress == sorted(progress)
        assert progress[-1] > len(progress) + FLOOD / 2, "some are left out, and the last is not"
        assert messages[-1]["result"]["content"][0]["text"] == "released"
        await client.close()
        for descriptor in (from_client, to_client, source):
            os.close(descriptor)


def _read_until_answer(descriptor: int) -> list[dict[str, Any]]:
    with os.fdopen(os.dup(descriptor), "rb") as pipe:
        messages: list[dict[str, Any]] = []
        while not messages or "result" not in messages[-1]:
            messages.append(json.loads(pipe.readline()))
        return messages
