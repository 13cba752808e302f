"""Replicas that are replaced, killed and cut off under load: no call is lost, none runs twice."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import aiohttp

from tests.cluster.house import House, replicas
from tests.gateway.serving import Raw
from tests.peers.counting_servers import CountingServer
from tests.peers.postgres import Postgres
from tests.peers.redis import RedisServer
from wicket_mcp.tasks import Tasks

CLIENTS = 6
LEAVE = '[http]\nleave_after = "1s"\n'


class Load:
    """Clients that call all the time, each message once."""

    def __init__(self, house: House, http: aiohttp.ClientSession) -> None:
        self.sent: list[str] = []
        self.failed: dict[str, Any] = {}
        self._raw = Raw(http, f"{house.address}/mcp")
        self._begun = asyncio.Event()
        self._stop = False
        self._tasks = Tasks()

    def start(self) -> None:
        for client in range(CLIENTS):
            self._tasks.start(self._call(client), f"client {client}")

    async def stop(self) -> None:
        self._stop = True
        assert await self._tasks.wait(60)

    async def pass_by(self, calls: int) -> None:
        """Until so many more calls were begun."""
        until = len(self.sent) + calls
        async with asyncio.timeout(60):
            while len(self.sent) < until:
                self._begun.clear()
                await self._begun.wait()

    async def _call(self, client: int) -> None:
        number = 0
        while not self._stop:
            number += 1
            message = f"{client}-{number}"
            self.sent.append(message)
            self._begun.set()
            params = {"name": "call_tool", "arguments": {"name": "x.echo", "arguments": {"message": message}}}
            try:
                status, body = await self._raw.modern("tools/call", params)
                if status != 200 or body["result"]["content"][0]["text"] != message:
                    self.failed[message] = body
            except (aiohttp.ClientError, KeyError) as problem:
                self.failed[message] = problem


async def test_a_rolling_restart_under_load_loses_no_call_and_runs_none_twice(
    postgres: Postgres, tmp_path: Path
) -> None:
    async with CountingServer() as upstream, aiohttp.ClientSession() as http:
        servers = {"x": {"url": upstream.url}}
        async with replicas(tmp_path, postgres.database(), servers, options=LEAVE) as house:
            load = Load(house, http)
            load.start()
            for replica in house.replicas:
                await load.pass_by(50)
                assert await replica.stop() == 0
                await load.pass_by(50)
                await replica.start()
            await load.pass_by(50)
            await load.stop()
        assert load.failed == {}, str(load.failed)[:2000]
        assert Counter(upstream.executed) == Counter(load.sent)


async def test_what_is_killed_or_away_costs_only_what_was_in_flight_there(tmp_path: Path) -> None:
    with Postgres() as server, RedisServer() as redis:
        async with CountingServer() as upstream, aiohttp.ClientSession() as http:
            servers = {"x": {"url": upstream.url}}
            options = f'shared_limits = "{redis.address}"\n{LEAVE}'
            async with replicas(tmp_path, server.database(), servers, options=options) as house:
                load = Load(house, http)
                load.start()
                await load.pass_by(50)
                await asyncio.to_thread(redis.stop)
                await load.pass_by(50)
                await asyncio.to_thread(server.stop)
                await asyncio.to_thread(server.start)
                await load.pass_by(50)
                assert load.failed == {}
                await house.replicas[0].kill()
                await load.pass_by(100)
                await load.stop()
            assert len(load.failed) <= CLIENTS
            counted = Counter(upstream.executed)
            assert set(counted.values()) == {1}
            assert set(load.sent) - set(counted) <= set(load.failed)
