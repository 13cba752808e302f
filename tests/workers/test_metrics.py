"""The metrics of several workers: whichever is asked tells of all, and no counter ever goes back."""

import asyncio
import os
import re
import signal

import aiohttp

from tests.gateway.serving import raw_client
from tests.peers.counting_servers import CountingServer
from tests.peers.ports import free_port
from tests.workers.conftest import Served, Start

CALLS = 'wicket_calls_total{server="x",tool="echo",outcome="ok"}'


async def scrape(root: str) -> dict[str, float]:
    """What a scraper reads that opens a connection for it."""
    async with aiohttp.ClientSession() as session, session.get(f"{root}/metrics") as answer:
        assert answer.status == 200
        lines = re.findall(r"^(\w[^#\n]*) (\S+)$", await answer.text(), re.MULTILINE)
        return {name: float(value) for name, value in lines}


async def call_at_each(served: Served) -> int:
    """Calls over new connections until every worker has answered one; returns their number."""
    numbers = 0
    for _ in range(12):
        async with raw_client(served.address) as client:
            await Served(served.process, served.address, client).call("x.echo", message="hello")
            numbers += 1
    return numbers


async def test_each_worker_tells_of_all_and_of_those_that_ended(start: Start) -> None:
    async with CountingServer() as upstream, start({"x": {"url": upstream.url}}, workers=2) as served:
        root = served.address.removesuffix("/mcp")
        count = await call_at_each(served)
        for _ in range(6):  # whichever accepts
            read = await scrape(root)
            assert read[CALLS] == read['wicket_call_duration_seconds_count{server="x"}'] == count
            assert read['wicket_upstream_up{server="x"}'] == 1
        before = served.workers()
        os.kill(before[0], signal.SIGKILL)
        while len(now := await asyncio.to_thread(served.workers)) < 2 or before[0] in now:
            assert (await scrape(root))[CALLS] == count
        count += await call_at_each(served)
        assert (await scrape(root))[CALLS] == count


async def test_a_port_of_its_own_tells_of_all_workers_too(start: Start) -> None:
    port = free_port()
    beside = ("--metrics", f"127.0.0.1:{port}")
    async with CountingServer() as upstream, start({"x": {"url": upstream.url}}, workers=2, more=beside) as served:
        count = await call_at_each(served)
        for _ in range(4):
            assert (await scrape(f"http://127.0.0.1:{port}"))[CALLS] == count
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/_replica/metrics") as answer:
                assert answer.status == 404
            async with session.get(f"{served.address.removesuffix('/mcp')}/_replica/metrics") as answer:
                assert answer.status in (401, 404)
