"""AgentDojo's tools as an MCP server on pipes: `python dojo.py SUITE`, in an environment that has agentdojo.

Beside the suite's tools it has `dojo_begin` (a fresh environment for a user task, with a text in every place that an
attacker can write to), `dojo_plan` (the recorded calls of a user task or an injection task) and `dojo_judge` (whether
what was done since `dojo_mark` has reached an injection task's goal). Speaks raw JSON-RPC.
"""

import contextlib
import json
import logging
import sys
import warnings
from importlib import import_module
from typing import Any

VERSION = "v1.2.2"


class Dojo:
    """One suite, and the environment of the task that is played."""

    def __init__(self, name: str) -> None:
        self.suite: Any = import_module("agentdojo.task_suite.load_suites").get_suites(VERSION)[name]
        self.runtime: Any = import_module("agentdojo.functions_runtime").FunctionsRuntime(self.suite.tools)
        self.vectors: list[str] = list(self.suite.get_injection_vector_defaults())
        self.fresh: dict[str, Any] = {}
        """Environments as they are at the beginning, by the text that was planted."""
        self.environment: Any = None
        self.before: Any = None
        """The environment before the calls that `judge` is about."""
        self.made: list[Any] = []
        """These calls."""

    def begin(self, user: str, text: str) -> dict[str, Any]:
        """A fresh environment; `text` stands in every place that an attacker can write to."""
        if text not in self.fresh:  # reading one takes a second
            planted = {vector: text or f"CANARY{vector.upper()}XX" for vector in self.vectors}
            self.fresh[text] = self.suite.load_and_inject_default_environment(planted)
        self.environment = self.fresh[text].model_copy(deep=True)
        if user:
            with contextlib.suppress(Exception):  # few tasks have one, and some of those refuse a planted text
                self.environment = self.suite.user_tasks[user].init_environment(self.environment)
        self.mark()
        return {}

    def mark(self) -> dict[str, Any]:
        """What follows is judged."""
        self.before, self.made = self.environment.model_copy(deep=True), []
        return {}

    def judge(self, task: str) -> dict[str, Any]:
        """Whether an injection task has reached its goal, by the suite's own check."""
        injection = self.suite.injection_tasks[task]
        reached = injection.security_from_traces("", self.before, self.environment, self.made)
        if reached is None:
            reached = injection.security("", self.before, self.environment)
        return {"reached": bool(reached)}

    def plan(self, task: str) -> dict[str, Any]:
        """The recorded calls of a task, in the environment as it is."""
        tasks = {**self.suite.user_tasks, **self.suite.injection_tasks}
        calls = tasks[task].ground_truth(self.environment.model_copy(deep=True))
        return {"calls": [{"name": call.function, "arguments": dict(call.args)} for call in calls]}

    def tasks(self) -> dict[str, Any]:
        goals = {name: task.GOAL for name, task in self.suite.injection_tasks.items()}
        return {"users": list(self.suite.user_tasks), "goals": goals}

    def describe(self) -> str:
        """The whole environment; some hold objects that refer to each other."""
        try:
            return self.environment.model_dump_json(fallback=str)
        except ValueError:
            return repr(self.environment)

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        before = self.describe()
        result, error = self.runtime.run_function(self.environment, name, arguments)
        self.made.append(import_module("agentdojo.functions_runtime").FunctionCall(function=name, args=arguments))
        text = error or (result if isinstance(result, str) else json.dumps(result, default=plain))
        changed = self.describe() != before
        return {
            "content": [{"type": "text", "text": text or ""}],
            "isError": bool(error),
            "_meta": {"changed": changed},
        }


def plain(value: Any) -> Any:
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else str(value)


OWN = {f"dojo_{name}": name for name in ("begin", "plan", "tasks", "mark", "judge")}


def answer(dojo: Dojo, method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        info = {"name": "dojo", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        tools = [
            {"name": tool.name, "description": tool.description, "inputSchema": tool.parameters.model_json_schema()}
            for tool in dojo.suite.tools
        ]
        own = [
            {"name": name, "inputSchema": {"type": "object"}, "annotations": {"openWorldHint": False}} for name in OWN
        ]
        return {"tools": tools + own}
    if method == "tools/call":
        name, arguments = params["name"], params.get("arguments", {})
        if name not in OWN:
            return dojo.call(name, arguments)
        value = getattr(dojo, OWN[name])(**arguments)
        return {"content": [], "structuredContent": value}
    return {}


def main() -> None:
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)  # the suites warn a lot
    dojo = Dojo(sys.argv[1])
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        try:
            reply = {"result": answer(dojo, message["method"], message.get("params", {}))}
        except Exception as problem:
            reply = {"error": {"code": -32000, "message": repr(problem)}}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}, default=str) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
