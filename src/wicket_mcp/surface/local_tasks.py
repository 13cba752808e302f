"""Tasks that Wicket keeps itself: calls of servers that have none, of our own tools, and of legacy clients.

A task is work that goes on after its request was answered. It belongs to a principal, asks through whoever comes to
follow it, and is forgotten when its time is over. Bounded in number, in all and for each principal. Knows no wire
format: `tasks_methods.py` has those of both eras.
"""

import asyncio
import itertools
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from wicket_mcp.errors import Overloaded, WicketError
from wicket_mcp.model import Caller, JsonObject, Principal
from wicket_mcp.surface.problems import error_of
from wicket_mcp.tasks import Tasks

MAX_TASKS = 1000
MAX_PER_PRINCIPAL = 100
TTL = 3600.0  # seconds that a task is kept from its creation
LONGEST_TTL = 24 * 3600.0
PROMOTE_AFTER = 5.0  # seconds
POLL_MS = 1000  # how often a client is told to look

Status = Literal["working", "input_required", "completed", "failed", "cancelled"]
Work = Callable[["LocalTask"], Awaitable[JsonObject]]


@dataclass(slots=True)
class Question:
    method: str
    params: JsonObject
    reply: "asyncio.Future[JsonObject]"


@dataclass(eq=False)
class LocalTask:
    """One task. `on_change` are called whenever its status or its questions change."""

    id: str
    principal: Principal
    ttl: float
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    updated_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    status: Status = "working"
    result: JsonObject | None = None
    error: JsonObject | None = None
    questions: dict[str, Question] = field(default_factory=dict[str, Question])
    on_change: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    work: "asyncio.Task[None] | None" = None
    _numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    @property
    def ended(self) -> bool:
        return self.status in ("completed", "failed", "cancelled")

    def change(self, status: Status) -> None:
        self.status, self.updated_at = status, datetime.now(UTC)
        for hear in list(self.on_change):
            hear()

    async def ask(self, method: str, params: JsonObject, key: str = "") -> JsonObject:
        """Put a question to whoever follows the task, and wait for the reply."""
        key = key or f"q{next(self._numbers)}"
        question = self.questions[key] = Question(method, params, asyncio.get_running_loop().create_future())
        self.change("input_required")
        try:
            return await question.reply
        finally:
            self.questions.pop(key, None)
            if not self.ended and not self.questions:
                self.change("working")

    def answer(self, key: str, reply: JsonObject) -> None:
        """A reply has come; one to a question that is not open changes nothing."""
        question = self.questions.pop(key, None)
        if question is not None and not question.reply.done():
            question.reply.set_result(reply)
            if not self.questions:
                self.change("working")

    async def wait(self) -> None:
        """Until the task changes."""
        changed = asyncio.Event()
        self.on_change.append(changed.set)
        try:
            await changed.wait()
        finally:
            self.on_change.remove(changed.set)


class LocalTasks:
    """All of them."""

    def __init__(self, promote_after: float = PROMOTE_AFTER) -> None:
        self.promote_after = promote_after
        """Seconds after which the call of a client that has tasks becomes one."""
        self._tasks: dict[str, LocalTask] = {}
        self._running = Tasks()

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, principal: Principal, work: Work, ttl: float = TTL) -> LocalTask:
        """Begin `work` as a task, which is known from now on. Raises Overloaded."""
        self._make_room(principal)
        task = LocalTask(secrets.token_urlsafe(16), principal, min(max(ttl, 1.0), LONGEST_TTL))
        self._tasks[task.id] = task
        task.work = self._running.start(self._run(task, work), "task")
        asyncio.get_running_loop().call_later(task.ttl, self._forget, task)
        return task

    def find(self, number: str, principal: Principal) -> LocalTask | None:
        task = self._tasks.get(number)
        return task if task is not None and task.principal.name == principal.name else None

    def of(self, principal: Principal) -> list[LocalTask]:
        """The principal's own, oldest first."""
        return [task for task in self._tasks.values() if task.principal.name == principal.name]

    def cancel(self, task: LocalTask) -> None:
        """End a task; one that has ended stays as it is."""
        if not task.ended:
            task.change("cancelled")
            if task.work is not None:
                task.work.cancel()

    async def close(self) -> None:
        await self._running.close()

    async def _run(self, task: LocalTask, work: Work) -> None:
        try:
            result = await work(task)
        except WicketError as problem:
            if not task.ended:
                task.error = error_of(problem)
                task.change("failed")
        else:
            if not task.ended:
                task.result = result
                task.change("completed")

    def _make_room(self, principal: Principal) -> None:
        """Forget the oldest that have ended where there are too many. Raises Overloaded where all still run."""
        own = self.of(principal)
        if len(own) < MAX_PER_PRINCIPAL and len(self._tasks) < MAX_TASKS:
            return
        oldest = next((task for task in own if task.ended), None)
        if oldest is None:
            raise Overloaded("Too many tasks are under way.", hint="Cancel one, or wait until one has ended.")
        self._forget(oldest)

    def _forget(self, task: LocalTask) -> None:
        self._tasks.pop(task.id, None)
        self.cancel(task)


@dataclass(frozen=True, slots=True)
class TaskCaller:
    """The client of a legacy task: it hears nothing on the way, and is asked when it comes for the result."""

    client: Caller
    task: LocalTask

    @property
    def principal(self) -> Principal:
        return self.client.principal

    @property
    def session(self) -> str:
        return self.client.session

    @property
    def client_name(self) -> str:
        return self.client.client_name

    @property
    def capabilities(self) -> JsonObject:
        return self.client.capabilities

    @property
    def resumes(self) -> bool:
        return False

    @property
    def log_level(self) -> str:
        return ""

    def notify(self, method: str, params: JsonObject) -> None:
        return None

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        return await self.task.ask(method, params)
