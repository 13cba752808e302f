"""The world that test scripts live in: a calculator, and a call function that answers like a gateway would."""

import asyncio
from pathlib import Path
from typing import Any

from wicket_mcp.config.model.scripts import Limits
from wicket_mcp.errors import BadArguments, UnknownName
from wicket_mcp.model import Json, JsonObject, Tool
from wicket_mcp.scripts import Api, Outcome, Scripts
from wicket_mcp.scripts.calls import CallKind

NUMBERS: JsonObject = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}

TOOLS = (
    Tool("calculator", "add", {"description": "Add two numbers", "inputSchema": NUMBERS}),
    Tool("calculator", "blob", {"inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}}),
    Tool("calculator", "fail", {"inputSchema": {"type": "object"}}),
    Tool("mirror", "echo", {"inputSchema": {"type": "object", "properties": {"v": {}}}}),
    Tool("mirror", "to-list", {"inputSchema": {"type": "object", "properties": {"v": {"type": "array"}}}}),
    Tool("data-server", "slow.lookup", {"inputSchema": {"type": "object"}}),
)
API = Api.of(TOOLS)


def structured(value: JsonObject) -> JsonObject:
    return {"content": [], "structuredContent": value}


def text(value: str, *, error: bool = False) -> JsonObject:
    return {"content": [{"type": "text", "text": value}], "isError": error}


class World:
    """Answers calls, and remembers them: what was asked, and how many were in flight at once.

    With `together`, no call is answered before that many are in flight.
    """

    def __init__(self, together: int = 0) -> None:
        self.asked: list[tuple[str, str, JsonObject]] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self._together = together
        self._all_here = asyncio.Event()

    async def __call__(self, kind: CallKind, name: str, arguments: JsonObject) -> Json:
        self.asked.append((kind, name, arguments))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            if self.in_flight >= self._together:
                self._all_here.set()
            await self._all_here.wait()
            return self._answer(kind, name, arguments)
        finally:
            self.in_flight -= 1

    def _answer(self, kind: CallKind, name: str, arguments: JsonObject) -> Json:
        match kind, name:
            case "search", _:
                return [{"name": "calculator.add", "query": arguments["query"]}]
            case "describe", _:
                return {name: {"schema": NUMBERS} for name in arguments["names"]}
            case "result", _:
                if arguments["id"] != "r1":
                    raise UnknownName("result", str(arguments["id"]), ["r1"])
                return {"id": "r1", "rows": [1, 2, 3]}
            case _, "calculator.add":
                return structured({"sum": _number(arguments, "a") + _number(arguments, "b")})
            case _, "calculator.blob":
                return text("x" * _number(arguments, "n"))
            case _, "calculator.fail":
                return text("the calculator is out of order", error=True)
            case _, "mirror.echo":
                return structured(arguments)
            case _, "mirror.to-list":
                return text("a list" if isinstance(arguments["v"], list) else "no list")
            case _:
                return text("looked up")


def _number(arguments: JsonObject, name: str) -> int:
    value: Any = arguments.get(name)
    if not isinstance(value, int):
        raise BadArguments(f"'{name}' must be an integer.", hint="Signature: add(a: integer, b: integer).")
    return value


async def run(
    scripts: Scripts,
    language: str,
    source: str,
    world: World | None = None,
    limits: Limits | None = None,
    arguments: JsonObject | None = None,
    api: Api = API,
) -> Outcome:
    return await scripts.run(source, language, api, world or World(), limits, arguments)


def family(pid: int | None) -> list[int]:
    """A process's children and theirs."""
    found: list[int] = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (thread / "children").read_text().split()):
            found += [child, *family(child)]
    return found
