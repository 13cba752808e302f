"""Only a few servers start at the same time, so that hundreds of cold starts do not starve each other of CPU.

Those that a call waits for, or that somebody named, come first; among equals, those that waited longest. A slow start
gives its slot up after a while, so that servers that never answer do not block the others. Used by `connector.py`.
"""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import NamedTuple

PROCESSORS = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
STARTS_AT_ONCE = 2 * PROCESSORS + 4
SLOT_KEPT = 1.0  # seconds; a server that needs CPU to start has had its share by then


class _Waiting(NamedTuple):
    server: str
    is_called: Callable[[], bool]
    turn: "asyncio.Future[None]"


class Starts:
    """The slots for starting servers, and who waits for one."""

    def __init__(self, width: int = STARTS_AT_ONCE) -> None:
        self._free = width
        self._named: Counter[str] = Counter()
        """The servers that somebody waits for by name."""
        self._waiting: dict[int, _Waiting] = {}
        self._count = 0

    def __repr__(self) -> str:
        return f"<Starts {self._free} free, {len(self._waiting)} waiting>"

    @contextmanager
    def prefer(self, servers: Iterable[str]) -> Generator[None]:
        """Meanwhile, these servers start before others."""
        named = Counter(servers)
        self._named += named
        try:
            yield
        finally:
            self._named -= named

    @asynccontextmanager
    async def slot(self, server: str, is_called: Callable[[], bool]) -> AsyncGenerator[None]:
        """One of the slots; `is_called` tells whether a call waits for the server by now."""
        await self._acquire(server, is_called)
        slot = ExitStack()
        slot.callback(self._release)
        timer = asyncio.get_running_loop().call_later(SLOT_KEPT, slot.close)
        try:
            yield
        finally:
            timer.cancel()
            slot.close()

    async def _acquire(self, server: str, is_called: Callable[[], bool]) -> None:
        if self._free:
            self._free -= 1
            return
        self._count += 1
        number, turn = self._count, asyncio.get_running_loop().create_future()
        self._waiting[number] = _Waiting(server, is_called, turn)
        try:
            await turn
        except asyncio.CancelledError:
            if self._waiting.pop(number, None) is None:
                self._release()  # the slot was given at the same moment
            raise

    def _release(self) -> None:
        """Give the slot to the next one."""
        if not self._waiting:
            self._free += 1
            return
        first = next(iter(self._waiting))
        number = next((number for number, entry in self._waiting.items() if self._is_wanted(entry)), first)
        self._waiting.pop(number).turn.set_result(None)

    def _is_wanted(self, entry: _Waiting) -> bool:
        return self._named[entry.server] > 0 or entry.is_called()
