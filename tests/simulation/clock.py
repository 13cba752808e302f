"""Time that passes only when nobody has anything to do: an event loop whose clock jumps to its next timer.

`simulate(main)` runs a coroutine so. Each part of the world may run on a `Machine` of its own, which can be frozen:
what is due there waits until it is thawed, while all others go on. Nothing here knows what is simulated.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any, TypeVar

T = TypeVar("T")

HERE: "ContextVar[Machine | None]" = ContextVar("machine", default=None)
"""The machine on which the current task runs."""


class Machine:
    """Where tasks run that stand still together."""

    def __init__(self) -> None:
        self.frozen = False
        self._due: list[_Due] = []

    def __repr__(self) -> str:
        return f"<Machine {'frozen' if self.frozen else 'running'}>"

    def start(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Run `work`, and all tasks and timers that it starts, here."""
        context = copy_context()
        context.run(HERE.set, self)
        return asyncio.get_running_loop().create_task(work, context=context)

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        return await self.start(work)

    def freeze(self) -> None:
        self.frozen = True

    def thaw(self) -> None:
        """Everything that has become due runs now, in its order."""
        self.frozen = False
        due, self._due = self._due, []
        for each in due:
            each.run()

    def hold_back(self, due: "_Due") -> None:
        self._due.append(due)


class _Due:
    """A callback of a machine's."""

    def __init__(self, machine: Machine, callback: Callable[..., object]) -> None:
        self.handle: asyncio.Handle | None = None
        self._machine = machine
        self._callback = callback
        self._arguments: tuple[Any, ...] = ()
        self._context: Context | None = None

    def __call__(self, *arguments: Any) -> None:
        if self._machine.frozen:
            self._arguments, self._context = arguments, copy_context()
            self._machine.hold_back(self)
        else:
            self._callback(*arguments)

    def run(self) -> None:
        if self._context is not None and (self.handle is None or not self.handle.cancelled()):
            asyncio.get_running_loop().call_soon(self._callback, *self._arguments, context=self._context)


class _Waitless(selectors.DefaultSelector):
    """Passes the time instead of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> "list[tuple[selectors.SelectorKey, int]]":
        if timeout is None:
            raise AssertionError("everybody waits, and nothing will ever happen")
        self.now += max(timeout, 0.0)
        return super().select(0)


class SimulatedLoop(asyncio.SelectorEventLoop):
    """See the module's docstring."""

    def __init__(self) -> None:
        self._waitless = _Waitless()
        super().__init__(self._waitless)

    def time(self) -> float:
        return self._waitless.now

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> asyncio.Handle:
        due = _guard(callback, context)
        handle = super().call_soon(due, *args, context=context)
        if isinstance(due, _Due):
            due.handle = handle
        return handle

    def call_at(self, when: float, callback: Any, *args: Any, context: Context | None = None) -> asyncio.TimerHandle:
        due = _guard(callback, context)
        handle = super().call_at(when, due, *args, context=context)
        if isinstance(due, _Due):
            due.handle = handle
        return handle


def _guard(callback: Callable[..., object], context: Context | None) -> Callable[..., object]:
    machine = HERE.get() if context is None else context.get(HERE)
    return callback if machine is None else _Due(machine, callback)


def simulate(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run `main()` in simulated time."""
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        return runner.run(main())


def beyond(work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
    """Run `work` on no machine: what the world does."""
    context = copy_context()
    context.run(HERE.set, None)
    return asyncio.get_running_loop().create_task(work, context=context)
