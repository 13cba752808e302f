"""Lanes: bounded in all, shared among principals, in turns, whoever leaves at whatever moment (V11)."""

import asyncio
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wicket_mcp.errors import Overloaded
from wicket_mcp.lanes import Lane
from wicket_mcp.tasks import Tasks


async def settle() -> None:
    """Let everything that can happen now happen."""
    for _ in range(5):
        await asyncio.sleep(0)


class Work:
    """Pieces of work in a lane, each held until it is let go."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.running: list[str] = []
        self.tasks = Tasks()
        self._go: dict[str, asyncio.Event] = {}

    def start(self, principal: str, name: str) -> "asyncio.Task[None]":
        self._go[name] = asyncio.Event()
        return self.tasks.start(self._run(principal, name), name)

    async def _run(self, principal: str, name: str) -> None:
        async with self.lane.enter(principal):
            self.running.append(name)
            try:
                await self._go[name].wait()
            finally:
                self.running.remove(name)

    def finish(self, name: str) -> None:
        self._go[name].set()


async def test_v11_one_principal_has_its_share_and_no_more() -> None:
    work = Work(Lane("scripts", width=4, share=3, waiting=9))
    for number in range(5):
        work.start("a", f"a{number}")
    work.start("b", "b0")
    await settle()
    assert work.running == ["a0", "a1", "a2", "b0"]
    assert repr(work.lane) == "<Lane scripts: 4 of 4, 2 waiting, 0 rejected>"
    await work.tasks.close()
    assert repr(work.lane) == "<Lane scripts: 0 of 4, 0 waiting, 0 rejected>"


async def test_v11_places_go_round_among_those_who_wait() -> None:
    work = Work(Lane("searches", width=1, share=1, waiting=9))
    for name in ("a0", "a1", "a2", "b0", "c0"):
        work.start(name[0], name)
    order: list[str] = []
    for _ in range(5):
        await settle()
        order += work.running
        work.finish(work.running[0])
    assert order == ["a0", "a1", "b0", "c0", "a2"]


async def test_v11_who_waits_too_often_is_rejected_and_nobody_else() -> None:
    work = Work(Lane("searches", width=1, share=1, waiting=2))
    for number in range(3):
        work.start("a", f"a{number}")
    await settle()
    with pytest.raises(Overloaded, match="Too many searches"):
        await work.lane.acquire("a")
    work.start("b", "b0")
    await settle()
    assert work.lane.rejected == 1
    work.finish("a0")
    await settle()
    work.finish("a1")
    await settle()
    assert work.running == ["b0"]
    await work.tasks.close()


async def test_a_place_that_is_given_to_who_leaves_goes_to_the_next() -> None:
    work = Work(Lane("searches", width=1, share=1, waiting=9))
    first, second = work.start("a", "a0"), work.start("a", "a1")
    work.start("a", "a2")
    await settle()
    second.cancel()
    first.cancel()  # both in one turn: the place is free while the one that is next has gone
    await settle()
    assert work.running == ["a2"]
    await work.tasks.close()


async def test_work_in_a_thread_keeps_its_place_until_it_has_ended() -> None:
    lane = Lane("results", width=1, share=1, waiting=1)
    begun, go = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        go.wait()

    tasks = Tasks()
    leaving = tasks.start(lane.compute("a", hold), "leaves")
    await asyncio.to_thread(begun.wait)
    leaving.cancel()
    await settle()
    assert leaving.cancelled()
    assert repr(lane) == "<Lane results: 1 of 1, 0 waiting, 0 rejected>"
    go.set()
    assert await lane.compute("b", lambda: 42) == 42


async def test_what_fails_in_a_thread_fails_for_who_waits() -> None:
    lane = Lane("results", width=1, share=1, waiting=1)

    def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await lane.compute("a", fail)
    assert await lane.compute("a", lambda: 1) == 1


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["start", "finish", "cancel"])), max_size=40))
async def test_no_order_of_events_loses_a_place_or_gives_one_too_many(events: list[tuple[str, str]]) -> None:
    work = Work(Lane("things", width=3, share=2, waiting=99))
    begun: list[tuple[str, asyncio.Task[None]]] = []
    for number, (principal, event) in enumerate(events):
        if event == "start":
            name = f"{principal}{number}"
            begun.append((name, work.start(principal, name)))
        elif begun:
            name, task = begun[number % len(begun)]
            work.finish(name) if event == "finish" else task.cancel()
        if number % 3 == 0:
            await settle()
        assert len(work.running) <= 3
        assert all(sum(name[0] == one for name in work.running) <= 2 for one in "abc")
    for name, _ in begun:
        work.finish(name)
    for _ in begun:
        await settle()
    assert all(task.done() for _, task in begun)
    assert "0 of 3, 0 waiting" in repr(work.lane)
