"""What a server keeps for a client's session outlives the client's replica: another one goes on in the same session."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import psycopg

from tests.cluster.house import Replica, replicas
from tests.cluster.test_replicas import HELLO, Legacy
from tests.conftest import Server
from tests.peers.counting_servers import CountsForSessions
from tests.peers.postgres import Postgres


@asynccontextmanager
async def counting(address: str, folder: Path) -> AsyncGenerator[tuple[list[Replica], CountsForSessions, Legacy]]:
    """Two replicas in front of a server that counts, and a client whose session began at the first."""
    async with CountsForSessions() as server:
        servers: dict[str, Server] = {"web": {"url": server.url, "isolation": "session"}}
        async with replicas(folder, address, servers, count=2) as house, aiohttp.ClientSession() as http:
            client = Legacy(http)
            await client.ask(house.replicas[0], "initialize", HELLO)
            yield house.replicas, server, client


async def count(client: Legacy, replica: Replica) -> int:
    return int(await client.echo(replica, "again", "web"))


def session_of(server: CountsForSessions) -> str:
    (session,) = server.calls
    return session


async def test_a_count_goes_on_at_another_replica_and_is_ended_once(postgres: Postgres, tmp_path: Path) -> None:
    async with counting(postgres.database(), tmp_path) as ((first, second), server, client):
        assert [await count(client, replica) for replica in (first, second, first)] == [1, 2, 3]
        session = session_of(server)
        await first.kill()
        assert [await count(client, second) for _ in range(2)] == [4, 5]
        assert len(server.sessions) <= 3, "the client's, and one of each replica for its listings: no second handshake"
        numbers = [
            received.body["id"]
            for received in server.received
            if received.verb == "POST" and received.headers.get("mcp-session-id") == session and "id" in received.body
        ]
        assert len(set(numbers)) == len(numbers), "no id is used twice in a session"
        assert await client.end(second) == 200
        await server.wait_for_end(session)
    assert server.ended.count(session) == 1


async def test_a_replica_that_stops_leaves_the_session_to_the_next(postgres: Postgres, tmp_path: Path) -> None:
    async with counting(postgres.database(), tmp_path) as ((first, second), server, client):
        assert await count(client, first) == 1
        assert await first.stop() == 0
        assert await count(client, second) == 2
        session = session_of(server)
        await first.start()
        assert await second.stop() == 0
        assert await count(client, first) == 3
        assert session not in server.ended
        assert await client.end(first) == 200
        await server.wait_for_end(session)
    assert server.ended.count(session) == 1


async def test_a_session_is_ended_by_a_replica_that_never_used_it(postgres: Postgres, tmp_path: Path) -> None:
    async with counting(postgres.database(), tmp_path) as ((first, second), server, client):
        assert await count(client, first) == 1
        session = session_of(server)
        await first.kill()
        assert await client.end(second) == 200
        await server.wait_for_end(session)
    assert server.ended.count(session) == 1


async def test_a_session_that_the_server_forgot_meanwhile_is_begun_again(postgres: Postgres, tmp_path: Path) -> None:
    async with counting(postgres.database(), tmp_path) as ((first, second), server, client):
        assert [await count(client, first) for _ in range(2)] == [1, 2]
        await first.kill()
        server.sessions.clear()
        assert [await count(client, second) for _ in range(2)] == [1, 2]
        lost, begun = server.calls
        assert await client.end(second) == 200
        await server.wait_for_end(begun)
    assert lost not in server.ended


async def test_who_reads_the_database_learns_no_session_of_a_server(postgres: Postgres, tmp_path: Path) -> None:
    address = postgres.database()
    async with counting(address, tmp_path) as ((first, _), server, client):
        assert await count(client, first) == 1
        (record,) = await asyncio.to_thread(read_records, address)
        assert session_of(server).encode() not in record
        assert b"CountsForSessions" not in record


def read_records(address: str) -> list[bytes]:
    with psycopg.connect(address) as connection:
        text = "SELECT body FROM oauth_ticket WHERE kind = 'upstream session'"
        return [bytes(row[0]) for row in connection.execute(text).fetchall()]
