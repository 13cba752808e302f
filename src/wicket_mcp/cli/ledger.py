"""The ledger of tokens: what the servers' tools would cost an agent as a flat list, and what Wicket's menu costs.

Counts what a client puts into a prompt for each tool: its name, description and input schema. A flow is counted by
playing it against the catalogue: one search, its answer, one call. Knows no printing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from wicket_mcp.app import Gateway
from wicket_mcp.codec import encode
from wicket_mcp.dialects.base import ToolCall
from wicket_mcp.dialects.native import NATIVE
from wicket_mcp.model import LOCAL, JsonObject, Silent, Tool, as_list, as_object, as_text
from wicket_mcp.schema.signature import first_sentence

Counter = Callable[[str], int]
CHARS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Ledger:
    """All in tokens. `exact` says whether they were counted or estimated."""

    exact: bool
    tools: int
    flat: int
    menu: int
    instructions: int
    search: int
    call: int
    query: str
    servers: dict[str, int]
    heaviest: list[tuple[str, int]]
    failures: dict[str, str]

    @property
    def flow(self) -> int:
        """Everything a session with one task spends on finding and calling."""
        return self.menu + self.instructions + self.search + self.call


def counter() -> tuple[Counter, bool]:
    """A tokenizer, and whether it is a real one."""
    try:
        tokenizer: Any = import_module("rs_bpe").openai.o200k_base()  # an extra: it is large
    except ImportError:
        return lambda text: -(-len(text) // CHARS_PER_TOKEN), False
    return tokenizer.count, True


async def ledger(gateway: Gateway, heaviest: int = 10) -> Ledger:
    count, exact = counter()
    snapshot = await gateway.catalogue.complete()
    costs = {tool.key: count(prompt_text(name, tool.definition)) for name, tool in snapshot.wire.items()}
    by_server = {name: sum(costs[tool.key] for tool in tools) for name, tools in snapshot.by_server.items()}
    menu = [count(prompt_text(tool["name"], tool)) for tool in await NATIVE.list(gateway.verbs, LOCAL)]
    tool = _typical(snapshot.tools, costs)
    query = first_sentence(tool.description) or tool.name if tool else ""
    search, call = await _flow(gateway, tool, query, count) if tool else (0, 0)
    return Ledger(
        exact=exact,
        tools=len(snapshot.tools),
        flat=sum(costs.values()),
        menu=sum(menu),
        instructions=count(await gateway.instructions()),
        search=search,
        call=call,
        query=query,
        servers=dict(sorted(by_server.items(), key=lambda pair: -pair[1])),
        heaviest=sorted(costs.items(), key=lambda pair: -pair[1])[:heaviest],
        failures=dict(gateway.catalogue.failures),
    )


def prompt_text(name: str, definition: JsonObject) -> str:
    """A tool as a client hands it to a model."""
    tool = {"name": name, "description": as_text(definition.get("description"))}
    return encode({**tool, "input_schema": definition.get("inputSchema", {})}).decode()


def _typical(tools: tuple[Tool, ...], costs: dict[str, int]) -> Tool | None:
    """The tool of middling cost: neither the smallest nor the largest flow."""
    ordered = sorted(tools, key=lambda tool: (costs[tool.key], tool.key))
    return ordered[len(ordered) // 2] if ordered else None


async def _flow(gateway: Gateway, tool: Tool, query: str, count: Counter) -> tuple[int, int]:
    """The tokens of one search with its answer, and of one call around its own arguments and result."""
    arguments: JsonObject = {"query": query}
    answer = await NATIVE.call(gateway.verbs, "find_tools", ToolCall(arguments, Silent())) or {}
    texts = [as_text(as_object(block).get("text")) for block in as_list(answer.get("content"))]
    search = count(encode({"name": "find_tools", "arguments": arguments}).decode()) + count("\n".join(texts))
    wrapped: JsonObject = {"name": "call_tool", "arguments": {"name": tool.key, "arguments": {}}}
    return search, count(encode(wrapped).decode())
