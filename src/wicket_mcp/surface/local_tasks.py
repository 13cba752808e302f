"""Tasks that Wicket keeps itself: for calls of servers without tasks, of our own tools, and of legacy clients.

A task is work that continues after its request was answered. It belongs to a principal, sends its questions to the
client that follows it, and is deleted when its time is over. It is also kept in the store, so that its result survives
a restart; if it stands for a server's task, that task is followed again. Tasks are limited in number, in total and for
each principal. Knows no wire format: `tasks_methods.py` has the formats of both eras.
"""

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Literal, NamedTuple, cast

import msgspec

from wicket_mcp.calls.task_wait import Followed
from wicket_mcp.codec import decode, encode
from wicket_mcp.errors import Internal, Overloaded, Unavailable, WicketError
from wicket_mcp.model import JsonObject, Principal, Represented, as_object
from wicket_mcp.quota import Quota
from wicket_mcp.store.base import ResultStore
from wicket_mcp.store.model import StoredResult
from wicket_mcp.surface.problems import error_of
from wicket_mcp.tasks import Tasks

log = logging.getLogger(__name__)

MAX_TASKS = 1000
MAX_BYTES = 256 * 1024**2  # in the store, for tasks and large results together
MAX_PER_PRINCIPAL = 100
TTL = 3600.0  # seconds from its creation until a task is deleted
LONGEST_TTL = 24 * 3600.0
PROMOTE_AFTER = 5.0  # seconds
POLL_MS = 1000  # how often a client should poll

KIND = "wicket.task"  # what the store calls them
STAGES = ("ended", "followed", "begun")
"""A task is stored once at each stage, because stored entries never change; the first stage found counts."""

Status = Literal["working", "input_required", "completed", "failed", "cancelled"]
Work = Callable[["LocalTask"], Awaitable[JsonObject]]


class Elsewhere(NamedTuple):
    """The tasks that other gateways of the cluster keep."""

    mark: Callable[[str], str]
    """The id of a task of ours, by which the others know that we keep it."""
    has: Callable[[str], Awaitable[bool]]
    """Whether the task with this id, ours or the clients', is kept by another gateway that is running. Raises
    Unavailable if that is not known at the moment.
    """
    ask: Callable[[str, JsonObject, Principal], Awaitable[JsonObject]]
    """That gateway's result of a modern method of tasks. Raises Refused, or Unavailable if it does not answer."""


class Question(msgspec.Struct):
    method: str
    params: JsonObject
    reply: "asyncio.Future[JsonObject]"


class LocalTask(msgspec.Struct, eq=False):
    """One task. The `on_change` callbacks run whenever its status or its questions change."""

    id: str
    principal: Principal
    ttl: float
    created_at: datetime = msgspec.field(default_factory=lambda: datetime.now(UTC))
    updated_at: datetime = msgspec.field(default_factory=lambda: datetime.now(UTC))
    status: Status = "working"
    result: JsonObject | None = None
    error: JsonObject | None = None
    followed: Followed = msgspec.field(default_factory=Followed)
    saved: set[str] = msgspec.field(default_factory=set[str])
    """The stages that are stored already."""
    questions: dict[str, Question] = msgspec.field(default_factory=dict[str, Question])
    on_change: list[Callable[[], None]] = msgspec.field(default_factory=list[Callable[[], None]])
    work: "asyncio.Task[None] | None" = None

    @property
    def ended(self) -> bool:
        return self.status in ("completed", "failed", "cancelled")

    def change(self, status: Status) -> None:
        self.status, self.updated_at = status, datetime.now(UTC)
        for hear in list(self.on_change):
            hear()

    def progress(self) -> None:
        """The server has said something else about its task that this one stands for."""
        if not self.ended:
            self.change(self.status)

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        """Ask a question through the client that follows the task, and wait for the reply.

        Its key is new in the life of the task, also after a restart: clients answer no key twice.
        """
        key = f"q-{secrets.token_urlsafe(6)}"
        question = self.questions[key] = Question(method, params, asyncio.get_running_loop().create_future())
        self.change("input_required")
        try:
            return await question.reply
        finally:
            self.questions.pop(key, None)
            if not self.ended and not self.questions:
                self.change("working")

    def answer(self, key: str, reply: JsonObject) -> None:
        """Record a reply; a reply to a question that is not open is ignored."""
        question = self.questions.pop(key, None)
        if question is not None and not question.reply.done():
            question.reply.set_result(reply)
            if not self.questions:
                self.change("working")

    async def wait(self) -> None:
        """Wait until the task changes."""
        changed = asyncio.Event()
        self.on_change.append(changed.set)
        try:
            await changed.wait()
        finally:
            self.on_change.remove(changed.set)


