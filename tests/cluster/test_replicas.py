"""Replicas without stickiness: sessions that move, state that is everybody's, and what happens without a database."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import permutations
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.cluster.house import VAULT_KEY, House, Replica, replicas
from tests.cluster.keys import make_key, wicket
from tests.conftest import peer
from tests.gateway.serving import TOKEN, Raw
from tests.peers.counting_servers import CountingServer
from tests.peers.postgres import Postgres

OTHER_KEY = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDI="
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


@asynccontextmanager
async def house(folder: Path, store: str, **options: Any) -> AsyncGenerator[tuple[House, aiohttp.ClientSession]]:
    servers = {"x": peer("Echo"), **options.pop("servers", {})}
    async with replicas(folder, store, servers, **options) as house, aiohttp.ClientSession() as session:
        yield house, session


class Legacy:
    """A legacy client that says itself which replica it speaks to."""

    def __init__(self, http: aiohttp.ClientSession) -> None:
        self.http = http
        self.session = ""

    async def ask(self, replica: Replica, method: str, params: Any, **options: Any) -> tuple[int, Any]:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        extra = {"Mcp-Session-Id": self.session} if self.session else {}
        status, headers, answer = await Raw(self.http, f"{replica.address}/mcp").post(body, extra, **options)
        self.session = headers.get("Mcp-Session-Id", self.session)
        return status, answer

    async def end(self, replica: Replica) -> int:
        headers = {"Mcp-Session-Id": self.session, "Authorization": f"Bearer {TOKEN}"}
        async with self.http.delete(f"{replica.address}/mcp", headers=headers) as answer:
            return answer.status

    async def echo(self, replica: Replica, message: str, server: str = "x") -> str:
        params = {"name": "call_tool", "arguments": {"name": f"{server}.echo", "arguments": {"message": message}}}
        _, answer = await self.ask(replica, "tools/call", params)
        return answer["result"]["content"][0]["text"]


async def test_a_session_lives_everywhere_and_outlives_its_replica(postgres: Postgres, tmp_path: Path) -> None:
    options = '[http]\nmax_body = "100KiB"\n'
    async with house(tmp_path, postgres.database(), options=options) as (house_, http):
        first, second, third = house_.replicas
        client = Legacy(http)
        await client.ask(first, "initialize", HELLO)
        assert [await client.echo(replica, replica.address) for replica in house_.replicas] == [
            replica.address for replica in house_.replicas
        ]
        for replica in house_.replicas:
            assert (await client.ask(replica, "ping", {"padding": "x" * 200_000}))[0] == 413
        await first.kill()
        assert [await client.echo(replica, "still here") for replica in (second, third)] == ["still here"] * 2
        await third.stop()
        assert await client.echo(second, "alone") == "alone"
        assert await client.end(second) == 200
        assert (await client.ask(second, "ping", {}))[0] == 404


async def test_a_session_that_its_client_ended_is_restored_by_no_replica(postgres: Postgres, tmp_path: Path) -> None:
    async with house(tmp_path, postgres.database(), count=2) as (house_, http):
        first, second = house_.replicas
        client = Legacy(http)
        for ending in house_.replicas:
            client.session = ""
            await client.ask(first, "initialize", HELLO)
            assert await client.end(ending) == 200
            assert [(await client.ask(replica, "ping", {}))[0] for replica in house_.replicas] == [404, 404]
            assert await client.end(second) == 404
        await first.kill()
        assert (await client.ask(second, "ping", {}))[0] == 404


async def test_a_session_is_its_principals_alone_and_no_stranger_is_a_replica(
    postgres: Postgres, tmp_path: Path
) -> None:
    address = postgres.database()
    async with house(tmp_path, address, count=2) as (house_, http):
        first, second = house_.replicas
        key = await asyncio.to_thread(make_key, tmp_path, "ann")
        client = Legacy(http)
        await client.ask(first, "initialize", HELLO)
        for replica in house_.replicas:
            assert (await client.ask(replica, "ping", {}))[0] == 200
            assert (await client.ask(replica, "ping", {}, token=key))[0] == 404
        client.session = client.session[:-8] + "AAAAAAAA"
        assert (await client.ask(second, "ping", {}))[0] == 404
        for forged in ("x", "00000000.AAAA", client.session):
            body: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {}}
            async with http.post(f"{second.address}/mcp", json=body, headers={"wicket-peer": forged}) as answer:
                assert answer.status == 401


async def test_keys_and_results_are_everybodys(postgres: Postgres, tmp_path: Path) -> None:
    async with house(tmp_path, postgres.database(), count=2) as (house_, http):
        first, second = (Raw(http, f"{replica.address}/mcp") for replica in house_.replicas)
        key = await asyncio.to_thread(make_key, tmp_path, "ann")
        called = {"name": "call_tool", "arguments": {"name": "x.big", "arguments": {"rows": 3000}}}
        _, body = await first.modern("tools/call", called, Authorization=f"Bearer {key}")
        handle = body["result"]["_meta"]["wicket/result"]["id"]
        read = {"name": "read_result", "arguments": {"id": handle, "path": "items[2999].name"}}
        _, body = await second.modern("tools/call", read, Authorization=f"Bearer {key}")
        assert "row 2999" in json.dumps(body)
        await asyncio.to_thread(wicket, tmp_path, "keys", "revoke", "ann")
        async with asyncio.timeout(5):
            for raw in (first, second):
                while (await raw.modern("tools/list", Authorization=f"Bearer {key}"))[0] != 401:
                    pass


async def test_a_database_that_is_away_for_all_costs_no_call_and_readiness_warns(tmp_path: Path) -> None:
    with Postgres() as server:
        async with (
            CountingServer() as web,
            house(tmp_path, server.database(), count=2, servers={"web": {"url": web.url}}) as (house_, http),
        ):
            clients = [Legacy(http) for _ in house_.replicas]
            for replica, client in zip(house_.replicas, clients, strict=True):
                await client.ask(replica, "initialize", HELLO)
                for name in ("x", "web"):
                    assert await client.echo(replica, "before", name) == "before"
            await asyncio.to_thread(server.stop)
            for replica, client in zip(house_.replicas, clients, strict=True):
                assert await client.echo(replica, "meanwhile") == "meanwhile"
            for replica, client in zip(house_.replicas, clients, strict=True):
                async with asyncio.timeout(30):
                    while "The database cannot be reached" not in await readiness(http, replica):
                        pass
                await replica.ready()  # no replica can do more: the balancer must not be left without any
                assert [await client.echo(replica, str(n), "web") for n in range(3)] == ["0", "1", "2"]
            await asyncio.to_thread(server.start)
            for replica, client in zip(house_.replicas, clients, strict=True):
                async with asyncio.timeout(30):
                    while "The database cannot be reached" in await readiness(http, replica):
                        pass
                assert await client.echo(replica, "after") == "after"


async def test_a_result_that_could_not_be_stored_is_read_at_every_replica(tmp_path: Path) -> None:
    called = {"name": "call_tool", "arguments": {"name": "x.big", "arguments": {"rows": 3000}}}
    with Postgres() as server:
        servers = {"x": peer("Echo", placement="each")}
        async with house(tmp_path, server.database(), count=2, servers=servers) as (house_, http):
            first, second = (Raw(http, f"{replica.address}/mcp") for replica in house_.replicas)
            client = Legacy(http)
            await client.ask(house_.replicas[0], "initialize", HELLO)
            assert await client.echo(house_.replicas[1], "known") == "known"  # the second knows the first by now
            await first.modern("tools/call", called)
            await asyncio.to_thread(server.stop)
            _, body = await first.modern("tools/call", called)
            assert "kept in memory only" in json.dumps(body)
            handle = body["result"]["_meta"]["wicket/result"]["id"]
            read = {"name": "read_result", "arguments": {"id": handle, "path": "items[2999].name"}}
            _, body = await second.modern("tools/call", read)
            assert "row 2999" in json.dumps(body)
            await asyncio.to_thread(server.start)
            key = await asyncio.to_thread(make_key, tmp_path, "ann")
            _, body = await second.modern("tools/call", read, Authorization=f"Bearer {key}")
            assert body["result"]["_meta"]["wicket/error"]["code"] == "unknown_result"  # not hers
            async with http.get(f"{house_.replicas[0].address}/_replica/results/{handle}") as stranger:
                assert stranger.status == 401


async def test_replicas_with_other_keys_do_not_know_each_others_sessions(postgres: Postgres, tmp_path: Path) -> None:
    async with house(tmp_path, postgres.database(), count=1) as (house_, _):
        for number, variable in ((8, OTHER_KEY), (9, "not a key")):
            other = Replica(number, 0, tmp_path, house_.replicas[0].config, (), {"WICKET_VAULT_KEY": variable})
            with pytest.raises(AssertionError, match="WICKET_VAULT_KEY"):
                await other.start()


async def test_the_key_is_changed_replica_by_replica_while_all_understand_each_other(
    postgres: Postgres, tmp_path: Path
) -> None:
    both = f"{OTHER_KEY},{VAULT_KEY}"
    async with house(tmp_path, postgres.database(), count=2) as (house_, http):
        for keys in (f"{VAULT_KEY},{OTHER_KEY}", both, OTHER_KEY):
            if keys == OTHER_KEY:
                await asyncio.to_thread(wicket, tmp_path, "vault", "rotate", key=both)
            for replica in house_.replicas:
                assert await replica.stop() == 0
                replica.variables = {"WICKET_VAULT_KEY": keys}
                await replica.start()
                for home, other in permutations(house_.replicas):
                    client = Legacy(http)
                    await client.ask(home, "initialize", HELLO)
                    assert await client.echo(other, "understood") == "understood"
        stale = Replica(9, 0, tmp_path, house_.replicas[0].config, ())
        with pytest.raises(AssertionError, match="old,new"):
            await stale.start()


async def test_a_replica_that_leaves_says_so_and_answers_until_the_balancer_has_noticed(
    postgres: Postgres, tmp_path: Path
) -> None:
    options = '[http]\nleave_after = "10m"\n'
    async with house(tmp_path, postgres.database(), count=1, options=options) as (house_, http):
        [replica] = house_.replicas
        client = Legacy(http)
        await client.ask(replica, "initialize", HELLO)
        assert await client.echo(replica, "before") == "before"
        assert replica.process is not None
        replica.process.terminate()
        async with asyncio.timeout(30):
            while "leaving" not in await readiness(http, replica):
                pass
        async with http.get(f"{replica.address}/readyz") as answer:
            assert answer.status == 503
        assert await client.echo(replica, "still here") == "still here"
        await replica.kill()


async def readiness(http: aiohttp.ClientSession, replica: Replica) -> str:
    async with http.get(f"{replica.address}/readyz") as answer:
        return await answer.text()
