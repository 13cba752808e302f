"""Background tasks with an owner.

A bare `create_task` loses its exception and outlives its maker. `Tasks` belongs to whoever opens it: every
task has a name, a failure is logged, and `close` cancels and waits for all of them.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

log = logging.getLogger(__name__)
T = TypeVar("T")


async def uninterrupted(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end, also when whoever waits for it is cancelled meanwhile; that is heard of afterwards."""
    task = asyncio.create_task(work)  # noqa: TID251  (awaited here, whatever happens)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


class Tasks:
    """A set of running tasks that end no later than their owner."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        task = asyncio.create_task(work, name=name)  # noqa: TID251  (the one place)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            log.debug("task %s ended with %r", task.get_name(), problem, exc_info=problem)

    async def wait(self, timeout: float | None = None) -> bool:
        """Wait for all to end by themselves; False when some still run after `timeout`."""
        if not self._tasks:
            return True
        _, pending = await asyncio.wait(set(self._tasks), timeout=timeout)
        return not pending

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        while self._tasks:
            await asyncio.wait(set(self._tasks))
