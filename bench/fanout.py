"""How many messages reach the upstreams for one call: 20 upstreams with 20 tools each, half on pipes, half over HTTP.

Every upstream notes what it hears in one shared file. After a warm-up the catalogue is left to settle; from then on a
call of any of the 400 tools must cost exactly one request upstream, and nothing else may be heard.
"""

import asyncio
import itertools
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import environments
from clients import BenchError, HttpClient, Program
from contenders import ECHO, PEERS, wicket_serve, write_mcp_servers, write_wicket_config
from machine import free_port
from peers.http_hop import HopLost
from wicket_mcp.model import JsonObject

UPSTREAMS = 20
TOOLS = 20
AT_ONCE = 16
FASTMCP_CALLS = 8  # one at a time: each takes seconds, because it connects to every upstream anew
QUIET = 3.0  # seconds of silence after which the upstreams count as settled
SETTLE_LIMIT = 60.0


class Heard:
    """The file in which all upstreams note the methods they hear."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True)
        path.touch()

    def position(self) -> int:
        return self.path.stat().st_size

    def since(self, position: int) -> Counter[str]:
        return Counter(self.path.read_bytes()[position:].decode().split())


@dataclass(frozen=True)
class Count:
    """What the upstreams heard while one contender made its calls."""

    name: str
    tools: int
    calls: int
    seconds: float
    heard: Mapping[str, int]

    @property
    def per_call(self) -> float:
        return sum(self.heard.values()) / self.calls

    def __str__(self) -> str:
        detail = ", ".join(f"{count} {method}" for method, count in sorted(self.heard.items()))
        return f"{self.per_call:.2f} upstream messages a call ({self.calls} calls of {self.tools} tools: {detail})"


async def count_requests(folder: Path, calls: int) -> list[Count]:
    """The counts for Wicket's dialects and eras, and FastMCP's for comparison."""
    heard = Heard(folder / "heard")
    options = ("--tools", str(TOOLS), "--log", str(heard.path))
    port = free_port()
    behind = Program((*ECHO, "http", str(port), *options), folder / "echo.log")
    await behind.start()
    half = UPSTREAMS // 2
    servers = {
        f"up{number:02}": (*ECHO, "stdio", *options) if number < half else (f"http://127.0.0.1:{port}/up{number}",)
        for number in range(UPSTREAMS)
    }
    try:
        return [
            *await _count_wicket(folder, servers, heard, calls),
            *await _count_fastmcp(folder, servers, heard),
        ]
    finally:
        await behind.stop()


async def _count_wicket(folder: Path, servers: Mapping[str, tuple[str, ...]], heard: Heard, calls: int) -> list[Count]:
    config = write_wicket_config(folder / "wicket", servers)
    port = free_port()
    program = Program((*wicket_serve(config), "--http", f"127.0.0.1:{port}"), folder / "wicket.log")
    await program.start()
    token = config.parent / "state" / "token"
    counts: list[Count] = []
    try:
        for dialect, modern in itertools.product(("flat", "native"), (False, True)):
            client = HttpClient(port, f"/mcp/{dialect}", modern=modern, token_file=token)
            await client.start()
            name = f"wicket {dialect} {'modern' if modern else 'legacy'}"
            if dialect == "flat":
                tools = [(tool["name"], None) for tool in (await client.request("tools/list", {}))["tools"]]
            else:
                names = ("echo", *(f"echo_{number}" for number in range(1, TOOLS)))
                tools = [("call_tool", f"{server}.{tool}") for server in servers for tool in names]
            counts.append(await _count(name, client, tools, heard, calls))
            await client.stop()
    finally:
        await program.stop()
    return counts


async def _count_fastmcp(folder: Path, servers: Mapping[str, tuple[str, ...]], heard: Heard) -> list[Count]:
    try:
        python = environments.program("fastmcp", "python")
    except environments.Missing:
        return []
    config = write_mcp_servers(folder / "fastmcp.json", servers)
    port = free_port()
    program = Program((python, str(PEERS / "fastmcp_proxy.py"), "http", str(port), str(config)), folder / "fastmcp.log")
    await program.start()
    client = HttpClient(port)
    try:
        async with asyncio.timeout(180):
            await client.start()
            tools = [(tool["name"], None) for tool in (await client.request("tools/list", {}))["tools"]]
            return [await _count("fastmcp legacy", client, tools, heard, FASTMCP_CALLS, at_once=1)]
    except (BenchError, HopLost, TimeoutError) as problem:
        reason = str(problem) or type(problem).__name__
        print(f"left out: fastmcp with {UPSTREAMS} upstreams: {reason}", file=sys.stderr)
        return []
    finally:
        await client.stop()
        await program.stop()


async def _count(
    name: str,
    client: HttpClient,
    tools: Sequence[tuple[str, str | None]],
    heard: Heard,
    calls: int,
    at_once: int = AT_ONCE,
) -> Count:
    order = [call for _ in range(-(-calls // len(tools))) for call in random.sample(tools, len(tools))][:calls]
    await _make(client, iter(order[: len(tools)]), at_once)
    await _settle(heard)
    before, began = heard.position(), time.perf_counter()
    await _make(client, iter(order), at_once)
    elapsed = time.perf_counter() - began
    return Count(name, len(tools), len(order), elapsed, heard.since(before))


async def _make(client: HttpClient, order: Iterator[tuple[str, str | None]], at_once: int) -> None:
    async def work() -> None:
        for name, inner in order:
            arguments: JsonObject = {"message": "x"}
            if inner is not None:
                arguments = {"name": inner, "arguments": arguments}
            result = await client.request("tools/call", {"name": name, "arguments": arguments})
            if result.get("isError"):
                raise BenchError(str(result)[:300])

    await asyncio.gather(*(work() for _ in range(at_once)))


async def _settle(heard: Heard) -> None:
    """Wait until no upstream has heard anything for a while."""
    end = time.monotonic() + SETTLE_LIMIT
    size, since = -1, time.monotonic()
    while time.monotonic() - since < QUIET and time.monotonic() < end:
        if (now := heard.position()) != size:
            size, since = now, time.monotonic()
        await asyncio.sleep(0.1)
