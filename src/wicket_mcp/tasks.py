"""Background tasks with an owner.

A bare `create_task` loses its exception and outlives its creator. `Tasks` belongs to its creator: every task has a
name, and `close` cancels all tasks and waits for them. A failure that is not awaited is logged as an error and counted.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, ClassVar, TypeVar

from wicket_mcp.errors import WicketError

log = logging.getLogger(__name__)
T = TypeVar("T")


async def run_uninterrupted(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end however often the caller is cancelled meanwhile; the cancellation is raised afterwards."""
    task = asyncio.create_task(work)  # noqa: TID251  (awaited here, whatever happens)
    interruption: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as cancelled:
            interruption = cancelled
    if interruption is None:
        return task.result()
    _report(task)  # its caller gets the cancellation instead
    raise interruption


def _report(task: asyncio.Task[Any]) -> None:
    """Log and count the failure of a task that no caller gets."""
    if task.cancelled() or (problem := task.exception()) is None:
        return
    Tasks.failed += 1
    if isinstance(problem, WicketError):  # its message says what is wrong and what to do
        log.error("%s failed: %s", task.get_name(), problem)
    else:
        log.error("%s failed: %r", task.get_name(), problem, exc_info=problem)


class Tasks:
    """A set of running tasks that end no later than their owner."""

    failed: ClassVar[int] = 0
    """Tasks of this process that failed without a waiter."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, T], name: str, *, awaited: bool = False) -> asyncio.Task[T]:
        """Start `work`. `awaited` means that a caller waits for it and gets its failure."""
        task = asyncio.create_task(work, name=name)  # noqa: TID251  (the one place)
        self._tasks.add(task)
        task.add_done_callback(self._on_done if awaited else self._on_finished)
        return task

    def _on_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # the waiter may have been cancelled first: that is not a lost exception

    def _on_finished(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        _report(task)

    async def wait(self, timeout: float | None = None) -> bool:
        """Wait for all tasks to end by themselves; False if some still run after `timeout`."""
        if not self._tasks:
            return True
        _, pending = await asyncio.wait(set(self._tasks), timeout=timeout)
        return not pending

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        while self._tasks:
            await asyncio.wait(set(self._tasks))
