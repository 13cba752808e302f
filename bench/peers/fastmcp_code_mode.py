"""FastMCP's code mode, measured the way bench/scripts.py measures Wicket's scripts; prints one JSON object.

    python fastmcp_code_mode.py ROUNDS LONG_ROUNDS PACE

Runs in FastMCP's own environment, hence the late imports. Tools are functions in the same process, and the server is
asked directly, without a client or a transport; for the twenty upstreams they are twenty in-process servers, each
behind FastMCP's own proxy.
"""

import asyncio
import json
import sys
import time
from importlib import import_module
from typing import Any

ONE = 'return await call_tool("add", {"a": 1, "b": 2})'
SEQUENTIAL = 'for i in range(200):\n    await call_tool("add", {"a": i, "b": 1})\nreturn 1'
BATCHED = 'import asyncio\nawait asyncio.gather(*[call_tool("add", {"a": i, "b": 1}) for i in range(200)])\nreturn 1'
FIFTY = 'import asyncio\nawait asyncio.gather(*[call_tool("slow", {"a": i, "b": 1}) for i in range(50)])\nreturn 1'


def server_of(name: str, **options: Any) -> Any:
    return import_module("fastmcp").FastMCP(name, **options)


def code_mode() -> Any:
    return import_module("fastmcp.experimental.transforms.code_mode").CodeMode(max_tool_calls=None)


def add(a: int, b: int) -> dict[str, int]:
    return {"sum": a + b}


async def slow(a: int, b: int) -> dict[str, int]:
    await asyncio.sleep(0.1)
    return {"sum": a + b}


async def timed(server: Any, code: str) -> float:
    began = time.perf_counter()
    await server.call_tool("execute", {"code": code})
    return time.perf_counter() - began


async def local(rounds: int, long_rounds: int, pace: float) -> dict[str, Any]:
    server = server_of("local", transforms=[code_mode()])
    server.tool(add)
    server.tool(slow)

    async def samples(code: str, count: int) -> list[float]:
        found: list[float] = []
        for _ in range(count):
            await asyncio.sleep(pace)
            found.append(await timed(server, code))
        return found

    await timed(server, ONE)
    return {
        "one": await samples(ONE, rounds),
        "sequential": await samples(SEQUENTIAL, long_rounds),
        "batched": await samples(BATCHED, long_rounds),
        "fifty": await samples(FIFTY, long_rounds),
    }


async def twenty() -> dict[str, Any]:
    middleware: Any = import_module("fastmcp.server.middleware").Middleware
    create_proxy: Any = import_module("fastmcp.server").create_proxy
    counts = {"listings": 0, "calls": 0}

    class Counting(middleware):
        async def on_list_tools(self, context: Any, call_next: Any) -> Any:
            counts["listings"] += 1
            return await call_next(context)

        async def on_call_tool(self, context: Any, call_next: Any) -> Any:
            counts["calls"] += 1
            return await call_next(context)

    gateway = server_of("gateway", transforms=[code_mode()])
    for number in range(20):
        upstream = server_of(f"upstream{number}", middleware=[Counting()])
        upstream.tool(add)
        gateway.mount(create_proxy(upstream), namespace=f"u{number}")
    lines = "\n".join(f'await call_tool("u{n}_add", {{"a": {n}, "b": 1}})' for n in range(20))
    await timed(gateway, 'return await call_tool("u0_add", {"a": 1, "b": 1})')
    counts.update(listings=0, calls=0)
    took = await timed(gateway, f"{lines}\nreturn 1")
    return {**counts, "ms": took * 1000}


async def main() -> None:
    rounds, long_rounds, pace = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    facts = {**await local(rounds, long_rounds, pace), "twenty": await twenty()}
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
