"""Limits the concurrent calls of one upstream, and how long each may last.

Every call passes here, so both are kept cheap: asyncio's semaphore scans all waiters on each use, and its timeout
creates a timer per call. Here one timer serves all calls. A sign of life from the upstream (progress, a log message, a
question) moves the deadline. A question may wait until the longest time of a call, because a person may have to answer
it. Used by `supervisor.py`.
"""

import asyncio
from collections import deque
from types import TracebackType

from wicket_mcp.errors import Overloaded, TimedOut, Unasked, Unavailable
from wicket_mcp.model import JsonObject
from wicket_mcp.upstream.connection import Callbacks

MAX_WAITS = 5  # times that one request waits because its server asks it to
SHORTEST_WAIT = 0.1  # seconds, even for a server that asks for less
LONGEST_WAIT = 300.0  # seconds in which it is sent nothing, even for a server that asks for more
EARLY = 0.0005  # seconds by which a timer's clock may be ahead of the loop's


class Slots:
    """A fixed number of slots; further calls wait in order."""

    __slots__ = ("_free", "_loop", "_timer", "_waiting")

    def __init__(self, count: int, loop: asyncio.AbstractEventLoop) -> None:
        self._free = count
        self._loop = loop
        self._waiting: deque[tuple[asyncio.Future[None], float]] = deque()
        """With the time until which each waits."""
        self._timer: asyncio.TimerHandle | None = None

    def take(self) -> bool:
        """Take a slot if one is free."""
        if self._free <= 0:
            return False
        self._free -= 1
        return True

    async def acquire(self, patience: float = float("inf")) -> None:
        """Wait for a slot. Raises TimeoutError if there was none within this many seconds."""
        if self.take():
            return
        turn: asyncio.Future[None] = self._loop.create_future()
        until = self._loop.time() + patience
        self._waiting.append((turn, until))
        if self._timer is None or until < self._timer.when():
            self._arm(until)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.release()  # we were given a slot that we do not use
            elif (turn, until) in self._waiting:  # a slot released meanwhile has already skipped us
                self._waiting.remove((turn, until))
            raise

    def release(self) -> None:
        """Release a slot: the longest waiter gets it, otherwise it becomes free."""
        while self._waiting:
            turn, _ = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        """One timer for all who wait: set to the time of the first, who may have got a slot meanwhile."""
        self._timer = None
        now = self._loop.time() + EARLY
        for turn, until in list(self._waiting):
            if until <= now:
                self._waiting.remove((turn, until))
                if not turn.done():
                    turn.set_exception(TimeoutError())
        if self._waiting:
            self._arm(min(until for _, until in self._waiting))

    def _arm(self, until: float) -> None:
        self.close()
        if until != float("inf"):
            self._timer = self._loop.call_at(until, self._give_up)


class Deadline:
    """The deadline of one call. Inside its `with`, a call that lasts longer is cancelled and TimeoutError raised."""

    __slots__ = ("_cancelling", "_deadlines", "_task", "expired", "when")

    def __init__(self, deadlines: "Deadlines", when: float) -> None:
        self._deadlines = deadlines
        self.when = when
        """On the loop's clock."""
        self.expired = False

    def __enter__(self) -> "Deadline":
        task = asyncio.current_task(self._deadlines.loop)  # finding the loop would cost a system call
        if task is None:
            raise RuntimeError("a deadline outside of a task")
        self._task = task
        self._cancelling = task.cancelling()
        self._deadlines.open.add(self)
        if self.when < self._deadlines.due:
            self._deadlines.arm(self.when)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._deadlines.open.discard(self)
        # If the task was also cancelled from outside, it must stay cancelled rather than time out.
        if self.expired and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from problem

    def move(self, when: float) -> None:
        """Change the deadline; no effect if the call has ended."""
        self.when = when
        if self in self._deadlines.open and when < self._deadlines.due:
            self._deadlines.arm(when)

    def expire(self) -> None:
        self.expired = True
        self._task.cancel()


