"""The clean process that every script's process is forked from.

Started by a fresh exec with an empty environment and one socket, so that it knows nothing worth stealing. It loads
interpreters, forks on request, returns a pidfd, and reports how each child ended. It never runs a script, and has no
data of the gateway.
"""

import contextlib
import gc
import os
import select
import signal
import socket
import sys
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from wicket_mcp.scripts import jail, process_limit, worker
from wicket_mcp.scripts.languages import Kind

_MAX_MESSAGE = 64 * 1024
_CHILD_SOCKET = 3


def main(control: int) -> None:
    """Serve spawn requests until the gateway closes its end."""
    link = socket.socket(fileno=control)
    os.chdir("/")
    jail.adopt_orphans()
    wake, waker = socket.socketpair()
    wake.setblocking(False)
    waker.setblocking(False)
    signal.signal(signal.SIGCHLD, _wake)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.set_wakeup_fd(waker.fileno())
    children = _Children()
    poll = select.poll()
    poll.register(link, select.POLLIN)
    poll.register(wake, select.POLLIN)
    while True:
        ready = {fd for fd, _ in poll.poll()}
        if wake.fileno() in ready:
            with contextlib.suppress(BlockingIOError):
                wake.recv(4096)
            _report_ended(link, children)
        if link.fileno() in ready:
            try:
                data, handles, _, _ = socket.recv_fds(link, _MAX_MESSAGE, 1)
            except ConnectionResetError:  # it closed without reading our last message
                data, handles = b"", []
            if not data:
                _end_all(children)
                children.close()
                return
            _spawn(link, msgspec.json.decode(data), handles[0], children)


def _wake(_signal: int, _frame: object) -> None:
    """The wakeup descriptor needs a signal handler."""


class _Children:
    """The living children: their numbers and control groups, by process id."""

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}
        self._groups: dict[int, Path] = {}
        self._home: process_limit.ControlGroups | None = None
        self._looked = False

    def add_group(self, number: int, kind: Kind) -> Path | None:
        """A control group for a child that will start processes; None where there is none."""
        if kind != "python":
            return None
        if not self._looked:
            self._home, self._looked = process_limit.ControlGroups.make(), True
        return self._home.add(number) if self._home is not None else None

    def add(self, pid: int, number: int, group: Path | None) -> None:
        self.numbers[pid] = number
        if group is not None:
            self._groups[pid] = group

    def remove(self, pid: int) -> int:
        self.remove_group(self._groups.pop(pid, None))
        return self.numbers.pop(pid)

    def remove_group(self, group: Path | None) -> None:
        if group is not None and self._home is not None:
            self._home.remove(group)

    def close(self) -> None:
        for pid in tuple(self.numbers):
            self.remove(pid)
        if self._home is not None:
            self._home.close()


def _spawn(link: socket.socket, request: dict[str, Any], handle: int, children: _Children) -> None:
    order = worker.Order(**request["order"])
    group: Path | None = None
    try:
        worker.load(order.kind)
        group = children.add_group(request["id"], order.kind)
        gc.freeze()  # children share these pages; a collection would copy them
        pid = os.fork()
    except (ImportError, OSError) as error:
        os.close(handle)
        children.remove_group(group)
        _tell(link, {"op": "failed", "id": request["id"], "error": f"{type(error).__name__}: {error}"})
        return
    if pid == 0:
        _become_child(handle, order, group)
    os.close(handle)
    children.add(pid, request["id"], group)
    pidfd = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else -1
    _tell(link, {"op": "spawned", "id": request["id"], "pid": pid}, pidfd)
    if pidfd >= 0:
        os.close(pidfd)


def _become_child(handle: int, order: worker.Order, group: Path | None) -> NoReturn:
    code = 1
    try:
        if group is not None:
            process_limit.enter(group)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setpgid(0, 0)  # everything it starts dies with it
        os.nice(10)  # the event loop has priority, and so does the zygote, which must end runaway children
        os.dup2(handle, _CHILD_SOCKET)
        os.closerange(_CHILD_SOCKET + 1, 4096)
        sock = socket.socket(fileno=_CHILD_SOCKET)  # kept in a variable: closing one asks the kernel for its address
        code = worker.main(sock, order)
    except BaseException:  # noqa: BLE001  (a child must never return into the zygote's loop)
        code = 1
    finally:
        os._exit(code)


def _report_ended(link: socket.socket, children: _Children) -> None:
    for pid in list(children.numbers):
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            continue
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)  # before it is reaped, while the id is still its own
        code, cpu, peak = _reap(pid)
        orphans = _reap_group(pid)
        report = {"cpu": cpu + sum(o[1] for o in orphans), "peak": max([peak, *(o[2] for o in orphans)])}
        _tell(link, {"op": "ended", "id": children.remove(pid), "code": code, **report})


def _end_all(children: _Children) -> None:
    for pid in children.numbers:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        _reap(pid)
        _reap_group(pid)


def _reap(pid: int) -> tuple[int, float, int]:
    """Exit code, CPU seconds and peak memory in bytes of a process that ended."""
    _, status, usage = os.wait4(pid, 0)
    unit = 1 if sys.platform == "darwin" else 1024
    return os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, usage.ru_maxrss * unit


def _reap_group(group: int) -> list[tuple[int, float, int]]:
    """Reap what a child had started: it was killed with the child, and became ours as the nearest living ancestor."""
    reaped: list[tuple[int, float, int]] = []
    with contextlib.suppress(ChildProcessError):
        while True:
            reaped.append(_reap(-group))
    return reaped


def _tell(link: socket.socket, message: dict[str, Any], handle: int = -1) -> None:
    with contextlib.suppress(OSError):  # the gateway is gone: the next read shows it
        socket.send_fds(link, [msgspec.json.encode(message)], [handle] if handle >= 0 else [])
