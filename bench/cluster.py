"""Replicas measured: python -m bench.cluster [--calls 3000] [--clients 16]

Real PostgreSQL and HAProxy on this machine; one HTTP server and one command behind 1, 2 and 3 replicas. Prints calls a
second and p95 for each, what the hop to the owner of a command costs, the memory of a replica, and what became of calls
while replicas were killed, rolled, and left without their database or Redis. All share this machine's cores, so that
more replicas are quicker only where there are cores for them.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import aiohttp
from tests.cluster.house import House, Replica, replicas
from tests.conftest import peer
from tests.gateway.serving import Raw
from tests.peers.counting_servers import CountingServer
from tests.peers.postgres import Postgres
from tests.peers.redis import RedisServer

CONTEXTFORGE = "ContextForge, as published by its makers (other machines, other load): 548-584 calls/s, p95 0.35 s"


async def call(raw: Raw, tool: str, message: str) -> str:
    """What went wrong; nothing where the message came back."""
    params = {"name": "call_tool", "arguments": {"name": tool, "arguments": {"message": message}}}
    try:
        _, body = await raw.modern("tools/call", params)
        said = str(body["result"]["content"][0]["text"])
    except (aiohttp.ClientError, KeyError, TypeError) as problem:
        return repr(problem)
    return "" if said == message else said


async def load(http: aiohttp.ClientSession, address: str, tool: str, calls: int, clients: int) -> tuple[float, float]:
    """Calls a second, and the 95th percentile of their durations."""
    raw, left, durations = Raw(http, f"{address}/mcp"), iter(range(calls)), list[float]()

    async def client() -> None:
        for number in left:
            started = time.perf_counter()
            if problem := await call(raw, tool, f"m{number}"):
                raise SystemExit(f"a call of {tool} failed: {problem}")
            durations.append(time.perf_counter() - started)

    started = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    durations.sort()
    return calls / (time.perf_counter() - started), durations[int(len(durations) * 0.95)]


def memory(replica: Replica) -> float:
    """Megabytes that a replica has in memory."""
    assert replica.process is not None
    pages = int(Path(f"/proc/{replica.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def hop(http: aiohttp.ClientSession, house: House, calls: int) -> None:
    """One client at each replica in turn: the owner answers itself, the others ask it."""
    for replica in house.replicas:
        await load(http, replica.address, "child.echo", 50, 1)
        speed, p95 = await load(http, replica.address, "child.echo", calls, 1)
        role = "owner" if "runs server 'child'" in replica.log else "through the owner"
        print(f"  command, one client, {role:<18} {1000 / speed:7.2f} ms a call, p95 {p95 * 1000:6.2f} ms")


async def speed(postgres: Postgres, count: int, calls: int, clients: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with CountingServer() as upstream, aiohttp.ClientSession() as http:
            servers: dict[str, Any] = {"x": {"url": upstream.url}, "child": peer("Echo")}
            async with replicas(Path(folder), postgres.database(), servers, count=count) as house:
                for tool in ("x.echo", "child.echo"):
                    await load(http, house.address, tool, 100, clients)
                    rate, p95 = await load(http, house.address, tool, calls, clients)
                    print(f"  {count} replicas, {tool:<10} {rate:8.0f} calls/s, p95 {p95 * 1000:7.1f} ms")
                print(f"  memory of a replica: {max(map(memory, house.replicas)):.0f} MiB")
                if count > 1:
                    await hop(http, house, 200)


async def faults(clients: int) -> None:
    """The table of what was lost or doubled, fault by fault."""
    with tempfile.TemporaryDirectory() as folder, Postgres() as server, RedisServer() as redis:
        async with CountingServer() as upstream, aiohttp.ClientSession() as http:
            options = f'shared_limits = "{redis.address}"\n[http]\nleave_after = "1s"\n'
            servers = {"x": {"url": upstream.url}}
            async with replicas(Path(folder), server.database(), servers, options=options) as house:

                async def restart() -> None:
                    await house.replicas[0].stop()
                    await house.replicas[0].start()

                async def restart_postgres() -> None:
                    await asyncio.to_thread(server.stop)
                    await asyncio.to_thread(server.start)

                for name, work in (
                    ("rolling restart of one", restart()),
                    ("PostgreSQL restarted", restart_postgres()),
                    ("Redis stopped", asyncio.to_thread(redis.stop)),
                    ("kill -9 of one", house.replicas[1].kill()),
                ):
                    raw, sent, lost, stop = Raw(http, f"{house.address}/mcp"), list[str](), list[str](), asyncio.Event()

                    async def client(number: int, name: str = name, raw: Raw = raw, sent: list[str] = sent, lost: list[str] = lost, stop: asyncio.Event = stop) -> None:  # noqa: E501  # fmt: skip
                        while not stop.is_set():
                            message = f"{name} {number} {len(sent)}"
                            sent.append(message)
                            if await call(raw, "x.echo", message):
                                lost.append(message)

                    running = asyncio.gather(*(client(number) for number in range(clients)))
                    await asyncio.sleep(1)
                    await work
                    await asyncio.sleep(2)
                    stop.set()
                    await running
                    counted = Counter(upstream.executed)
                    doubled = sum(counted[message] > 1 for message in sent)
                    print(f"  {name:<24} {len(sent):6} calls, {len(lost):3} with an error, {doubled} executed twice")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=3000)
    parser.add_argument("--clients", type=int, default=16)
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}, load {os.getloadavg()[0]:.1f}")
    with Postgres() as postgres:
        for count in (1, 2, 3):
            await speed(postgres, count, options.calls, options.clients)
    await faults(options.clients)
    print(CONTEXTFORGE)


if __name__ == "__main__":
    asyncio.run(main())
