"""All workers are replaced under load: ten thousand calls of both eras, to a server over HTTP and to a command."""

import asyncio
import signal
from pathlib import Path

import aiohttp
import pytest

from tests.cluster.load import Load, counting_child
from tests.peers.counting_servers import CountingServer
from tests.workers.conftest import Start

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
