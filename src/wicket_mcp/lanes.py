"""Runs slow work in bounded lanes: a fixed number at once, and only a share of them for one principal.

Work without a free place waits. Places go round among the waiting principals, so a principal with a hundred requests
delays another by one turn, not by a hundred. The queue of each principal is limited; beyond that `Overloaded` is raised
at once. Used for work that is linear in the catalogue, a result or a script; knows none of them.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Executor
from types import TracebackType
from typing import TypeVar

from wicket_mcp.errors import Overloaded

T = TypeVar("T")


class Lane:
    """`width` places; each principal gets at most `share` of them and `waiting` more in the queue."""

    def __init__(self, subject: str, *, width: int, share: int, waiting: int, executor: Executor | None = None) -> None:
        self._subject = subject
        self._width = width
        self._share = share
        self._most_waiting = waiting
        self._executor = executor
        self._total = 0
        self._busy: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self.rejected = 0
        """How often the queue was full."""

    def __repr__(self) -> str:
        waiting = sum(map(len, self._waiting.values()))
        return f"<Lane {self._subject}: {self._total} of {self._width}, {waiting} waiting, {self.rejected} rejected>"

    def enter(self, principal: str) -> "_Place":
        """A place, for as long as the context lasts. Raises Overloaded."""
        return _Place(self, principal)

    async def compute(self, principal: str, work: Callable[[], T]) -> T:
        """The result of `work`, run in a thread. The caller may stop waiting; the place becomes free when the work has
        ended.
        """
        await self.acquire(principal)
        try:
            running = asyncio.get_running_loop().run_in_executor(self._executor, work)
        except BaseException:
            self.release(principal)
            raise

        def end(done: "asyncio.Future[T]") -> None:
            self.release(principal)
            if not done.cancelled():
                done.exception()  # retrieve the exception even if no one waits for it any more

        running.add_done_callback(end)
        return await asyncio.shield(running)

    async def acquire(self, principal: str) -> None:
        if self._total < self._width and self._busy[principal] < self._share:
            self._take(principal)
            return
        queue = self._waiting.setdefault(principal, deque())
        if len(queue) >= self._most_waiting:
            self.rejected += 1
            raise Overloaded(f"Too many {self._subject} of yours are waiting.", hint="Try again when some have ended.")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release(principal)  # the place was given at the same moment
            else:
                self._forget(principal, turn)
            raise

    def release(self, principal: str) -> None:
        self._total -= 1
        self._busy[principal] -= 1
        if not self._busy[principal]:
            del self._busy[principal]
        self._grant()

    def _grant(self) -> None:
        for principal in list(self._waiting):
            if self._total >= self._width:
                return
            if self._busy[principal] < self._share and (turn := self._next(principal)) is not None:
                self._take(principal)
                turn.set_result(None)

    def _next(self, principal: str) -> "asyncio.Future[None] | None":
        """The next waiter of this principal, who then goes to the end of the round."""
        queue = self._waiting[principal]
        turn = None
        while queue and (turn is None or turn.done()):  # cancelled waiters are not removed yet
            turn = queue.popleft()
        if queue:
            self._waiting.move_to_end(principal)
        else:
            del self._waiting[principal]
        return None if turn is None or turn.done() else turn

    def _take(self, principal: str) -> None:
        self._busy[principal] += 1
        self._total += 1

    def _forget(self, principal: str, turn: "asyncio.Future[None]") -> None:
        queue = self._waiting.get(principal)
        if queue is not None and turn in queue:
            queue.remove(turn)
            if not queue:
                del self._waiting[principal]


class _Place:
    """A place in a lane, as a context."""

    __slots__ = ("_lane", "_principal")

    def __init__(self, lane: Lane, principal: str) -> None:
        self._lane, self._principal = lane, principal

    async def __aenter__(self) -> None:
        await self._lane.acquire(self._principal)

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lane.release(self._principal)
