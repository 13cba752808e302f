"""Who keeps a task is gone only if the database says so: not if it has just joined, and not if nobody can say."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from tests.peers.postgres import Postgres
from tests.peers.tcp_proxy import Cable
from wicket_mcp.cluster.members import Member, tag
from wicket_mcp.cluster.relay import Relay
from wicket_mcp.cluster.statements import Statements
from wicket_mcp.errors import Unavailable
from wicket_mcp.sealing import Ring
from wicket_mcp.store.open import open_store
from wicket_mcp.store.postgres.members import PostgresMembers
from wicket_mcp.surface.outbox import Counters
from wicket_mcp.surface.replica_router import ReplicaRouter
from wicket_mcp.surface.sessions import Sessions


@asynccontextmanager
async def member(address: str, name: str) -> AsyncGenerator[tuple[PostgresMembers, ReplicaRouter]]:
    store, ring = await open_store(address), Ring([bytes(32)])
    members = await PostgresMembers.join(address, name, lambda _: f"http://{name}")
    router = ReplicaRouter(
        name, ring, Relay(Statements(ring, name)), Sessions(lambda _number, _principal: None, Counters()), store, 2**20
    )
    router.join(members)
    try:
        yield members, router
    finally:
        await members.close()
        await store.close()


async def test_all_who_ask_at_once_find_a_replica_that_has_just_joined(postgres: Postgres) -> None:
    address = postgres.database()
    async with member(address, "first") as (_, router), member(address, "second"):
        number = tag("second", "x")
        assert await asyncio.gather(*(router.has_task(number) for _ in range(3))) == [True] * 3
        assert not await router.has_task(tag("gone", "x"))


async def test_without_the_database_nobody_is_taken_for_gone(postgres: Postgres) -> None:
    address = postgres.database()
    async with Cable(postgres.port) as cable:
        over_cable = address.replace(f":{postgres.port}/", f":{cable.port}/")
        async with member(over_cable, "first") as (_, router):
            await cable.pull()
            for _ in range(2):
                with pytest.raises(Unavailable, match="not known"):
                    await router.has_task(tag("second", "x"))
            await cable.plug()


async def test_a_replica_that_is_back_is_not_forgotten(postgres: Postgres) -> None:
    address = postgres.database()
    async with member(address, "first") as (members, _), member(address, "second"):
        await members.forget(Member("second", "http://second"))  # who says so saw it a moment ago, when it was away
        await members.look()
        assert set(members.all) == {"first", "second"}
