"""Who owns a server, while everything that replicas stand on fails in the worst moment; seconds here cost nothing."""

import asyncio
import gc
import random

import pytest

from tests.simulation.clock import beyond
from tests.simulation.replicas import World, play
from wicket_mcp.cluster.lease import LEASE
from wicket_mcp.errors import Crashed, NoOwner, WicketError

SEEDS = 60
AGREED = 15.0
"""Seconds after the last fault in which all must have found together again."""


async def press(world: World, name: str, until: str) -> int:
    """Call at a replica again and again until another one runs the server; how many calls were answered."""
    answered = 0
    while until not in world.running("x"):
        try:
            await asyncio.wait_for(world.call(name, "x", f"{name}{answered}"), 0.5)
        except (WicketError, TimeoutError):
            await asyncio.sleep(0.05)
        answered += 1
    return answered


def test_who_takes_over_waits_until_the_earlier_owner_has_certainly_stopped() -> None:
    """Its locks are gone, and it cannot be asked: it may go on until its lease is over."""

    async def story(world: World) -> None:
        await world.call("a", "x", "first")
        world.engine.cut.add("a")
        world.engine.lose("a")
        world.part("a")
        calling = beyond(press(world, "a", until="b"))
        began = asyncio.get_running_loop().time()
        assert (await world.call("b", "x", "second"))["epoch"] == 2
        assert asyncio.get_running_loop().time() - began >= LEASE
        assert await calling > 3
        assert world.running("x") == ["b"]

    play(story)


def test_a_claim_that_waits_does_not_survive_the_loss_of_its_connection() -> None:
    """B5: it succeeded under its old epoch, although another replica had taken the lock since."""

    async def story(world: World) -> None:
        await world.call("a", "x", "first")
        world.part("a")
        world.engine.cut.add("a")
        world.engine.lose("a")
        waiting = beyond(world.call("b", "x", "second"))
        await asyncio.sleep(1)
        assert not waiting.done()
        world.engine.lose("b")
        third = beyond(world.call("c", "x", "third"))
        epochs = [(await waiting)["epoch"], (await third)["epoch"]]
        assert epochs == [2, 2]
        assert len(world.running("x")) == 1

    play(story)


@pytest.mark.parametrize("at", range(0, 60, 3))
def test_a_connection_that_is_lost_at_any_moment_of_a_claim_makes_no_second_owner(at: int) -> None:
    """B5."""

    async def story(world: World) -> None:
        both = [beyond(world.call(name, "x", name)) for name in "bc"]
        await asyncio.sleep(at / 200)
        world.engine.lose("b")
        await asyncio.wait(both)
        await world.call("b", "x", "at last")
        assert len(world.running("x")) == 1

    play(story, seed=at)


def test_a_claim_that_waits_ends_with_its_gateway() -> None:
    async def story(world: World) -> None:
        await world.call("a", "x", "first")
        world.part("a")
        world.engine.lose("a")
        world.engine.cut.add("a")
        claiming = beyond(world.call("b", "x", "second"))
        await asyncio.sleep(1)
        await world.replicas["b"].machine.run(world.replicas["b"].ownership.close())
        claiming.cancel()
        await asyncio.sleep(2 * LEASE)
        assert world.engine.owners["x"].member == "a"

    play(story)


def test_who_is_cut_off_from_the_database_stops_what_it_runs() -> None:
    async def story(world: World) -> None:
        await world.call("a", "x", "first")
        world.engine.cut.add("a")
        await asyncio.sleep(LEASE - 1)
        assert world.running("x") == ["a"]
        await asyncio.sleep(1.1)
        assert world.running("x") == []
        assert world.replicas["a"].comparison.cut_off
        with pytest.raises(NoOwner):
            await world.replicas["a"].machine.run(world.replicas["a"].ownership.claim("y", lambda: None))
        assert set(world.replicas["a"].located) == {"b", "c"}

    play(story)


def test_who_is_cut_off_reaches_a_server_through_the_owner_that_another_member_names() -> None:
    async def story(world: World) -> None:
        await world.call("b", "x", "first")
        world.engine.cut.add("a")
        await asyncio.sleep(2 * LEASE)
        assert (await world.call("a", "x", "second"))["epoch"] == 1
        assert set(world.replicas["a"].located) <= {"b", "c"}

    play(story)


def test_owners_keep_what_they_own_while_the_database_is_away_for_all() -> None:
    """Defect 8: all gave up after five seconds, although nobody could have taken over."""

    async def story(world: World) -> None:
        await world.call("a", "x", "first")
        world.engine.away = True
        for number in range(30):
            await asyncio.sleep(1)
            for name in "abc":
                assert (await world.call(name, "x", f"{name}{number}"))["epoch"] == 1
        assert not any(replica.comparison.cut_off for replica in world.replicas.values())
        await world.engine.mend()
        await asyncio.sleep(AGREED)
        assert world.running("x") == ["a"]
        assert (await world.call("b", "x", "last"))["epoch"] == 1

    play(story)


