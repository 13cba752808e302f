"""What workers are worth: `python bench/workers.py [SECONDS] [WORKERS]`.

Calls a second in front of HTTP upstreams, by one worker and by WORKERS (2), in turns; the calls are made by as many
client processes as there are processors, so that the client is not what is measured. Then the price of the hop to a
command that another worker owns: the same call, answered by its owner and by who asks the owner. Exit status 1 when
two workers do not make 1.7 times the calls of one.
"""

import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import aiohttp

from clients import META, Program
from contenders import ECHO, write_wicket_config
from machine import description, free_port, load_average

CLIENTS = 16
"""Calls in flight, of each client process."""
TURNS = 3


def call(name: str) -> dict[str, object]:
    params = {"name": "call_tool", "arguments": {"name": name, "arguments": {"message": "hello"}}, "_meta": META}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


HEADERS = {
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": "tools/call",
    "Mcp-Name": "call_tool",
}


async def ask(session: aiohttp.ClientSession, port: int, name: str) -> float:
    began = time.perf_counter()
    async with session.post(f"http://127.0.0.1:{port}/mcp", json=call(name), headers=HEADERS) as answer:
        body = await answer.json()
    assert not body["result"].get("isError"), body
    return time.perf_counter() - began


async def press(port: int, seconds: float) -> int:
    """Calls that were answered."""
    until = time.monotonic() + seconds

    async def work() -> int:
        done = 0
        async with aiohttp.ClientSession() as session:
            while time.monotonic() < until:
                await ask(session, port, "server.echo")
                done += 1
        return done

    return sum(await asyncio.gather(*(work() for _ in range(CLIENTS))))


async def press_all(port: int, seconds: float) -> float:
    """Calls a second, by several client processes."""
    command = (sys.executable, __file__, "press", str(port), str(seconds))
    count = max(2, os.cpu_count() or 1)
    processes = [await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE) for _ in range(count)]
    said = await asyncio.gather(*(process.communicate() for process in processes))
    return sum(int(out) for out, _ in said) / seconds


async def serve(folder: Path, servers: dict[str, tuple[str, ...]], workers: int) -> tuple[Program, int]:
    config = write_wicket_config(folder, servers)
    port = free_port()
    command = (sys.executable, "-m", "wicket_mcp", "serve", "--http", f"127.0.0.1:{port}", "--no-auth")
    program = Program((*command, "--workers", str(workers), "--config", str(config)), folder / "wicket.log")
    await program.start()
    async with aiohttp.ClientSession() as session:
        while True:
            program.check()
            try:
                await ask(session, port, "server.echo")
            except (OSError, AssertionError, KeyError, aiohttp.ClientError):
                await asyncio.sleep(0.1)
            else:
                return program, port


async def hop_cost(port: int) -> list[float]:
    """The median wait of each of some connections: those of the owner are the quicker ones."""
    medians: list[float] = []
    for _ in range(24):
        async with aiohttp.ClientSession() as session:
            medians.append(statistics.median([await ask(session, port, "server.echo") for _ in range(50)]) * 1000)
    return sorted(medians)


async def main(seconds: float, workers: int) -> None:
    print(f"machine: {description()}; load average before: {load_average()}")
    rates: dict[int, list[float]] = {1: [], workers: []}
    with tempfile.TemporaryDirectory(prefix="wicket-bench-") as name:
        folder = Path(name)
        upstream_port = free_port()
        upstream = Program((*ECHO, "http", str(upstream_port)), folder / "upstream.log")
        await upstream.start()
        for _ in range(TURNS):
            for count, measured in rates.items():
                servers = {"server": (f"http://127.0.0.1:{upstream_port}/mcp",)}
                program, port = await serve(folder / str(count), servers, count)
                try:
                    measured.append(await press_all(port, seconds))
                finally:
                    await program.stop()
        await upstream.stop()
        program, port = await serve(folder / "owned", {"server": (*ECHO, "stdio")}, workers)
        try:
            waits = await hop_cost(port)
        finally:
            await program.stop()
    one, many = (statistics.median(measured) for measured in rates.values())
    print(f"HTTP -> HTTP: {one:.0f} calls/s by 1 worker, {many:.0f} by {workers}: {many / one:.2f} x (target 1.7)")
    direct, through = statistics.median(waits[:8]), statistics.median(waits[-8:])
    ratio = f"{through / direct:.2f} x (target 2)"
    print(f"a command, one call at a time: {direct:.2f} ms at its owner, {through:.2f} ms through it: {ratio}")
    print(f"load average after: {load_average()}")
    sys.exit(0 if many >= 1.7 * one else 1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["press"]:
        print(asyncio.run(press(int(sys.argv[2]), float(sys.argv[3]))))
    else:
        numbers = sys.argv[1:]
        asyncio.run(main(float(numbers[0]) if numbers else 5.0, int(numbers[1]) if len(numbers) > 1 else 2))