class LocalTasks:
    """All local tasks."""

    def __init__(self, store: ResultStore | None = None, promote_after: float = PROMOTE_AFTER) -> None:
        self._store = store
        self.promote_after = promote_after
        """Seconds after which a call of a client that supports tasks becomes one."""
        self.ttl = TTL
        """Seconds for which a task is kept if its client does not say how long."""
        self.elsewhere: Elsewhere | None = None
        self._tasks: dict[str, LocalTask] = {}
        self._quota = Quota[str, LocalTask](
            "tasks", total=MAX_TASKS, per_party=MAX_PER_PRINCIPAL, evict=self._forget_ended
        )
        self._recalled: set[str] = set()
        """The principals whose tasks from before a restart are known."""
        self._running = Tasks()
        self._saving = Tasks()

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def under_way(self) -> int:
        """How many tasks have not ended."""
        return sum(not task.ended for task in self._tasks.values())

    def share(self, elsewhere: Elsewhere) -> None:
        """Other gateways keep tasks too, which this reaches."""
        self.elsewhere = elsewhere

    async def start(
        self, principal: Principal, work: Work, ttl: float | None = None, followed: Followed | None = None
    ) -> LocalTask:
        """Begin `work` as a task that is recorded at once and survives a restart.

        Raises Overloaded before anything is done if there is no room.
        """
        seconds = min(max(self.ttl if ttl is None else ttl, 1.0), LONGEST_TTL)
        number = secrets.token_urlsafe(16)
        task = LocalTask(self.elsewhere.mark(number) if self.elsewhere else number, principal, seconds)
        task.followed = followed or task.followed
        if not self._know(task):
            raise _full()
        self.resume(task, work)
        await self._save(task)
        return task

    def resume(self, task: LocalTask, work: Work) -> None:
        """Run the task's work."""
        task.followed.on_known = lambda: self._save_soon(task)
        task.followed.on_progress = task.progress
        task.work = self._running.start(self._run(task, work), "task")
        task.work.add_done_callback(lambda run: self._on_run_ended(task, run))

    async def find(self, number: str, principal: Principal) -> LocalTask | None:
        """A task of the principal. One from before a restart that had not ended has no `work`.

        Raises Overloaded if there is no room to follow such a task.
        """
        task = self._tasks.get(number)
        if task is None and (task := await self.read(number, principal)) is not None:
            task = self._tasks.get(number) or task
            if not self._know(task) and not task.ended:
                raise _full()
        return task if task is not None and task.principal.id == principal.id else None

    def of(self, principal: Principal) -> list[LocalTask]:
        """The principal's tasks that are known here, oldest first."""
        own = (task for task in self._tasks.values() if task.principal.id == principal.id)
        return sorted(own, key=lambda task: task.created_at)

    async def recall(self, principal: Principal) -> list[str]:
        """Know the principal's tasks that the store has: from before a restart, and those of other gateways that have
        ended. Returns the ids of those that other gateways still work on.
        """
        if self._store is None or (self.elsewhere is None and principal.id in self._recalled):
            return []
        try:
            stored = [text.split(" ")[1:] for text in await self._store.list_results(KIND, principal)]
        except Internal as problem:
            log.warning("only the tasks that this process knows are listed: %s", problem)
            return []
        self._recalled.add(principal.id)
        ended = {number for number, stage in stored if stage == "ended"}
        numbers = list(dict.fromkeys(number for number, _ in stored))[-MAX_PER_PRINCIPAL:]
        running: list[str] = []
        for number in numbers:
            if number not in self._tasks and number not in ended and await self._may_run_elsewhere(number):
                running.append(number)
            else:
                with contextlib.suppress(Overloaded):  # it is listed when there is room again
                    await self.find(number, principal)
        return running

    async def _may_run_elsewhere(self, number: str) -> bool:
        try:
            return self.elsewhere is not None and await self.elsewhere.has(number)
        except Unavailable:
            return True

    def cancel(self, task: LocalTask) -> None:
        """Cancel a task; one that has ended stays as it is."""
        if not task.ended:
            task.change("cancelled")
            self._save_soon(task)
            if task.work is not None:
                task.work.cancel()

    async def close(self) -> None:
        """Stop following tasks; servers continue their own work. What was told to clients is stored."""
        for task in self._tasks.values():
            task.followed.abandoned = True
        await self._running.close()
        await self._saving.wait()

    def fail(self, task: LocalTask, problem: WicketError) -> None:
        task.error = error_of(problem)
        task.change("failed")
        self._save_soon(task)

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
        self._save_soon(task)

    def _on_run_ended(self, task: LocalTask, run: "asyncio.Task[None]") -> None:
        """Whatever ended the work has ended the task: else its clients would poll until its time is over."""
        if task.ended or task.followed.abandoned:
            return
        if run.cancelled():
            self.cancel(task)
        else:
            self.fail(task, Internal("The work failed because of a defect in Wicket; its log has the details."))

    def _know(self, task: LocalTask) -> bool:
        """Know a task until its time is over; False if there is no room."""
        if task.id in self._tasks:
            return True
        if not self._quota.add(task.principal.id, task):
            return False
        self._tasks[task.id] = task
        seconds = max(0.0, task.created_at.timestamp() + task.ttl - time.time())
        asyncio.get_running_loop().call_later(seconds, self._forget, task)
        return True

    def _save_soon(self, task: LocalTask) -> None:
        self._saving.start(self._save(task), "save task")

    async def _save(self, task: LocalTask) -> None:
        """Store a task if possible: without the store it is still known in this process."""
        stage = "ended" if task.ended else "followed" if task.followed.server else "begun"
        if self._store is None or stage in task.saved:
            return
        task.saved.add(stage)
        record = {
            "ttl": task.ttl,
            "created": task.created_at.timestamp(),
            "updated": task.updated_at.timestamp(),
            "status": "working" if task.status == "input_required" else task.status,
            "result": task.result,
            "error": task.error,
            "server": task.followed.server,
            "task": task.followed.created,
        }
        until = task.created_at.timestamp() + task.ttl
        stored = StoredResult(f"task {task.id} {stage}", task.principal.id, KIND, encode(record), until)
        try:
            await self._store.save_result(stored, MAX_BYTES)
        except Internal as problem:
            log.warning("a task is kept in memory only: %s", problem)

    async def read(self, number: str, principal: Principal) -> LocalTask | None:
        """A task as the store has it."""
        if self._store is None:
            return None
        stored: StoredResult | None = None
        for stage in STAGES:
            stored = stored or await self._store.load_result(f"task {number} {stage}", principal)
        if stored is None:
            return None
        record = as_object(decode(stored.body))
        task = LocalTask(number, principal, record["ttl"])
        task.created_at, task.updated_at = (datetime.fromtimestamp(record[key], UTC) for key in ("created", "updated"))
        task.status, task.result, task.error = cast("Status", record["status"]), record["result"], record["error"]
        task.followed = Followed(record["server"], record["task"])
        return task

    def _forget(self, task: LocalTask) -> None:
        self._tasks.pop(task.id, None)
        self._quota.remove(task.principal.id, task)
        self.cancel(task)

    def _forget_ended(self, task: LocalTask) -> bool:
        """Only ended tasks give way to others: the store still has them."""
        if task.ended:
            self._tasks.pop(task.id, None)
        return task.ended


def _full() -> Overloaded:
    return Overloaded("Too many tasks are under way.", hint="Cancel one, or wait until one has ended.")


class TaskCaller(Represented, frozen=True):
    """The client of a legacy task: it gets the questions when it requests the result, and no logs."""

    task: LocalTask
    tell: Callable[[str, JsonObject], None] = lambda _method, _params: None
    """Passes progress on to the session that made the task, if it is still there."""

    @property
    def followed(self) -> Followed:
        return self.task.followed

    @property
    def log_level(self) -> str:
        return ""

    def notify(self, method: str, params: JsonObject) -> None:
        self.tell(method, params)

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        return await self.task.ask(method, params)