def test_owners_give_up_where_a_member_cannot_be_asked_whether_the_database_is_away_for_it_too() -> None:
    async def story(world: World) -> None:
        await world.call("a", "x", "first")
        world.parted.add(frozenset("ac"))
        world.engine.away = True
        await asyncio.sleep(LEASE + 1)
        assert world.running("x") == []

    play(story)


def test_the_servers_of_a_frozen_owner_move_and_it_acts_no_more_under_its_old_claim() -> None:
    """Defect 5."""

    async def story(world: World) -> None:
        await world.call("a", "x", "first")
        for name in "bc":
            await world.call(name, "x", f"second {name}")
        frozen = world.replicas["a"]
        frozen.machine.freeze()
        began = asyncio.get_running_loop().time()
        await asyncio.sleep(0.1)
        waiting = [beyond(world.call(name, "x", f"{name} in flight")) for name in "bc"]
        for each in waiting:
            with pytest.raises(Crashed):
                await each
        assert (await world.call("c", "x", "third"))["epoch"] == 2
        assert asyncio.get_running_loop().time() - began < 12
        late = [frozen.machine.start(frozen.call("x", f"late{number}")) for number in range(5)]
        await asyncio.sleep(30)
        frozen.machine.thaw()
        assert [(await each)["epoch"] for each in late] == [2] * 5
        assert len(world.running("x")) == 1

    play(story)


def test_an_owner_that_one_member_cannot_reach_keeps_what_it_owns() -> None:
    """It looks at the database: it is there for the others."""

    async def story(world: World) -> None:
        await world.call("a", "x", "first")
        world.parted.add(frozenset("ab"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(world.call("b", "x", "second"), 20)
        assert world.running("x") == ["a"]
        assert (await world.call("c", "x", "third"))["epoch"] == 1

    play(story)


def test_locks_that_were_lost_are_taken_again_and_what_others_owned_meanwhile_is_stopped() -> None:
    async def story(world: World) -> None:
        for key in "xyz":
            await world.call("a", key, f"first {key}")
        world.engine.lose("a")
        world.engine.owners["y"].epoch += 1  # another had it, and has released it
        (b,) = (session for session in world.engine.sessions if session.member.id == "b")
        b.locks.add("z")  # another has it
        await asyncio.sleep(5)
        assert [world.running(key) for key in "xyz"] == [["a"], [], []]
        (a,) = (session for session in world.engine.sessions if session.member.id == "a")
        assert a.locks == {"x"}
        ownership = world.replicas["a"].ownership
        assert ownership.keys == ["x"]

    play(story)


def test_keys_that_are_claimed_and_released_leave_nothing_behind() -> None:
    """B22: a lock and a counter were kept for every server and user."""

    async def story(world: World) -> None:
        ownership = world.replicas["a"].ownership
        before = {name: len(each) for name, each in vars(ownership).items() if hasattr(each, "__len__")}
        assert len(before) >= 4
        for number in range(20):
            claim = await world.replicas["a"].machine.run(ownership.claim(f"x for user {number}", lambda: None))
            await world.replicas["a"].machine.run(ownership.release(f"x for user {number}", claim.epoch))
        await asyncio.sleep(1)
        gc.collect()
        assert {name: len(each) for name, each in vars(ownership).items() if hasattr(each, "__len__")} == before

    play(story)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_fails_no_two_replicas_act_as_the_owner_and_all_find_together_again(seed: int) -> None:
    tell(seed)


def tell(seed: int) -> World:
    """What fails, and when, is up to the seed."""

    async def story(world: World) -> None:
        chance = random.Random(seed)
        calls: list[asyncio.Task[object]] = []
        for number in range(60):
            calls += [beyond(world.call(name, "x", f"{name}{number}")) for name in "abc" if chance.random() < 0.5]
            await asyncio.sleep(chance.uniform(0.0, 1.0))
            if chance.random() < 0.3:
                await fail(world, chance)
            if chance.random() < 0.15:
                await recover(world)
        await recover(world)
        await asyncio.sleep(AGREED)
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)
        for name in "abc":
            await world.call(name, "x", f"{name} at last")
        assert len(world.running("x")) == 1

    return play(story, seed)


async def fail(world: World, chance: random.Random) -> None:
    name = chance.choice("abc")
    match chance.randrange(6):
        case 0:
            world.replicas[name].machine.freeze()
        case 1:
            world.engine.cut_off(name)
        case 2:
            world.engine.away = True
        case 3:
            world.part(name)
        case 4:
            world.parted.add(frozenset(chance.sample("abc", 2)))
        case _:
            world.engine.lose(name)


async def recover(world: World) -> None:
    for replica in world.replicas.values():
        replica.machine.thaw()
    world.parted.clear()
    await world.engine.mend()
