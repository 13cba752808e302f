"""A replica that stands still (stopped, or on a machine that is): its connections live, but nobody acts behind them."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.cluster.house import House, Replica, replicas
from tests.cluster.load import Load, counting_child, is_typed
from tests.cluster.test_ownership import alive, call, owner_of, pid
from tests.peers.postgres import Postgres
from wicket_mcp.tasks import Tasks

CLIENTS = 8


def others_than(house: House, one: Replica) -> list[Replica]:
    return [replica for replica in house.replicas if replica is not one]


def code_of(result: dict[str, Any]) -> str:
    return result["_meta"]["wicket/error"]["code"]


async def pid_in_the_end(http: aiohttp.ClientSession, replica: Replica) -> int:
    """The process that answers there, when what was sent to the frozen owner has failed."""
    async with asyncio.timeout(60):
        while (result := await call(http, replica, "pid")).get("isError"):
            assert is_typed({"result": result}), result
    return int(result["content"][0]["text"])


@pytest.mark.timeout(180)
async def test_the_servers_of_a_frozen_owner_move_and_it_stops_its_own_before_it_serves_again(
    postgres: Postgres, tmp_path: Path
) -> None:
    """Defect 5: calls on it hung for as long as it stood still, and nobody took over."""
    counted = tmp_path / "counted"
    async with (
        replicas(tmp_path, postgres.database(), {"x": counting_child(counted)}, check="3s") as house,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http,
    ):
        process = await pid(http, house.replicas[0])
        owner = owner_of(house, process)
        linked, other = others_than(house, owner)
        assert await pid(http, linked) == process
        load = Load(http, house.address, clients=CLIENTS)
        await load.start()
        await load.pass_by(50)
        tasks = Tasks()
        waiting = tasks.start(call(http, linked, "slow"), "a call in flight", awaited=True)
        while (await call(http, other, "calls"))["structuredContent"]["waiting"] == 0:
            pass
        owner.freeze()
        assert code_of(await waiting) == "crashed"
        moved = await pid_in_the_end(http, linked)
        assert moved != process
        assert owner_of(house, moved) is not owner
        assert await pid_in_the_end(http, other) == moved
        await load.pass_by(200)
        owner.thaw()
        await owner.ready()
        assert await pid_in_the_end(http, owner) == moved
        await load.pass_by(50)
        await load.stop()
        assert not alive(process)
        await tasks.close()
    executed = counted.read_text().split()
    account = load.account(executed)
    assert account["lost"] == account["doubled"] == []
    assert all(is_typed(problem) for problem in load.failed.values()), load.failed
    assert len(load.failed) <= 2 * CLIENTS, load.failed
