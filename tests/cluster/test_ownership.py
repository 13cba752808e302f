"""One replica runs a server's process for all; another one takes over when it dies."""

import asyncio
import os
from pathlib import Path
from typing import Any

import aiohttp

from tests.cluster.house import House, Replica, replicas
from tests.cluster.keys import make_key
from tests.conftest import peer
from tests.gateway.serving import Raw
from tests.peers.postgres import Postgres
from wicket_mcp.tasks import Tasks


async def call(http: aiohttp.ClientSession, replica: Replica, tool: str, **arguments: Any) -> dict[str, Any]:
    """The answer to a call of a modern client, at one replica."""
    params = {"name": "call_tool", "arguments": {"name": f"x.{tool}", "arguments": arguments}}
    _, body = await Raw(http, f"{replica.address}/mcp").modern("tools/call", params)
    return last(body)["result"]


def last(body: Any) -> dict[str, Any]:
    """The answer, which a stream ends with."""
    return body[-1] if isinstance(body, list) else body  # pyright: ignore[reportUnknownVariableType]


async def pid(http: aiohttp.ClientSession, replica: Replica) -> int:
    """The process that answers there; a server that moves is asked again."""
    async with asyncio.timeout(30):
        while True:
            result = await call(http, replica, "pid")
            if not result.get("isError"):
                return int(result["content"][0]["text"])
            assert result["_meta"]["wicket/error"]["retryable"], result


def owner_of(house: House, process: int) -> Replica:
    parent = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    family = {replica.process.pid: replica for replica in house.replicas if replica.process is not None}
    while parent not in family:
        parent = int(Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[1])
    return family[parent]


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


async def test_one_process_for_all_and_another_owner_when_it_dies(postgres: Postgres, tmp_path: Path) -> None:
    async with replicas(tmp_path, postgres.database(), {"x": peer("Echo")}) as house, aiohttp.ClientSession() as http:
        first = {await pid(http, replica) for replica in house.replicas}
        assert len(first) == 1
        (process,) = first
        owner = owner_of(house, process)
        others = [replica for replica in house.replicas if replica is not owner]
        tasks = Tasks()
        hanging = tasks.start(call(http, others[0], "slow"), "a call in flight", awaited=True)
        while (await call(http, others[1], "calls"))["structuredContent"]["waiting"] == 0:
            pass
        await owner.kill()
        failed = await hanging
        assert failed["isError"]
        assert failed["_meta"]["wicket/error"]["code"] == "crashed"
        second = {await pid(http, replica) for replica in others}
        assert len(second) == 1
        assert second != first
        assert not alive(process)
        await owner.start()
        assert {await pid(http, replica) for replica in house.replicas} == second
        await tasks.close()


async def test_progress_and_large_answers_pass_and_an_owner_that_leaves_hands_over(
    postgres: Postgres, tmp_path: Path
) -> None:
    async with replicas(tmp_path, postgres.database(), {"x": peer("Echo")}, count=2) as house:
        async with aiohttp.ClientSession() as http:
            process = await pid(http, house.replicas[0])
            owner = owner_of(house, process)
            (other,) = [replica for replica in house.replicas if replica is not owner]
            for replica in (owner, other):
                assert (await call(http, replica, "steps"))["content"][0]["text"] == "three steps"
                assert (await call(http, replica, "fails"))["content"][0]["text"] == "it went wrong"
                refused = await call(http, replica, "refuses")
                assert "not today (-32050)" in refused["content"][0]["text"]
            assert await owner.stop() == 0
            assert await pid(http, other) != process
            assert not alive(process)


async def test_a_restart_of_the_database_moves_no_process(tmp_path: Path) -> None:
    with Postgres() as server:
        async with replicas(tmp_path, server.database(), {"x": peer("Echo")}, count=2) as house:
            async with aiohttp.ClientSession() as http:
                before = [await pid(http, replica) for replica in house.replicas]
                await asyncio.to_thread(server.stop)
                await asyncio.to_thread(server.start)
                assert [await pid(http, replica) for replica in house.replicas] == before


async def test_a_server_without_state_may_run_everywhere_and_a_stranger_reaches_none(
    postgres: Postgres, tmp_path: Path
) -> None:
    servers = {"x": peer("Echo", placement="each")}
    async with replicas(tmp_path, postgres.database(), servers, count=2) as house, aiohttp.ClientSession() as http:
        assert len({await pid(http, replica) for replica in house.replicas}) == 2
        async with http.get(f"{house.replicas[0].address}/owned/x") as answer:
            assert answer.status == 401
        headers = {"Authorization": "Bearer a-token-for-tests-only"}
        async with http.get(f"{house.replicas[0].address}/owned/x", headers=headers) as answer:
            assert answer.status == 404


async def test_every_user_has_a_process_of_their_own_which_one_replica_runs(postgres: Postgres, tmp_path: Path) -> None:
    servers = {"x": peer("Echo", placement="user")}
    async with replicas(tmp_path, postgres.database(), servers, count=2) as house, aiohttp.ClientSession() as http:
        keys = {name: await asyncio.to_thread(make_key, tmp_path, name) for name in ("ann", "bob")}
        processes: dict[str, set[str]] = {"ann": set(), "bob": set()}
        params: dict[str, Any] = {"name": "call_tool", "arguments": {"name": "x.pid", "arguments": {}}}
        for replica in (*house.replicas, *house.replicas):
            for name, key in keys.items():
                raw = Raw(http, f"{replica.address}/mcp")
                _, body = await raw.modern("tools/call", params, Authorization=f"Bearer {key}")
                processes[name].add(last(body)["result"]["content"][0]["text"])
        assert [len(found) for found in processes.values()] == [1, 1]
        assert processes["ann"] != processes["bob"]
