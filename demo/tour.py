"""One find → call → read flow against three published servers, with what each step costs an agent in tokens.

Everything an agent would read is counted with a real tokenizer, next to what the flat list of all tools costs.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

from rs_bpe import openai

from wicket_mcp import Gateway
from wicket_mcp.codec import encode
from wicket_mcp.model import Silent
from wicket_mcp.surface.protocol import Protocol, Request

TOKENIZER = openai.o200k_base()
SQL = "SELECT i AS id, 'customer ' || i AS name, i * 37 % 1000 AS balance FROM range(1000) t(i)"


def cost(value: Any) -> int:
    return TOKENIZER.count(value if isinstance(value, str) else encode(value).decode())


def say(text: str = "") -> None:
    sys.stdout.write(f"{text}\n")


class Tour:
    """A client that talks to the gateway's own front and keeps count."""

    def __init__(self, protocol: Protocol) -> None:
        self.spent = 0
        self._protocol = protocol

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        return await self._protocol.answer(Request(1, method, params, Silent(), modern=False))

    async def step(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = await self.ask("tools/call", name=tool, arguments=arguments)
        text = result["content"][0]["text"]
        tokens = cost({"name": tool, "arguments": arguments}) + cost(text)
        self.spent += tokens
        say(f"\n> {tool} {encode(arguments).decode()}")
        for line in text.splitlines()[:6]:
            say(f"  {line[:150]}{'…' if len(line) > 150 else ''}")
        if len(text.splitlines()) > 6:
            say(f"  … {len(text.splitlines()) - 6} more lines")
        say(f"  [{tokens:,} tokens]")
        return result


async def main() -> None:
    async with Gateway.open(Path(__file__).parent / "wicket.toml") as gateway:
        say("Starting three published servers (time, git, duckdb) to see what they offer …")
        flat = (await gateway.protocol("flat").answer(Request(1, "tools/list", {}, Silent(), modern=False)))["tools"]
        if gateway.catalogue.failures:
            sys.exit("\n".join(f"{name}: {problem}" for name, problem in gateway.catalogue.failures.items()))
        tour = Tour(gateway.protocol("native"))
        menu = (await tour.ask("tools/list"))["tools"]
        told = (await tour.ask("initialize"))["instructions"]
        say(f"Flat, an agent would read {len(flat)} tools: {cost(flat):,} tokens before its first thought.")
        say(f"Through Wicket it reads {len(menu)} tools and the instructions: {cost(menu) + cost(told):,} tokens.")
        await tour.step("find_tools", query="run an SQL query", limit=2)
        result = await tour.step("call_tool", name="duckdb.execute_query", arguments={"sql": SQL})
        handle = result["_meta"]["wicket/result"]["id"]
        await tour.step("read_result", id=handle, path="rows[-2:]")
        await tour.step("read_result", id=handle, grep="customer 99[0-3]")
        whole = result["_meta"]["wicket/result"]["tokens"]
        say(f"\nThe flow cost {tour.spent:,} tokens; the query's answer alone has about {whole:,}.")
        say("With 79 servers the flat list has some 800,000 tokens; Wicket's part of the prompt stays under 1,000.")


asyncio.run(main())
