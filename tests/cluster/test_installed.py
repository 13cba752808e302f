"""A server that is installed or removed at one gateway while it runs is installed or removed at all."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp

from tests.cluster.house import replicas
from tests.cluster.test_ownership import last
from tests.conftest import peer
from tests.gateway.serving import Raw
from tests.peers.postgres import Postgres

ALLOWED = "allow_runtime_servers = true\n"


async def use(client: Raw, dialect: str, tool: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments}
    _, body = await Raw(client.session, f"{client.address}{dialect}").modern("tools/call", params)
    return last(body)["result"]


async def install_and_remove(first: Raw, second: Raw) -> None:
    async def ask_second() -> dict[str, Any]:
        return await use(second, "", "call_tool", name="added.pid", arguments={})

    assert (await ask_second())["isError"]
    done = await use(first, "/chain", "register_manual", manual_call_template={"name": "added", **peer("Echo")})
    assert not done.get("isError"), done
    own = await use(first, "", "call_tool", name="added.pid", arguments={})
    async with asyncio.timeout(60):
        while (answer := await ask_second()).get("isError"):
            pass
        assert answer["content"] == own["content"]  # one process for both
        done = await use(second, "/chain", "deregister_manual", manual_name="added")
        assert not done.get("isError"), done
        while not (await use(first, "", "call_tool", name="added.pid", arguments={})).get("isError"):
            pass


async def test_a_server_installed_at_one_replica_is_there_at_the_others(postgres: Postgres, tmp_path: Path) -> None:
    async with (
        replicas(tmp_path, postgres.database(), {}, count=2, options=ALLOWED) as house,
        aiohttp.ClientSession() as http,
    ):
        first, second = (Raw(http, f"{replica.address}/mcp") for replica in house.replicas)
        await install_and_remove(first, second)
