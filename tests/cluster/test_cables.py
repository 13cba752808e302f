"""Replicas on bad cables: notices of changes that do not arrive, and another replica that cannot be reached."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from tests.cluster.house import House, Replica, replicas
from tests.cluster.keys import make_key, wicket
from tests.cluster.test_replicas import HELLO, Legacy, readiness
from tests.conftest import peer
from tests.gateway.serving import Raw
from tests.peers.ports import free_port
from tests.peers.postgres import Postgres
from tests.peers.tcp_proxy import Cable, DeafCable


@asynccontextmanager
async def on_cable(house: House, cable: Cable, address: str) -> AsyncGenerator[Replica]:
    """Another replica, which reaches the database at `address` over the cable."""
    first = house.replicas[0]
    config = first.folder / "cable.toml"
    port = address.rpartition(":")[2].partition("/")[0]
    store = address.replace(f":{port}/", f":{cable.port}/") + "?sslmode=disable&gssencmode=disable"
    config.write_text(first.config.read_text().replace(address, store))
    replica = Replica(1, free_port(), first.folder, config, ())
    await replica.start()
    try:
        yield replica
    finally:
        await replica.stop()


async def test_a_notice_that_does_not_arrive_is_caught_by_looking(postgres: Postgres, tmp_path: Path) -> None:
    address = postgres.database()
    async with (
        DeafCable(postgres.port) as cable,
        replicas(tmp_path, address, {"x": peer("Echo")}, count=1) as house,
        aiohttp.ClientSession() as http,
    ):
        async with on_cable(house, cable, address) as other:
            key = await asyncio.to_thread(make_key, tmp_path, "ann")
            raw = Raw(http, f"{other.address}/mcp")

            async def status() -> int:
                return (await raw.modern("tools/list", Authorization=f"Bearer {key}"))[0]

            async with asyncio.timeout(60):
                while await status() != 200:  # the key is known by looking as well
                    pass
                before = cable.events.count("swallowed")
                await asyncio.to_thread(wicket, tmp_path, "keys", "revoke", "ann")
                while await status() != 401:
                    pass
            assert cable.events.count("swallowed") > before


async def test_a_result_of_a_replica_that_lost_the_database_is_read_at_another(
    postgres: Postgres, tmp_path: Path
) -> None:
    address = postgres.database()
    async with (
        Cable(postgres.port) as cable,
        replicas(tmp_path, address, {"x": peer("Echo", placement="each")}, count=1) as house,
        aiohttp.ClientSession() as http,
        on_cable(house, cable, address) as lost,
    ):
        called = {"name": "call_tool", "arguments": {"name": "x.big", "arguments": {"rows": 3000}}}
        raw, other = Raw(http, f"{lost.address}/mcp"), Raw(http, f"{house.replicas[0].address}/mcp")
        await raw.modern("tools/call", called)
        await cable.pull()
        _, body = await raw.modern("tools/call", called)
        assert "kept in memory only" in json.dumps(body)
        handle = body["result"]["_meta"]["wicket/result"]["id"]
        async with asyncio.timeout(30):
            while "The database cannot be reached" not in await readiness(http, lost):
                pass  # the other one sees by now that it has lost its lock
        read = {"name": "read_result", "arguments": {"id": handle, "path": "items[2999].name"}}
        _, body = await other.modern("tools/call", read)
        assert "row 2999" in json.dumps(body)


async def test_a_restored_copy_of_a_session_does_not_outlive_the_end_of_the_session(
    postgres: Postgres, tmp_path: Path
) -> None:
    async with (
        replicas(tmp_path, postgres.database(), {"x": peer("Echo", placement="each")}, count=1) as house,
        aiohttp.ClientSession() as http,
    ):
        [third], port = house.replicas, free_port()
        async with Cable(port) as cable:
            home = Replica(
                1, port, tmp_path, third.config, (), {"WICKET_REPLICA_URL": f"http://127.0.0.1:{cable.port}"}
            )
            await home.start()
            try:
                client = Legacy(http)
                await client.ask(home, "initialize", HELLO)
                assert await client.echo(third, "passed on") == "passed on"
                await cable.pull()
                assert await client.echo(third, "restored") == "restored"  # a copy, because home cannot be reached
                await cable.plug()
                assert await client.end(home) == 200
                assert (await client.ask(third, "ping", {}))[0] == 404
            finally:
                await home.kill()
        async with asyncio.timeout(30):
            while (await client.ask(third, "ping", {}))[0] != 404:  # still asked for at home, which has just died
                pass
        assert [(await client.ask(third, "ping", {}))[0] for _ in range(5)] == [404] * 5
