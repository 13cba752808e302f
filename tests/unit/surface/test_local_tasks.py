"""Tasks that Wicket keeps: what was told to a client is what a later process finds."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

from wicket_mcp.model import LOCAL, JsonObject
from wicket_mcp.store.open import open_store
from wicket_mcp.surface.local_tasks import LocalTask, LocalTasks


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
