"""Background tasks: whose failure is heard of, and by whom."""

import asyncio
import logging

import pytest

from wicket_mcp.errors import Unavailable
from wicket_mcp.tasks import Tasks, run_uninterrupted

pytestmark = pytest.mark.unit


async def fail(problem: Exception) -> None:
    await asyncio.sleep(0)
    raise problem


async def test_a_failure_that_nobody_waits_for_is_an_error_in_the_log_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tasks, before = Tasks(), Tasks.failed
    tasks.start(fail(ValueError("a defect")), "watch configuration")
    tasks.start(fail(Unavailable("x", "Server 'x' is away.", hint="Start it.")), "start x")
    await tasks.wait()
    assert Tasks.failed == before + 2
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.ERROR, "watch configuration failed: ValueError('a defect')"),
        (logging.ERROR, "start x failed: Server 'x' is away. Start it."),
    ]
    assert caplog.records[0].exc_info is not None
    assert caplog.records[1].exc_info is None


async def test_a_failure_that_somebody_waits_for_is_theirs(caplog: pytest.LogCaptureFixture) -> None:
    tasks, before = Tasks(), Tasks.failed
    with pytest.raises(ValueError, match="a defect"):
        await tasks.start(fail(ValueError("a defect")), "load", awaited=True)
    assert Tasks.failed == before
    assert not caplog.records


async def test_a_cancelled_task_has_not_failed(caplog: pytest.LogCaptureFixture) -> None:
    tasks, before = Tasks(), Tasks.failed
    tasks.start(asyncio.Event().wait(), "forever")
    await tasks.close()
    assert (Tasks.failed, len(tasks)) == (before, 0)
    assert not caplog.records


async def test_work_that_must_not_be_interrupted_ends_however_often_its_caller_is_cancelled(
    caplog: pytest.LogCaptureFixture,
) -> None:
    go, ended = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        await go.wait()
        ended.set()
        raise ValueError("a defect")

    tasks, before = Tasks(), Tasks.failed
    caller = tasks.start(run_uninterrupted(work()), "close")
    for _ in range(3):
        await asyncio.sleep(0)
        caller.cancel()
    await asyncio.sleep(0)
    assert not caller.done()
    go.set()
    await tasks.wait()
    assert ended.is_set()
    assert caller.cancelled(), "it learns of its cancellation when the work has ended"
    assert Tasks.failed == before + 1
    assert "failed: ValueError('a defect')" in caplog.text


async def test_the_caller_of_such_work_gets_its_result_or_failure() -> None:
    assert await run_uninterrupted(asyncio.sleep(0, "result")) == "result"
    with pytest.raises(ValueError, match="a defect"):
        await run_uninterrupted(fail(ValueError("a defect")))
