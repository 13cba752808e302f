"""Several processes that serve one address: the master listens, the workers accept; a dead worker is replaced.

The master holds the listening socket and starts workers, which inherit it, so that no connection is refused or lost
while workers change. SIGHUP replaces all workers one after the other, each only when its successor is ready, so a new
version or a restart-only option takes effect under load. A worker is a normal `wicket serve --http`, with a variable
that says what it inherits. Called by `cli/serve.py`; knows nothing about MCP.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from wicket_mcp.errors import ConfigError
from wicket_mcp.interpreter import isolated_environment, module_command
from wicket_mcp.tasks import Tasks

log = logging.getLogger(__name__)

VARIABLE = "WICKET_WORKER"
"""What a worker inherits: the descriptors of the listening socket and of the pipe for reporting that it is ready, and
the folder in which workers find each other."""
READY_WITHIN = 60.0
DRAINED_WITHIN = 40.0
"""Seconds in which a worker ends once it has stopped listening: its calls in flight have 30 s (`surface/server.py`)."""
SHORT_LIFE, PAUSE = 5.0, 1.0
"""A worker that lived for less than this many seconds is replaced after a pause."""
FAILURES = 5
"""Workers in a row that may end before they are ready."""


@dataclass(frozen=True, slots=True)
class Inherited:
    """What we inherited from the master."""

    listener: socket.socket
    ready: int
    folder: Path
    """The folder in which workers find each other."""

    @classmethod
    def take(cls) -> "Inherited | None":
        """Read from our environment, once; None if we have no master."""
        value = os.environ.pop(VARIABLE, "")
        if not value:
            return None
        first, second, folder = value.split(",", 2)
        listener, ready = int(first), int(second)
        for descriptor in (listener, ready):
            os.set_inheritable(descriptor, False)
        return cls(socket.socket(fileno=listener), ready, Path(folder))

    def say_ready(self) -> None:
        with contextlib.suppress(OSError):
            os.write(self.ready, b"ready\n")
        os.close(self.ready)


class _Worker:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.started = time.monotonic()
        self.leaving = False

    def end(self) -> None:
        """Tell it to finish its calls in flight and exit."""
        self.leaving = True
        with contextlib.suppress(ProcessLookupError):
            self.process.terminate()


class Master:
    """See the module's docstring."""

    def __init__(self, arguments: Sequence[str], listener: socket.socket, count: int, leave_after: float) -> None:
        """`arguments` are the arguments of `wicket serve` for one worker. A worker that ends listens for another
        `leave_after` seconds.
        """
        self._command = module_command("wicket_mcp", "serve", *arguments)
        self._listener = listener
        self._count = count
        self._leave_within = leave_within(leave_after)
        self._folder = tempfile.TemporaryDirectory(prefix="wicket-workers-")
        self._workers: list[_Worker] = []
        self._tasks = Tasks()
        self._renewing = False
        self._failures = 0
        self._failed = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Master {len(self._workers)} workers>"

    async def run(self, stop: asyncio.Event, on_ready: Callable[[], None]) -> None:
        """Keep the wanted number of workers running until `stop` is set. Raises ConfigError if none can start."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self._renew)
        try:
            for _ in range(self._count):
                if await self._start() is None:
                    raise ConfigError("a worker cannot start", hint="Its own messages are above.")
            on_ready()
            waits = {self._tasks.start(stop.wait(), "stop"), self._tasks.start(self._failed.wait(), "failed")}
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if self._failed.is_set():
                raise ConfigError(f"{FAILURES} workers in a row could not start", hint="Their own messages are above.")
        finally:
            loop.remove_signal_handler(signal.SIGHUP)
            await self._end_all()

    async def _start(self) -> "_Worker | None":
        """A worker that is ready; None if it ended before."""
        read, written = os.pipe()
        descriptors = (self._listener.fileno(), written)
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                env={
                    **isolated_environment(os.environ),
                    VARIABLE: ",".join((*map(str, descriptors), self._folder.name)),
                },
                pass_fds=descriptors,
                stdin=asyncio.subprocess.DEVNULL,
            )
        finally:
            os.close(written)
        worker = _Worker(process)
        if not await _is_ready(read):
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            return None
        self._failures = 0
        self._workers.append(worker)
        self._tasks.start(self._watch(worker), f"watch worker {process.pid}")
        return worker

    async def _watch(self, worker: _Worker) -> None:
        """Replace a worker that ends without being told to."""
        code = await worker.process.wait()
        self._workers.remove(worker)
        if worker.leaving:
            return
        log.warning("worker %d ended (%s) and is replaced", worker.process.pid, code)
        if time.monotonic() - worker.started < SHORT_LIFE:
            await asyncio.sleep(PAUSE)
        while len(self._workers) < self._count and await self._start() is None:
            self._failures += 1
            if self._failures >= FAILURES:
                self._failed.set()
                return
            await asyncio.sleep(PAUSE)

    def _renew(self) -> None:
        if not self._renewing:
            self._renewing = True
            log.info("SIGHUP: replacing %d workers, one after the other", len(self._workers))
            self._tasks.start(self._replace_all(), "replace workers")

    async def _replace_all(self) -> None:
        try:
            for worker in list(self._workers):
                if await self._start() is None:
                    log.error("a new worker could not start; the old ones go on")
                    return
                worker.end()
                await self._wait_for(worker)
        finally:
            self._renewing = False

    async def _end_all(self) -> None:
        for worker in self._workers:
            worker.end()
        await asyncio.gather(*(self._wait_for(worker) for worker in list(self._workers)))
        await self._tasks.close()
        self._folder.cleanup()

    async def _wait_for(self, worker: _Worker) -> None:
        try:
            async with asyncio.timeout(self._leave_within):
                await worker.process.wait()
        except TimeoutError:
            log.warning("worker %d did not leave in time and is killed", worker.process.pid)
            with contextlib.suppress(ProcessLookupError):
                worker.process.kill()


def leave_within(leave_after: float) -> float:
    """Seconds that a worker has to end: it listens for another `leave_after` seconds, then ends its calls."""
    return leave_after + DRAINED_WITHIN


async def _is_ready(read: int) -> bool:
    """Whether the pipe brings a message before it ends."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read, "rb", 0))
    try:
        async with asyncio.timeout(READY_WITHIN):
            return bool(await reader.readline())
    except TimeoutError:
        return False
    finally:
        transport.close()
