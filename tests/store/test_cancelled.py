"""Whoever gives up waiting for PostgreSQL leaves every connection as it was: nothing half done, no lock forgotten."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager

import psycopg
import pytest

from tests.peers.postgres import Postgres
from tests.peers.tcp_proxy import Cable
from wicket_mcp.cluster.members import Member
from wicket_mcp.cluster.pulse import answers
from wicket_mcp.errors import NoOwner
from wicket_mcp.store.open import open_store
from wicket_mcp.store.postgres.members import PostgresMembers
from wicket_mcp.upstream.lock_ownership import LockOwnership
from wicket_mcp.upstream.ownership import Claim

TURNS = 7
"""How much later every attempt is given up than the one before, in turns of the loop."""


def ignore() -> None:
    """Nothing runs here that would have to be stopped."""


async def give_up(work: "Awaitable[object]", turns: int) -> bool:
    """Cancel `work` after so many turns; whether it had ended by itself."""
    task = asyncio.ensure_future(work)
    for _ in range(turns):
        await asyncio.sleep(0)
    done = task.done()
    task.cancel()
    await asyncio.wait({task})
    return done


async def test_calls_of_the_store_that_are_given_up_leave_its_connections_usable(postgres: Postgres) -> None:
    address = postgres.database()
    store = await open_store(address)
    await store.save_note("kept", "before")
    with psycopg.connect(address) as locking, psycopg.connect(address, autocommit=True) as looking:
        locking.execute("LOCK TABLE note IN ACCESS EXCLUSIVE MODE")  # so that they must wait
        waiting = [asyncio.ensure_future(store.save_note("kept", "meanwhile"))]
        waiting += [asyncio.ensure_future(store.load_note("kept")) for _ in range(8)]  # more than there are readers
        blocked = b"SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        while len(looking.execute(blocked).fetchall()) < 4:
            await asyncio.sleep(0)
        for call in waiting:
            call.cancel()
        await asyncio.wait(waiting)
        assert all(call.cancelled() for call in waiting)
    await store.save_note("kept", "after")
    assert await asyncio.gather(*(store.load_note("kept") for _ in range(8))) == ["after"] * 8
    with psycopg.connect(address) as connection:
        text = "SELECT state FROM pg_stat_activity WHERE application_name = 'wicket' AND datname = current_database()"
        assert {state for (state,) in connection.execute(text.encode())} == {"idle"}
    await store.close()


@asynccontextmanager
async def two_replicas(address: str) -> AsyncGenerator[tuple[LockOwnership, LockOwnership]]:
    """What two of them know about who owns what."""
    await (await open_store(address)).close()
    joined = [await PostgresMembers.join(address, name, lambda _: "http://nobody") for name in ("first", "second")]
    owners: dict[str, LockOwnership] = {}

    async def still_owns(member: Member, key: str, epoch: int) -> bool | None:
        return owners[member.id].epoch(key) == epoch

    async def locate(member: Member, key: str) -> Claim | None:
        return None

    owners |= {members.me: LockOwnership(members, still_owns, locate, answers) for members in joined}
    try:
        yield owners["first"], owners["second"]
    finally:
        for ownership in owners.values():
            await ownership.close()
        for members in joined:
            await members.close()


async def test_a_claim_that_is_given_up_at_any_moment_is_nobodys(postgres: Postgres) -> None:
    async with two_replicas(postgres.database()) as (first, second), asyncio.timeout(60):
        turns, done = 0, False
        while not done:
            done = await give_up(first.claim("x", ignore), turns)
            if done:
                await first.release("x", first.epoch("x"))
            while not (await second.claim("x", ignore)).ours:
                pass
            assert first.epoch("x") == 0
            await second.release("x", second.epoch("x"))
            turns += TURNS
        assert turns > 2 * TURNS  # some were given up in the middle


async def test_a_claim_that_could_not_be_recorded_is_nobodys(postgres: Postgres) -> None:
    address = postgres.database()
    async with two_replicas(address) as (first, second), asyncio.timeout(60):
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("ALTER TABLE wicket_owner ADD CONSTRAINT full_disk CHECK (epoch < 0) NOT VALID")
            with pytest.raises(NoOwner, match="Try again when the database is back"):
                await first.claim("x", ignore)
            connection.execute("ALTER TABLE wicket_owner DROP CONSTRAINT full_disk")
        assert (await second.claim("x", ignore)).ours


async def test_looks_that_are_given_up_leave_a_member_its_connection(postgres: Postgres) -> None:
    address = postgres.database()
    await (await open_store(address)).close()
    async with Cable(postgres.port) as cable:
        members = await _join(address, postgres.port, cable)
        turns = 0
        while not await give_up(members.look(), turns):
            turns += TURNS
        await members.look()
        assert list(members.all) == ["me"]
        assert (await members.claim("x")) is not None
        await members.close()


async def test_a_connection_without_answers_is_ended_before_anything_else_is_tried(postgres: Postgres) -> None:
    address = postgres.database()
    await (await open_store(address)).close()
    async with Cable(postgres.port) as cable:
        members = await _join(address, postgres.port, cable)
        lost = asyncio.Event()
        members.on_lost.append(lost.set)
        cable.silent = True
        await lost.wait()
        while len(cable.events) < 2:
            cable.changed.clear()
            await cable.changed.wait()
        assert cable.events[:2] == ["connected", "closed"]
        await members.close()


async def _join(address: str, port: int, cable: Cable) -> PostgresMembers:
    """A member that reaches the database over the cable."""
    return await PostgresMembers.join(address.replace(f":{port}/", f":{cable.port}/"), "me", lambda _: "http://me")


async def test_a_release_that_could_not_be_recorded_is_a_release(postgres: Postgres) -> None:
    """B20: the lock stayed with the connection, and the next claim counted it twice."""
    address = postgres.database()
    async with two_replicas(address) as (first, second), asyncio.timeout(60):
        assert (await first.claim("x", ignore)).ours
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("ALTER TABLE wicket_owner ADD CONSTRAINT full_disk CHECK (epoch < 0) NOT VALID")
            await first.release("x", first.epoch("x"))
            connection.execute("ALTER TABLE wicket_owner DROP CONSTRAINT full_disk")
        assert (await second.claim("x", ignore)).ours


async def test_a_member_without_its_lock_is_suspected_until_it_is_forgotten(postgres: Postgres) -> None:
    address = postgres.database()
    await (await open_store(address)).close()
    first = await PostgresMembers.join(address, "first", lambda _: "http://first")
    async with Cable(postgres.port) as cable:
        far = address.replace(f":{postgres.port}/", f":{cable.port}/")
        others = [await PostgresMembers.join(far, name, lambda _: "http://far") for name in ("second", "third")]
        await first.look()
        assert (set(first.all), set(first.suspects)) == ({"first", "second", "third"}, set())
        await cable.pull()
        async with asyncio.timeout(30):
            while set(first.all) != {"first"}:
                await first.look()
        assert set(first.suspects) == {"second", "third"}
        await first.forget(first.suspects["second"])
        assert set(first.suspects) == {"third"}
        await first.look()
        assert (set(first.all), set(first.suspects)) == ({"first"}, {"third"})
        for members in (first, *others):
            await members.close()
