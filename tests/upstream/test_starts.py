"""Who starts first where many servers want to start at once."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from wicket_mcp.tasks import Tasks
from wicket_mcp.upstream import starts
from wicket_mcp.upstream.starts import Starts


class Queue:
    """Servers that start, each until it is told to be ready."""

    def __init__(self, width: int) -> None:
        self.starts = Starts(width)
        self.called: set[str] = set()
        self.begun: list[str] = []
        self.tasks = Tasks()
        self.ready: dict[str, asyncio.Event] = {}

    async def add(self, *servers: str) -> None:
        for server in servers:
            self.begin(server)
        await settle()

    def begin(self, server: str) -> "asyncio.Task[None]":
        self.ready[server] = asyncio.Event()
        return self.tasks.start(self._start(server), server)

    async def _start(self, server: str) -> None:
        async with self.starts.slot(server, lambda: server in self.called):
            self.begun.append(server)
            await self.ready[server].wait()

    async def end(self, server: str) -> None:
        self.ready[server].set()
        await settle()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_servers_start_in_their_order_and_only_so_many_at_once() -> None:
    """Defect 9."""
    queue = Queue(2)
    await queue.add("a", "b", "c", "d")
    assert queue.begun == ["a", "b"]
    await queue.end("b")
    assert queue.begun == ["a", "b", "c"]
    await queue.end("a")
    await queue.end("c")
    await queue.end("d")
    await queue.add("e", "f", "g")
    assert queue.begun[4:] == ["e", "f"]
    await queue.tasks.close()


async def test_one_that_is_named_or_called_while_it_waits_goes_first() -> None:
    """Defect 9."""
    queue = Queue(1)
    await queue.add("a", "b", "c", "d", "e")
    async with AsyncExitStack() as stack:
        stack.enter_context(queue.starts.prefer(["d"]))
        queue.called.add("e")
        await queue.end("a")
        await queue.end("d")
        assert queue.begun == ["a", "d", "e"]
        stack.enter_context(queue.starts.prefer(["c"]))
        stack.enter_context(queue.starts.prefer(["c"]))
    await queue.end("e")
    assert queue.begun[3:] == ["b"], "nobody waits for it by name any more"
    await queue.tasks.close()


async def test_one_that_gives_up_leaves_its_slot_to_others() -> None:
    queue = Queue(1)
    await queue.add("a")
    early, late = queue.begin("early"), queue.begin("late")
    await queue.add("b")
    early.cancel()
    queue.ready["a"].set()
    await asyncio.sleep(0)
    late.cancel()  # the slot is its own by now
    await settle()
    assert queue.begun == ["a", "b"]
    await queue.tasks.close()


async def test_one_that_starts_slowly_lets_the_next_one_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starts, "SLOT_KEPT", 0.0)
    queue = Queue(1)
    await queue.add("a", "b", "c")
    while len(queue.begun) < 3:
        await asyncio.sleep(0)
    assert queue.begun == ["a", "b", "c"]
    await queue.tasks.close()
    await queue.add("d")
    assert queue.begun[3:] == ["d"]
    await queue.tasks.close()
