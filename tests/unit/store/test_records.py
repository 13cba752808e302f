"""The queue of call records: bounded, batched, counted when lost, and never in a call's way."""

import asyncio

import pytest

from wicket_mcp.errors import Internal
from wicket_mcp.store.model import CallRecord
from wicket_mcp.store.records import BATCH, MAX_QUEUED, Batch, Recorder


def call(tool: str = "echo") -> CallRecord:
    return CallRecord(1.0, "ann", "x", tool, "", "ok", 1.0, 1)


class Written:
    """A store's side: takes batches while `open` is set, refuses them while `full`."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.open = asyncio.Event()
        self.open.set()
        self.begun = asyncio.Event()
        self.full = False

    async def __call__(self, batch: Batch) -> None:
        self.begun.set()
        await self.open.wait()
        if self.full:
            raise Internal("The disk is full.")
        self.batches.append(batch)

    @property
    def tools(self) -> list[list[str]]:
        return [[record.tool for record in batch.calls] for batch in self.batches]


async def test_what_comes_together_is_written_together() -> None:
    written = Written()
    recorder = Recorder(written)
    for tool in "abc":
        recorder.record(call(tool))
    recorder.mark_key_used(b"1", 5.0)
    assert written.tools == []
    await recorder.settle()
    assert written.tools == [["a", "b", "c"]]
    assert written.batches[0].keys_used == {b"1": 5.0}
    await recorder.close()
    assert len(written.batches) == 1


async def test_it_is_written_without_anybody_asking() -> None:
    written = Written()
    recorder = Recorder(written)
    recorder.record(call())
    await written.begun.wait()
    await recorder.close()
    assert written.tools == [["echo"]]


async def test_many_are_written_at_once() -> None:
    written = Written()
    recorder = Recorder(written)
    for _ in range(BATCH - 1):
        recorder.record(call())
    await asyncio.sleep(0)
    assert not written.begun.is_set()
    recorder.record(call())
    await asyncio.sleep(0)
    assert written.begun.is_set(), "without waiting for more"
    await recorder.close()


async def test_what_comes_while_a_batch_is_written_is_written_next() -> None:
    written = Written()
    written.open.clear()
    recorder = Recorder(written)
    recorder.record(call("a"))
    settling = asyncio.gather(recorder.settle())
    await written.begun.wait()
    recorder.record(call("b"))
    written.open.set()
    await recorder.close()
    await settling
    assert written.tools == [["a"], ["b"]]


async def test_a_reader_does_not_wait_for_a_store_that_is_stuck() -> None:
    written = Written()
    written.open.clear()
    recorder = Recorder(written, settle=0.0)
    recorder.record(call())
    await recorder.settle()
    assert written.tools == []
    written.open.set()
    await recorder.close()
    assert written.tools == [["echo"]]


async def test_a_stuck_store_bounds_the_queue_and_the_rest_is_counted() -> None:
    written = Written()
    written.open.clear()
    recorder = Recorder(written)
    recorder.record(call())
    await written.begun.wait()
    for _ in range(MAX_QUEUED + 4):
        recorder.record(call())
    assert recorder.lost == 5
    assert repr(recorder) == f"<Recorder {MAX_QUEUED} waiting, 5 lost>"
    written.open.set()
    await recorder.close()
    assert sum(len(tools) for tools in written.tools) == MAX_QUEUED + 1  # which says what is missing


async def test_what_the_store_refuses_is_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    written = Written()
    written.full = True
    recorder = Recorder(written)
    recorder.record(call())
    recorder.record(call())
    await recorder.settle()
    assert recorder.lost == 2
    for _ in range(5):
        recorder.record(call())
        await recorder.settle()
    assert recorder.lost == 7
    assert caplog.text.count("The disk is full.") == 1, "said once, however long it lasts"
    written.full = False
    recorder.record(call("later"))
    await recorder.close()
    assert written.tools == [["later", "audit"]]
    assert "call records are stored again; 7 were lost" in caplog.text