class Deadlines:
    """The deadlines of one upstream. The timer is set to the earliest, or before it if that call has ended
    meanwhile.
    """

    __slots__ = ("_timer", "due", "loop", "open")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.open: set[Deadline] = set()
        """The deadlines of the running calls."""
        self.due = float("inf")
        """When the timer fires."""
        self._timer: asyncio.TimerHandle | None = None

    def set(self, when: float) -> Deadline:
        return Deadline(self, when)

    def close(self) -> None:
        self.due = float("inf")
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def arm(self, when: float) -> None:
        self.close()
        self.due = when
        self._timer = self.loop.call_at(when, self._expire)

    def _expire(self) -> None:
        self.due = float("inf")
        self._timer = None
        now = self.loop.time() + EARLY
        for deadline in [entry for entry in self.open if entry.when <= now]:
            self.open.discard(deadline)
            deadline.expire()
        if self.open:
            self.arm(min(deadline.when for deadline in self.open))


class Extending:
    """The callbacks of a call, which move its deadline: a sign of life restarts it, a question extends it to `end`."""

    __slots__ = ("_allowance", "_callbacks", "_deadline", "_end")

    def __init__(self, callbacks: Callbacks, deadline: Deadline, allowance: float, end: float) -> None:
        self._callbacks = callbacks
        self._deadline = deadline
        self._allowance = allowance
        self._end = end

    def notify(self, method: str, params: JsonObject) -> None:
        self._restart()
        if self._callbacks.notification:
            self._callbacks.notification(method, params)

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        if self._callbacks.request is None:
            raise Unasked(f"{method} is not available here.")
        self._deadline.move(self._end)
        try:
            return await self._callbacks.request(method, params)
        finally:
            self._restart()

    def _restart(self) -> None:
        self._deadline.move(min(asyncio.get_running_loop().time() + self._allowance, self._end))


def extend_deadline(callbacks: Callbacks, deadline: Deadline, allowance: float, end: float) -> Callbacks:
    extending = Extending(callbacks, deadline, allowance, end)
    return Callbacks(extending.notify, extending.ask, callbacks.principal)


class Pause:
    """How long a busy server asked to be left alone. All callers keep it, so that nothing is sent to be refused."""

    __slots__ = ("_loop", "_problem", "until")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._problem = Unavailable("", "")
        self.until = 0.0
        """On the loop's clock; 0 if nobody has to wait."""

    async def keep(self, problem: Unavailable, end: float, waits: int) -> bool:
        """Wait as the server asks; False if it does not ask, or beyond `end`, or too often. Raises Unavailable."""
        if problem.retry_after is None:
            return False
        pause = min(max(problem.retry_after, SHORTEST_WAIT), LONGEST_WAIT)
        self.until, self._problem = max(self.until, self._loop.time() + pause), problem
        if self._loop.time() + problem.retry_after >= end or waits == MAX_WAITS:
            return False
        await self.pass_by(end)
        return True

    async def pass_by(self, end: float) -> None:
        """Wait until the pause has ended. Raises Unavailable if it lasts beyond `end`."""
        while (left := self.until - self._loop.time()) > 0:
            if self.until >= end:
                hint = f"It asked for a pause, which lasts {left:.0f} seconds more; try again then."
                problem = Unavailable(self._problem.server, self._problem.message, hint=hint)
                problem.retry_after = left
                raise problem
            await asyncio.sleep(left)
        self.until = 0.0


def no_slot(server: str, waited: float) -> Overloaded:
    """The error for a call that waited too long for its turn."""
    return Overloaded(
        f"Server '{server}' had no free slot for {waited:g} s.", hint="Try again later, or raise its 'max_concurrent'."
    )


def timed_out(server: str, method: str, allowance: float, longest: float, elapsed: float) -> TimedOut:
    """The error for a caller whose deadline has passed."""
    setting = f"the server's 'timeout' ({allowance:g} s)"
    if elapsed + EARLY >= longest:
        allowance, setting = longest, f"'limits.max_call' ({longest:g} s)"
    return TimedOut(
        server,
        f"Server '{server}' did not answer {method} within {allowance:g} s; it was told to cancel.",
        hint=f"It may have had effects. Raise {setting} if its tools take longer.",
    )
