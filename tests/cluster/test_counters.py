"""A counter of one replica never falls, whoever runs a server."""

from pathlib import Path

import aiohttp

from tests.cluster.house import Replica, replicas
from tests.cluster.test_under_way import call, stop
from tests.conftest import peer
from tests.gateway.serving import TOKEN
from tests.peers.postgres import Postgres
from tests.telemetry.test_metrics import values


async def read(http: aiohttp.ClientSession, replica: Replica) -> dict[str, float]:
    async with http.get(f"{replica.address}/metrics", headers={"Authorization": f"Bearer {TOKEN}"}) as answer:
        return values(await answer.text())


async def test_restarts_stay_counted_where_they_happened_when_another_replica_runs_the_server(
    postgres: Postgres, tmp_path: Path
) -> None:
    restarts = 'wicket_upstream_restarts_total{server="x"}'
    async with (
        replicas(tmp_path, postgres.database(), {"x": peer("DiesMidCall")}, count=2) as house,
        aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http,
    ):
        first, second = house.replicas
        first_child = await call(http, first, "x.pid")
        await call(http, first, "x.slow")  # dies
        assert await call(http, first, "x.pid") != first_child
        assert ((await read(http, first))[restarts], (await read(http, second))[restarts]) == (1, 0)
        await stop(http, first, "x", int(await call(http, first, "x.pid")))
        child = await call(http, second, "x.pid")
        assert await call(http, first, "x.pid") == child  # which the second runs now, for both
        assert ((await read(http, first))[restarts], (await read(http, second))[restarts]) == (1, 0)
