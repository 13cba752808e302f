"""Replicas that are replaced, killed and left alone under load: no call is lost, none runs twice."""

import asyncio
from pathlib import Path

import aiohttp
import pytest

from tests.cluster.house import replicas
from tests.cluster.load import Load, counting_child, is_typed
from tests.peers.counting_servers import CountingServer
from tests.peers.postgres import Postgres
from tests.peers.redis import RedisServer

CLIENTS = 8
LEAVE = '[http]\nleave_after = "1s"\n'
TOOLS = ("x.echo", "child.echo")
NOTHING = {"failed": list[str](), "lost": list[str](), "doubled": list[str]()}


@pytest.mark.timeout(400)
async def test_a_rolling_restart_under_ten_thousand_calls_loses_none_and_runs_none_twice(
    postgres: Postgres, tmp_path: Path
) -> None:
    counted = tmp_path / "counted"
    async with CountingServer() as upstream, aiohttp.ClientSession() as http:
        servers = {"x": {"url": upstream.url}, "child": counting_child(counted)}
        async with replicas(tmp_path, postgres.database(), servers, options=LEAVE) as house:
            load = Load(http, house.address, TOOLS, CLIENTS)
            await load.start()
            for replica in house.replicas:
                await load.pass_by(1500)
                assert await replica.stop() == 0
                await load.pass_by(1500)
                await replica.start()
            await load.pass_by(10_000 - len(load.sent))
            await load.stop()
        executed = [*upstream.executed, *counted.read_text().split()]
        assert load.account(executed) == NOTHING, str(load.failed)[:2000]
        assert sorted(executed) == sorted(load.sent)
        assert len(executed) >= 10_000


async def test_what_is_killed_or_away_costs_only_what_was_in_flight_there(tmp_path: Path) -> None:
    counted = tmp_path / "counted"
    with Postgres() as server, RedisServer() as redis:
        async with CountingServer() as upstream, aiohttp.ClientSession() as http:
            servers = {"x": {"url": upstream.url}, "child": counting_child(counted)}
            options = f'shared_limits = "{redis.address}"\n{LEAVE}'
            async with replicas(tmp_path, server.database(), servers, options=options) as house:
                load = Load(http, house.address, TOOLS, CLIENTS)
                await load.start()
                await load.pass_by(50)
                await asyncio.to_thread(redis.stop)
                await load.pass_by(50)
                await asyncio.to_thread(server.stop)
                await asyncio.to_thread(server.start)
                await load.pass_by(50)
                assert load.failed == {}
                await house.replicas[0].kill()
                begun = {*load.sent}  # its sockets are closed: nothing is sent there any more
                await load.pass_by(200)
                await load.stop()
            assert load.failed.keys() <= begun, load.failed
            executed = [*upstream.executed, *counted.read_text().split()]
            account = load.account(executed)
            assert account["lost"] == account["doubled"] == []
            assert "twice" not in executed
            assert all(is_typed(problem) for problem in load.failed.values()), load.failed
