"""All workers are replaced under load: ten thousand calls of both eras, to a server over HTTP and to a command."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from pathlib import Path

import aiohttp
import pytest

from tests.cluster.load import Load, counting_child
from tests.conftest import peer
from tests.gateway.serving import ACCEPT
from tests.peers.counting_servers import CountingServer
from tests.peers.ports import free_port
from tests.workers.conftest import Start
from tests.workers.test_subscriptions import accepted_by
from tests.workers.test_workers import HELLO
from wicket_mcp.codec import encode
from wicket_mcp.tasks import Tasks

CALLS = 10_000


@pytest.mark.timeout(400)
async def test_ten_thousand_calls_survive_the_replacement_of_all_workers(start: Start, tmp_path: Path) -> None:
    counted = tmp_path / "counted"
    async with CountingServer() as upstream, aiohttp.ClientSession() as http:
        servers = {"x": {"url": upstream.url}, "child": counting_child(counted)}
        async with start(servers, workers=2) as served:
            load = Load(http, served.address.removesuffix("/mcp"), ("x.echo", "child.echo"), clients=8)
            await load.start()
            for _ in range(2):
                await load.pass_by(CALLS // 4)
                before = set(served.workers())
                served.process.send_signal(signal.SIGHUP)
                while before & (now := set(await asyncio.to_thread(served.workers))) or len(now) != 2:
                    await load.pass_by(1)
            await load.pass_by(CALLS - len(load.sent))
            await load.stop()
        executed = [*upstream.executed, *counted.read_text().split()]
        assert load.failed == {}, str(load.failed)[:3000]
        assert sorted(executed) == sorted(load.sent)
        assert len(executed) >= CALLS


async def test_a_request_whose_body_comes_when_its_worker_leaves_is_answered_by_another(start: Start) -> None:
    """Its session was there when its head came, and has left when its body is there."""
    port, read, gone = free_port(), asyncio.Event(), asyncio.Event()
    params = {"name": "call_tool", "arguments": {"name": "a.echo", "arguments": {"message": "hi"}}}

    async def body() -> AsyncGenerator[bytes]:
        read.set()  # the head was answered with "100 Continue": the worker waits for this
        await gone.wait()
        yield encode({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})

    connector = aiohttp.TCPConnector(limit=1, keepalive_timeout=600, local_addr=("127.0.0.1", port))
    async with (
        start({"a": peer("Echo")}, workers=2) as served,
        aiohttp.ClientSession(connector=connector) as http,
        asyncio.timeout(60),
    ):
        async with http.post(served.address, json=HELLO, headers=ACCEPT) as answer:
            session = {**ACCEPT, "Mcp-Session-Id": answer.headers["Mcp-Session-Id"]}
        stream = {**session, "Accept": "text/event-stream"}
        async with served.client.session.get(served.address, headers=stream) as events:
            tasks = Tasks()
            headers = {**session, "Content-Type": "application/json"}
            work = http.post(served.address, data=body(), headers=headers, expect100=True)
            asking = tasks.start(work.__aenter__(), "ask", awaited=True)
            await read.wait()
            os.kill(accepted_by(served, port), signal.SIGTERM)
            await events.read()  # until it has ended: so has the session
            gone.set()
            answer = await asking
            assert answer.status == 200, await answer.text()
            assert (await answer.json())["result"]["content"][0]["text"] == "hi"
            await tasks.close()
