"""A legacy server (2025-11-25) whose tools can only be called as tasks, on raw JSON-RPC over its pipes.

`job` is done after two looks at it; `ask_job` wants input, and asks for it while its result is waited for; `endless`
works until it is cancelled; `late` does too, and is not answered with its task before `release`, a plain tool, is
called. `counts`, another, tells how many were made and how many cancelled.
"""

import json
import sys
from typing import Any

Message = dict[str, Any]
RELATED = "io.modelcontextprotocol/related-task"
AS_TASK: Message = {"inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}}


PLAIN: list[Message] = [{"name": name, "inputSchema": {"type": "object"}} for name in ("counts", "release")]


class LegacyTasks:
    def __init__(self) -> None:
        self.tasks: dict[str, Message] = {}
        self.waiting: dict[str, Any] = {}
        self.late: dict[Any, Message] = {}

    def run(self) -> None:
        for line in sys.stdin.buffer:
            message = json.loads(line)
            if "method" not in message:
                self.on_reply(message)
            elif "id" in message:
                self.on_request(message["id"], message["method"], message.get("params", {}))

    def send(self, message: Message) -> None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()

    def answer(self, number: Any, result: Message) -> None:
        self.send({"id": number, "result": result})

    def on_request(self, number: Any, method: str, params: Message) -> None:
        if method == "initialize":
            known: Message = {"tools": {}, "tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}}
            info = {"name": "legacy-tasks", "version": "1"}
            self.answer(number, {"protocolVersion": "2025-11-25", "capabilities": known, "serverInfo": info})
        elif method == "tools/list":
            self.answer(
                number,
                {"tools": [*({"name": name, **AS_TASK} for name in ("job", "ask_job", "endless", "late")), *PLAIN]},
            )
        elif method == "tools/call" and "task" in params:
            task: Message = {
                "taskId": f"t{len(self.tasks)}",
                "status": "working",
                "createdAt": "2026-01-01T00:00:00Z",
                "lastUpdatedAt": "2026-01-01T00:00:00Z",
                "ttl": params["task"]["ttl"],
                "pollInterval": 20,
            }
            self.tasks[task["taskId"]] = {**task, "tool": params["name"], "looks": 0}
            if params["name"] == "late":
                self.late[number] = task
            else:
                self.answer(number, {"task": task})
        elif method == "tools/call" and params["name"] == "release":
            while self.late:
                held, task = self.late.popitem()
                self.answer(held, {"task": task})
            self.answer(number, {"content": []})
        elif method == "tasks/get":
            task = self.tasks[params["taskId"]]
            task["looks"] += 1
            if task["looks"] >= 2 and task["tool"] not in ("endless", "late"):
                task["status"] = "completed" if task["tool"] == "job" else "input_required"
            self.answer(number, {key: value for key, value in task.items() if key not in ("tool", "looks")})
        elif method == "tasks/cancel":
            self.tasks[params["taskId"]]["status"] = "cancelled"
            self.answer(number, {"taskId": params["taskId"], "status": "cancelled"})
        elif method == "tools/call" and params["name"] == "counts":
            count = sum(task["status"] == "cancelled" for task in self.tasks.values())
            counts = {"executed": len(self.tasks), "cancelled": count}
            self.answer(number, {"content": [], "structuredContent": counts})
        elif method == "tasks/result":
            task = self.tasks[params["taskId"]]
            if task["tool"] == "job":
                self.finish(number, task, "done")
            else:
                self.waiting[task["taskId"]] = number
                asked: Message = {"message": "Go on?", "requestedSchema": {"type": "object", "properties": {}}}
                meta: Message = {RELATED: {"taskId": task["taskId"]}}
                self.send({"id": task["taskId"], "method": "elicitation/create", "params": {**asked, "_meta": meta}})
        else:
            self.send({"id": number, "error": {"code": -32601, "message": f"only as a task: {method}"}})

    def on_reply(self, message: Message) -> None:
        task = self.tasks[message["id"]]
        task["status"] = "completed"
        self.finish(self.waiting.pop(task["taskId"]), task, f"the client says {message['result']['action']}")

    def finish(self, number: Any, task: Message, words: str) -> None:
        meta = {RELATED: {"taskId": task["taskId"]}, "com.example/kept": True}
        self.answer(number, {"content": [{"type": "text", "text": words}], "_meta": meta})


if __name__ == "__main__":
    LegacyTasks().run()
