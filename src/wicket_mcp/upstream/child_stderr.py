"""What a child process writes to stderr: the last of it is kept, and too much of it is slowed down.

A child that writes without end is read more slowly, so that its pipe fills and it must wait; the connection is told
when that has lasted too long. Created by `stdio.py`; knows no protocol and no secrets.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import cast

from wicket_mcp.upstream.throttle import Throttle

log = logging.getLogger(__name__)

KEPT = 256 * 1024
RATE = 4.0 * 2**20  # bytes per second
BURST = 16.0 * 2**20

FLOODS = "Server '{}' floods stderr."
SLOWED = "server '%s' writes more to stderr than can be of use; it is read more slowly"


class ChildStderr:
    """The stderr of one child. `on_flood` is called when it has written too much for too long."""

    def __init__(self, server: str, on_flood: Callable[[str], None]) -> None:
        self._server = server
        self._on_flood = on_flood
        self._throttle = Throttle(asyncio.get_running_loop().time(), RATE, BURST)
        self._kept = Ring(KEPT)
        self._pipe: asyncio.ReadTransport | None = None
        self._resuming: asyncio.TimerHandle | None = None

    def attach(self, pipe: asyncio.BaseTransport | None) -> None:
        self._pipe = cast("asyncio.ReadTransport | None", pipe)

    @property
    def slowed(self) -> bool:
        return self._throttle.slowed

    def take(self, data: bytes) -> None:
        self._kept.add(data)
        was_slowed, loop = self._throttle.slowed, asyncio.get_running_loop()
        pause = self._throttle.spend(len(data), loop.time())
        if self._throttle.exceeded:
            self._on_flood(FLOODS.format(self._server))
        elif pause and self._resuming is None and self._pipe is not None and not self._pipe.is_closing():
            self._pipe.pause_reading()
            self._resuming = loop.call_later(pause, self.resume)
        if self._throttle.slowed and not was_slowed:
            log.warning(SLOWED, self._server)

    def resume(self) -> None:
        """Read on, for example because the child has exited and its last words are wanted."""
        if self._resuming is not None:
            self._resuming.cancel()
            self._resuming = None
            if self._pipe is not None and not self._pipe.is_closing():
                self._pipe.resume_reading()

    def lines(self, count: int) -> list[str]:
        return self._kept.lines(count)


class Ring:
    """The last bytes of an endless stream."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._chunks: deque[bytes] = deque()
        self._is_cut = False

    def add(self, data: bytes) -> None:
        self._chunks.append(data)
        self._size += len(data)
        while self._size > self._limit and len(self._chunks) > 1:
            self._size -= len(self._chunks.popleft())
            self._is_cut = True

    def lines(self, count: int) -> list[str]:
        data = b"".join(self._chunks)
        if self._is_cut or len(data) > self._limit:  # the first line may start in the middle of a secret
            data = data[-self._limit :].partition(b"\n")[2]
        text = data.decode("utf-8", "replace")
        return [line for line in text.splitlines() if line.strip()][-count:]
