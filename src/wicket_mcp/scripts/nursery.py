"""The gateway's side of the zygote: starts it, requests children, keeps two warm, ends them.

Owns the zygote process. Knows nothing about scripts: it provides children, each used once.
"""

import asyncio
import logging
import signal
import socket
import subprocess
import sys
from collections import deque
from typing import Any

import msgspec

from wicket_mcp.interpreter import PYTHON
from wicket_mcp.scripts import jail
from wicket_mcp.scripts.child import Child, End, ZygoteError, children_of
from wicket_mcp.scripts.worker import Kind, Order
from wicket_mcp.tasks import Tasks

log = logging.getLogger(__name__)

_START = "import sys; sys.path[:] = sys.argv[2:]; from wicket_mcp.scripts.zygote import main; main(int(sys.argv[1]))"
_WARM: dict[Kind, int] = {"vm": 2, "python": 1}
_WARM_LATER = 0.01
_STOP_PATIENCE = 2.0


class Nursery:
    """Children on demand. The zygote starts with the first, and again if it dies."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._link: socket.socket | None = None
        self._children: dict[int, Child] = {}
        self._warm: dict[Order, deque[Child]] = {}
        self._kept_warm: set[Order] = set()
        self._numbers = 0
        self._tasks = Tasks()
        self.peak = 0
        """The highest memory use of any ended child."""

    def __repr__(self) -> str:
        warm = sum(map(len, self._warm.values()))
        return f"<Nursery {'up' if self._link else 'down'}: {len(self._children) - warm} busy, {warm} warm>"

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process and self._link else None

    @property
    def busy(self) -> int:
        return len(self._children) - self.warm

    @property
    def warm(self) -> int:
        return sum(map(len, self._warm.values()))

    async def take(self, order: Order, *, keep_warm: bool) -> Child:
        """A fresh child; a warm one if available. Raises ZygoteError."""
        if self._link is None:
            self._start()
        queue = self._warm.get(order)
        child: Child | None = None
        while queue and child is None:
            candidate = queue.popleft()
            child = None if candidate.ended.done() else candidate
        child = child or self._spawn(order)
        if keep_warm:
            self._kept_warm.add(order)
            # Slightly later, so that the current script goes first; at once if no warm child is left.
            wait = _WARM_LATER if queue else 0.0
            asyncio.get_running_loop().call_later(wait, self._warm_up, order)
        try:
            await child.born
        except BaseException:  # cancelled while it is being created: it ends when its socket is closed
            child.sock.close()
            raise
        return child

    def cool(self, memory: int, cpu: float) -> None:
        """End the warm children with other limits, and create no more of them."""
        for order in [order for order in self._kept_warm if (order.memory, order.cpu) != (memory, cpu)]:
            self._kept_warm.discard(order)
            for child in self._warm.pop(order, ()):
                child.kill()
                child.sock.close()  # one that is still being created ends when its socket is closed

    def _warm_up(self, order: Order) -> None:
        if self._link is None or order not in self._kept_warm:
            return
        queue = self._warm.setdefault(order, deque())
        while len(queue) < _WARM[order.kind]:
            try:
                queue.append(self._spawn(order))
            except ZygoteError as error:
                log.debug("no warm child: %s", error)
                return

    def _start(self) -> None:
        jail.protect_host()
        parent_end, child_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        parent_end.setblocking(False)
        paths = [path for path in sys.path if path]
        with child_end:
            try:
                self._process = subprocess.Popen(
                    [PYTHON, "-I", "-c", _START, str(child_end.fileno()), *paths],
                    env={"TZ": "UTC0", "LC_ALL": "C.UTF-8"},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=(child_end.fileno(),),
                    cwd="/",
                    start_new_session=True,
                )
            except OSError as error:
                parent_end.close()
                raise ZygoteError(f"cannot start the process that runs scripts: {error}") from error
        self._link = parent_end
        asyncio.get_running_loop().add_reader(parent_end, self._hear)

    def _spawn(self, order: Order) -> Child:
        if self._link is None:
            raise ZygoteError("the zygote ended")
        parent_end, child_end = socket.socketpair()
        parent_end.setblocking(False)
        self._numbers += 1
        request = {"id": self._numbers, "order": order}
        with child_end:
            try:
                socket.send_fds(self._link, [msgspec.json.encode(request)], [child_end.fileno()])
            except OSError as error:
                parent_end.close()
                raise ZygoteError(f"the zygote does not listen: {error}") from error
        child = self._children[self._numbers] = Child(self._numbers, order, parent_end, self._orphans)
        return child

    def _orphans(self) -> list[int]:
        """Processes that children had started and left behind: they are the zygote's children now, but not forked by
        it.
        """
        forked = {child.pid for child in self._children.values()}
        return [pid for pid in children_of(self._process.pid) if pid not in forked] if self._process else []

    def _hear(self) -> None:
        assert self._link is not None  # noqa: S101  (called only while it is registered)
        while True:
            try:
                data, handles, _, _ = socket.recv_fds(self._link, 65536, 1)
            except BlockingIOError:
                return
            except OSError:
                data, handles = b"", []
            if not data:
                self._on_zygote_ended()
                return
            self._handle_message(msgspec.json.decode(data), handles[0] if handles else -1)

    def _handle_message(self, message: dict[str, Any], handle: int) -> None:
        child = self._children.get(message["id"])
        if child is None:
            return
        match message["op"]:
            case "spawned":
                child.arrive(message["pid"], handle)
            case "ended":
                end = End(message["code"], message["cpu"], message["peak"])
                self.peak = max(self.peak, end.peak)
                self._forget(child, end)
            case _:
                log.warning("no process for a script: %s", message.get("error"))
                self._forget(child, End(-1, 0.0, 0))

    def _forget(self, child: Child, end: End) -> None:
        child.finish(end)
        self._children.pop(child.number, None)
        for queue in self._warm.values():
            if child in queue:
                queue.remove(child)
                child.sock.close()

    def _on_zygote_ended(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            asyncio.get_running_loop().remove_reader(link)
            link.close()
        for child in list(self._children.values()):
            child.kill()
            self._forget(child, End(-signal.SIGKILL, 0.0, 0))
        self._warm.clear()
        if self._process is not None:
            self._tasks.start(asyncio.to_thread(_bury, self._process), "bury the zygote")

    async def close(self) -> None:
        """End all children and the zygote."""
        if self._link is not None:
            self._on_zygote_ended()
        await self._tasks.wait()


def _bury(process: subprocess.Popen[bytes]) -> None:
    """Wait for the zygote, which ends by itself once its link is closed, for a limited time."""
    try:
        process.wait(_STOP_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
