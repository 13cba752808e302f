"""Tasks that Wicket keeps: what was told to a client is what a later process finds."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from wicket_mcp.errors import Overloaded
from wicket_mcp.model import LOCAL, JsonObject, Principal
from wicket_mcp.store.open import open_store
from wicket_mcp.surface.local_tasks import MAX_PER_PRINCIPAL, MAX_TASKS, LocalTask, LocalTasks


async def test_a_task_that_ends_just_before_wicket_does_has_ended_after_the_restart(tmp_path: Path) -> None:
    path = tmp_path / "wicket.db"
    store = await open_store(path)
    tasks, finish = LocalTasks(store), asyncio.Event()

    async def work(task: LocalTask) -> JsonObject:
        await finish.wait()
        return {"content": []}

    task = await tasks.start(LOCAL, work)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")  # another process writes, and so does the thread of ours: the rest waits
        first = asyncio.ensure_future(store.save_note("a", "b"))
        finish.set()
        while not task.ended:
            await task.wait()
        stopping = asyncio.ensure_future(tasks.close())
        await asyncio.sleep(0)  # it begins to stop
        other.execute("COMMIT")
    await asyncio.gather(first, stopping)
    await store.close()
    store = await open_store(path)
    found = await LocalTasks(store).find(task.id, LOCAL)
    assert found is not None
    assert (found.status, found.result) == ("completed", {"content": []})
    await store.close()


async def end_at_once(task: LocalTask) -> JsonObject:
    return {"content": []}


async def never_end(task: LocalTask) -> JsonObject:
    await asyncio.Event().wait()
    return {}


async def ended(task: LocalTask) -> LocalTask:
    while not task.ended:
        await task.wait()
    return task


async def test_ended_tasks_of_others_make_room_for_those_within_their_share() -> None:
    tasks = LocalTasks()
    others = [Principal(f"p{number}") for number in range(MAX_TASKS // MAX_PER_PRINCIPAL)]
    for other in others:
        for _ in range(MAX_PER_PRINCIPAL):
            await ended(await tasks.start(other, end_at_once))
    newcomer = Principal("newcomer")
    own = [await tasks.start(newcomer, never_end) for _ in range(MAX_TASKS // (len(others) + 2))]
    assert tasks.of(newcomer) == own
    assert len(tasks) <= MAX_TASKS
    assert tasks.under_way == len(own)
    assert all(tasks.of(other) for other in others), "each keeps what it has within its share"
    await tasks.close()


async def test_a_task_under_way_gives_way_to_nobody() -> None:
    tasks = LocalTasks()
    own = [await tasks.start(LOCAL, never_end) for _ in range(MAX_PER_PRINCIPAL)]
    with pytest.raises(Overloaded, match="Too many tasks"):
        await tasks.start(LOCAL, never_end)
    tasks.cancel(own[3])
    latest = await tasks.start(LOCAL, never_end)
    assert tasks.of(LOCAL) == [*own[:3], *own[4:], latest]
    await tasks.close()


async def test_a_defect_in_the_work_ends_its_task_with_an_error(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(task: LocalTask) -> JsonObject:
        raise ValueError("a defect")

    tasks = LocalTasks()
    task = await ended(await tasks.start(LOCAL, fail))
    assert task.status == "failed"
    assert task.error is not None
    assert task.error["data"] == {"code": "internal", "retryable": False}
    assert "ValueError('a defect')" in caplog.text
    await tasks.close()


async def test_work_that_is_cancelled_by_another_ends_its_task() -> None:
    async def cancelled(task: LocalTask) -> JsonObject:
        raise asyncio.CancelledError

    tasks = LocalTasks()
    assert (await ended(await tasks.start(LOCAL, cancelled))).status == "cancelled"
    under_way = await tasks.start(LOCAL, never_end)
    await tasks.close()
    assert under_way.status == "working", "it is taken up after the restart"
