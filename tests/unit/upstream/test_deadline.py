"""Slots are given in order and never lost; a deadline ends its own call and no other."""

import asyncio

import pytest

from wicket_mcp.upstream.deadline import Deadlines, Slots

pytestmark = pytest.mark.unit


async def test_slots_are_given_in_order() -> None:
    slots = Slots(1, asyncio.get_running_loop())
    assert slots.take()
    assert not slots.take()
    order: list[str] = []

    async def work(name: str) -> None:
        await slots.acquire()
        order.append(name)
        slots.release()

    tasks = [asyncio.ensure_future(work(name)) for name in ("first", "second", "third")]
    await asyncio.wait(tasks, timeout=0)
    assert order == []
    slots.release()
    await asyncio.gather(*tasks)
    assert order == ["first", "second", "third"]
    assert slots.take()


async def test_a_slot_given_to_somebody_who_leaves_is_passed_on() -> None:
    slots = Slots(1, asyncio.get_running_loop())
    assert slots.take()
    leaving = asyncio.ensure_future(slots.acquire())
    staying = asyncio.ensure_future(slots.acquire())
    await asyncio.wait([leaving, staying], timeout=0)
    slots.release()
    leaving.cancel()  # in the turn in which it was given the slot
    await staying
    with pytest.raises(asyncio.CancelledError):
        await leaving
    assert not slots.take()


async def test_a_deadline_ends_its_own_call_alone() -> None:
    loop = asyncio.get_running_loop()
    deadlines = Deadlines(loop)
    forever = asyncio.Event()

    async def call(seconds: float) -> str:
        try:
            with deadlines.set(loop.time() + seconds):
                await forever.wait()
        except TimeoutError:
            return "timed out"
        return "answered"

    patient = asyncio.ensure_future(call(60))
    assert await call(0.001) == "timed out"
    assert not patient.done()
    forever.set()
    assert await patient == "answered"
    deadlines.close()


async def test_a_deadline_that_was_moved_ends_the_call_later() -> None:
    loop = asyncio.get_running_loop()
    deadlines = Deadlines(loop)

    async def moved_to_the_front() -> None:
        with deadlines.set(loop.time() + 60) as deadline:
            deadline.move(loop.time() + 0.001)
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await moved_to_the_front()
    passed = asyncio.Event()
    with deadlines.set(loop.time() + 0.001) as deadline:
        deadline.move(loop.time() + 60)
        loop.call_at(loop.time() + 0.002, passed.set)
        await passed.wait()
    deadline.move(loop.time())  # the call has ended: nothing is cancelled
    later: asyncio.Future[None] = loop.create_future()
    loop.call_at(loop.time() + 0.002, later.set_result, None)
    await later
    deadlines.close()


async def test_who_is_cancelled_meanwhile_is_cancelled_and_not_timed_out() -> None:
    loop = asyncio.get_running_loop()
    deadlines = Deadlines(loop)
    entered = asyncio.Event()

    async def call() -> None:
        with deadlines.set(loop.time() + 60) as deadline:
            entered.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                deadline.expire()  # both at once: the deadline, and somebody who gave up
                raise

    task = asyncio.ensure_future(call())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    deadlines.close()


async def test_f14_who_leaves_as_a_slot_is_given_back_is_passed_over() -> None:
    slots = Slots(1, asyncio.get_running_loop())
    assert slots.take()
    leaving, staying = (asyncio.ensure_future(slots.acquire()) for _ in range(2))
    await asyncio.wait([leaving, staying], timeout=0)
    leaving.cancel()
    slots.release()  # in the same turn: nobody has told the queue yet that the first has left
    with pytest.raises(asyncio.CancelledError):
        await leaving
    await staying
    assert not slots.take()


async def test_who_waits_too_long_for_a_slot_gives_up_and_the_next_gets_it() -> None:
    slots = Slots(1, asyncio.get_running_loop())
    assert slots.take()
    patient = asyncio.ensure_future(slots.acquire(3600))
    hasty = asyncio.ensure_future(slots.acquire(0))  # came later, and waits for less
    with pytest.raises(TimeoutError):
        await hasty
    assert not patient.done()
    slots.release()
    await patient
    assert not slots.take()
    slots.close()
