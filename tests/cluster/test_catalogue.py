"""What one replica learns of a server, the others know: the database tells them."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp

from tests.cluster.house import Replica, replicas
from tests.cluster.test_ownership import call
from tests.conftest import peer
from tests.gateway.serving import Raw
from tests.peers.postgres import Postgres


async def tools(http: aiohttp.ClientSession, replica: Replica) -> set[str]:
    _, body = await Raw(http, f"{replica.address}/mcp/flat").modern("tools/list")
    listed: list[dict[str, Any]] = body["result"]["tools"]
    return {tool["name"] for tool in listed}


async def test_a_tool_that_one_replica_hears_of_is_listed_by_all(postgres: Postgres, tmp_path: Path) -> None:
    servers = {"x": peer("GrowsATool", placement="each")}  # whose other processes have nothing new to tell
    async with replicas(tmp_path, postgres.database(), servers) as house, aiohttp.ClientSession() as http:
        before = [await tools(http, replica) for replica in house.replicas]
        assert before[0] == before[1] == before[2]
        await call(http, house.replicas[0], "release")
        async with asyncio.timeout(30):
            for replica in house.replicas:
                while await tools(http, replica) == before[0]:
                    pass
        after = [await tools(http, replica) for replica in house.replicas]
        assert after[0] == after[1] == after[2]
        assert len(after[0]) == len(before[0]) + 1
