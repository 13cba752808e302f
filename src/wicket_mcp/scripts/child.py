"""One jailed process as the gateway sees it: a socket, a kill, an end, and the kernel's accounting.

The accounting covers everything that the process has started, including orphans and ended processes. Knows nothing
about scripts or about the process that forked it.
"""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from wicket_mcp.scripts.worker import Order

_MOST_PROCESSES = 8
"""A driver, its worker, and replacements of a worker; a child with more is hostile."""
_MOST_THREADS = 256 + 4 * (os.cpu_count() or 1)  # of one process: each must be checked


class ZygoteError(Exception):
    """No child could be started."""


@dataclass(frozen=True, slots=True)
class End:
    """How a child ended: exit code (negative: a signal), CPU seconds, peak memory in bytes."""

    code: int
    cpu: float
    peak: int


class Child:
    """One jailed process, from its fork to its end."""

    def __init__(
        self, number: int, order: Order, sock: socket.socket, orphans: Callable[[], list[int]] = list[int]
    ) -> None:
        self.number, self.order, self.sock = number, order, sock
        self._orphans = orphans
        """Processes that may belong to its group although their parent is gone."""
        self.pid = 0
        self.ended: asyncio.Future[End] = asyncio.get_running_loop().create_future()
        self.born: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pidfd = -1
        self._cpu: dict[tuple[int, int], float] = {}
        """CPU seconds of each process of its group, by id and start time; ended ones as last seen."""
        self._threads = 0

    def __repr__(self) -> str:
        return f"<Child {self.number} {self.order.kind} pid {self.pid}{' ended' if self.ended.done() else ''}>"

    def arrive(self, pid: int, pidfd: int) -> None:
        self.pid, self._pidfd = pid, pidfd
        if not self.born.done():
            self.born.set_result(None)

    def kill(self) -> None:
        """End it now. By pidfd, because the process id may already belong to another process."""
        if self.ended.done() or not self.pid:
            return
        if self.order.kind == "python":  # with everything it started: the zygote may get no CPU time beside a fork bomb
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            if self._pidfd >= 0:
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)  # pyright: ignore[reportAttributeAccessIssue,reportUnknownMemberType]
            else:
                os.kill(self.pid, signal.SIGKILL)

    def finish(self, end: End) -> None:
        if not self.ended.done():
            self.ended.set_result(end)
        if not self.born.done():
            self.born.set_exception(ZygoteError("the zygote ended"))
            self.born.exception()  # mark as retrieved: a child that no one waited for is not an error
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    def cpu_seconds(self) -> float:
        """CPU time so far, including everything it started, from the kernel; 0 without /proc."""
        for pid in self._group():
            if stat := _stat(pid):
                self._cpu[pid, stat.born] = stat.cpu
                self._threads = max(self._threads, stat.threads)
        return sum(self._cpu.values())

    @property
    def crowded(self) -> bool:
        """Whether its group has had more processes than any engine starts."""
        return len(self._cpu) > _MOST_PROCESSES or self._threads > _MOST_THREADS

    def _group(self) -> list[int]:
        if self.order.kind != "python":  # a virtual machine starts nothing
            return [self.pid]
        orphans = [pid for pid in self._orphans() if (stat := _stat(pid)) and stat.group == self.pid]
        group = [self.pid, *orphans]
        for pid in group:  # grows as it goes
            if len(group) > _MOST_PROCESSES:
                break
            group += children_of(pid)
        return group[: 2 * _MOST_PROCESSES]


class _Stat(NamedTuple):
    """A process in /proc."""

    group: int
    cpu: float
    born: int
    threads: int


def _stat(pid: int) -> _Stat | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = stat.rpartition(b")")[2].split()
    cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return _Stat(group=int(fields[2]), cpu=cpu, born=int(fields[19]), threads=int(fields[17]))


def children_of(pid: int) -> list[int]:
    """The processes that `pid` has started, from any of its threads."""
    pids: list[int] = []
    with contextlib.suppress(OSError):  # gone, or no /proc
        for thread in islice(Path(f"/proc/{pid}/task").iterdir(), _MOST_THREADS):
            with contextlib.suppress(OSError):  # only this thread is gone
                pids += map(int, (thread / "children").read_text().split())
    return pids
