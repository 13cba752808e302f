"""A server of the modern era with tasks, and the fixtures that the conformance suite's `tasks-*` scenarios look for.

    python -m tests.conformance.task_server --stdio
    python -m tests.conformance.task_server --http PORT      0 takes a free one; prints the address

The SDK has no tasks, so this speaks the wire itself. `executed` in the result of `executions` counts what ran. The
task of `late` is not named before `release` is called. `twice`, which is no task, asks two questions by the same key.
`forgetful` shows its question twice more after it was answered.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar

from tests.conformance.wire_server import Message, Problem, serve

TASKS = "io.modelcontextprotocol/tasks"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
TASK_METHODS = ("tasks/get", "tasks/update", "tasks/cancel")


def text(words: str, **more: Any) -> Message:
    return {"content": [{"type": "text", "text": words}], **more}


def question(message: str, name: str = "confirm", kind: str = "boolean") -> Message:
    schema = {"type": "object", "properties": {name: {"type": kind}}}
    return {"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": schema}}


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass
class Task:
    id: str
    status: str = "working"
    created: str = field(default_factory=now)
    result: Message | None = None
    error: Message | None = None
    questions: dict[str, tuple[Message, "asyncio.Future[Message]"]] = field(
        default_factory=dict[str, tuple[Message, "asyncio.Future[Message]"]]
    )
    work: "asyncio.Task[None] | None" = None
    looks: "asyncio.Queue[None]" = field(default_factory=asyncio.Queue[None])

    def shown(self) -> Message:
        return {
            "taskId": self.id,
            "status": self.status,
            "createdAt": self.created,
            "lastUpdatedAt": now(),
            "ttlMs": 600_000,
            "pollIntervalMs": 50,
            "vendorField": {"kept": True},
        }

    def detailed(self) -> Message:
        more: Message = {}
        if self.status == "completed":
            more = {"result": {"resultType": "complete", **(self.result or {})}}
        elif self.status == "failed":
            more = {"error": self.error}
        elif self.questions:
            more = {"status": "input_required", "inputRequests": {key: q for key, (q, _) in self.questions.items()}}
        return {**self.shown(), **more}

    async def ask(self, key: str, asked: Message) -> Message:
        reply: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self.questions[key] = asked, reply
        return await reply


class TaskServer:
    named: ClassVar[dict[str, str]] = {"tools/call": "name", **dict.fromkeys(TASK_METHODS, "taskId")}

    def __init__(self) -> None:
        self.tasks: dict[str, Task] = {}
        self.executed: list[str] = []
        self.cancelled: list[str] = []
        self._numbers = itertools.count(1)
        self._released = asyncio.Event()

    async def answer(self, method: str, params: Message) -> Message:
        """The result. Raises Problem."""
        if method == "server/discover":
            known: Message = {"tools": {}, "extensions": {TASKS: {}}}
            return {
                "supportedVersions": ["2026-07-28"],
                "capabilities": known,
                "ttlMs": 0,
                "cacheScope": "private",
                "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "tasks", "version": "1"}},
            }
        if method == "tools/list":
            return {"tools": TOOLS, "ttlMs": 0, "cacheScope": "private"}
        if method == "tools/call":
            return await self.call(params)
        if method in TASK_METHODS:
            return self.follow(method, params)
        raise Problem(-32601, f"Method not found: {method}")

    def follow(self, method: str, params: Message) -> Message:
        if not has_tasks(params):
            raise needs_tasks()
        task = self.tasks.get(params.get("taskId", ""))
        if task is None:
            raise Problem(-32602, "Unknown task")
        if method == "tasks/get":
            task.looks.put_nowait(None)
            return task.detailed()
        if method == "tasks/update":
            for key, reply in params.get("inputResponses", {}).items():
                if key in task.questions:
                    task.questions.pop(key)[1].set_result(reply)
        elif task.status == "working" and task.work is not None:
            task.status = "cancelled"
            self.cancelled.append(task.id)
            task.work.cancel()
        return {}

    async def call(self, params: Message) -> Message:
        name, arguments = params["name"], params.get("arguments", {})
        if name == "greet":
            return text(f"Hello, {arguments.get('name')}!")
        if name == "executions":
            return text("", structuredContent={"executed": self.executed, "cancelled": self.cancelled})
        if name == "release":
            self._released.set()
            return text("")
        if name == "twice":
            number = params.get("requestState", "")
            if number == "second":
                return text("asked twice")
            state = "second" if number else "first"
            return {
                "resultType": "input_required",
                "inputRequests": {"same": question("Sure?")},
                "requestState": state,
            }
        if name not in WORK:
            raise Problem(-32602, f"Unknown tool: {name}")
        required = any(tool["name"] == name and tool.get("execution") for tool in TOOLS)
        if required and not has_tasks(params):
            raise needs_tasks()
        if name == "test_tool_with_task":
            replies = params.get("inputResponses")
            if not replies:
                asked = {"user_name": question("Your name?", "name", "string")}
                return {"resultType": "input_required", "inputRequests": asked, "requestState": "round-2"}
            arguments = {"name": replies["user_name"]["content"]["name"]}
        self.executed.append(name)
        task = Task(f"task-{next(self._numbers)}")
        if not has_tasks(params):
            return await WORK[name](task, arguments)
        self.tasks[task.id] = task
        task.work = asyncio.get_running_loop().create_task(self.run(task, WORK[name](task, arguments)))
        if name == "late":
            await self._released.wait()
        return {"resultType": "task", **task.shown()}

    async def run(self, task: Task, work: Awaitable[Message]) -> None:
        try:
            task.result = await work
            task.status = "completed"
        except Problem as problem:
            task.error, task.status = problem.error, "failed"


def has_tasks(params: Message) -> bool:
    return TASKS in params.get("_meta", {}).get(CAPABILITIES, {}).get("extensions", {})


def needs_tasks() -> Problem:
    return Problem(-32021, "Tasks are needed", {"requiredCapabilities": {"extensions": {TASKS: {}}}})


async def slow_compute(task: Task, arguments: Message) -> Message:
    await asyncio.sleep(arguments.get("seconds", 0))
    return text(f"computed {arguments.get('label', '')}", _meta={"com.example/kept": True})


async def late(task: Task, arguments: Message) -> Message:
    await asyncio.Event().wait()
    return {}


async def failing_job(task: Task, arguments: Message) -> Message:
    return text("it went wrong", isError=True)


async def protocol_error_job(task: Task, arguments: Message) -> Message:
    raise Problem(-32603, "the job broke", {"why": "on purpose"})


async def confirm_delete(task: Task, arguments: Message) -> Message:
    reply = await task.ask("confirm", question(f"Delete {arguments.get('filename')}?"))
    return text(f"deleted: {reply.get('content', {}).get('confirm')}")


async def forgetful(task: Task, arguments: Message) -> Message:
    asked = question("Once?")
    await task.ask("once", asked)
    while not task.looks.empty():
        task.looks.get_nowait()
    task.questions["once"] = asked, asyncio.get_running_loop().create_future()
    for _ in range(2):
        await task.looks.get()
    task.questions.clear()
    return text("asked once")


async def multi_input(task: Task, arguments: Message) -> Message:
    asked = [task.ask(key, question(f"{key}?", "name", "string")) for key in ("first", "second")]
    replies = await asyncio.gather(*asked)
    return text(" ".join(str(reply.get("content", {}).get("name")) for reply in replies))


async def escalate(task: Task, arguments: Message) -> Message:
    return text(f"Hello, {arguments['name']}")


WORK: dict[str, Callable[[Task, Message], Awaitable[Message]]] = {
    "slow_compute": slow_compute,
    "late": late,
    "failing_job": failing_job,
    "protocol_error_job": protocol_error_job,
    "confirm_delete": confirm_delete,
    "forgetful": forgetful,
    "multi_input": multi_input,
    "test_tool_with_task": escalate,
}
REQUIRED = ("failing_job", "test_tool_with_task")
OBJECT: Message = {"type": "object"}
TOOLS: list[Message] = [
    *({"name": name, "inputSchema": OBJECT} for name in ("greet", "executions", "release", "twice")),
    *(
        {
            "name": name,
            "inputSchema": OBJECT,
            **({"execution": {"taskSupport": "required"}} if name in REQUIRED else {}),
        }
        for name in WORK
    ),
]


if __name__ == "__main__":
    serve(TaskServer())
