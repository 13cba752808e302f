"""Replicas measured: python -m bench.cluster [--seconds 5] [--clients 16] [--faults 60]

Real PostgreSQL, Redis and HAProxy on this machine; one HTTP server and one command behind 1, 2 and 3 replicas. Prints
calls a second and p95 for each, what the hop to the owner of a command costs, and the memory of a replica. Then three
replicas, 20 servers and 125 clients of both eras for 60 s: Redis is stopped, PostgreSQL restarted, one replica killed,
another rolled, a third cut off from the database by the network; the table says what became of the calls. All share
this machine's cores with the client, so that more replicas are quicker only where there are cores for them. Ends within
six minutes.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import aiohttp
from tests.cluster.faults import prepare
from tests.cluster.house import House, Replica, replicas
from tests.conftest import peer
from tests.gateway.serving import Raw
from tests.peers.counting_servers import CountingServer
from tests.peers.postgres import Postgres

CONTEXTFORGE = "ContextForge, as published by its makers (other machines, other load): 548-584 calls/s, p95 0.35 s"
TOOLS = ("x.echo", "child.echo")
CUT = 16.0
"""Seconds for which one replica is cut off from the database."""


async def press(http: aiohttp.ClientSession, address: str, tool: str, seconds: float, clients: int) -> list[float]:
    """The durations of the calls that modern clients made in so many seconds."""
    raw, durations = Raw(http, f"{address}/mcp"), list[float]()
    until = time.perf_counter() + seconds
    params = {"name": "call_tool", "arguments": {"name": tool, "arguments": {"message": "hello"}}}

    async def client() -> None:
        while (started := time.perf_counter()) < until:
            _, body = await raw.modern("tools/call", params)
            if body["result"]["content"][0]["text"] != "hello":
                raise SystemExit(f"a call of {tool} failed: {body}")
            durations.append(time.perf_counter() - started)

    await asyncio.gather(*(client() for _ in range(clients)))
    return sorted(durations)


def memory(replica: Replica) -> float:
    """Megabytes that a replica has in memory."""
    assert replica.process is not None
    pages = int(Path(f"/proc/{replica.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def measure_hop(http: aiohttp.ClientSession, house: House, seconds: float) -> None:
    """One client at each replica in turn: the owner answers itself, the others ask it."""
    for _ in range(2):
        for replica in house.replicas:
            await press(http, replica.address, "child.echo", 0.2, 1)
    waits: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(3):
        for replica in house.replicas:
            durations = await press(http, replica.address, "child.echo", seconds / 6, 1)
            waits["runs server 'child'" in replica.log].append(statistics.median(durations) * 1000)
    direct, through = (statistics.median(waits[owner]) for owner in (True, False))
    words = f"{direct:.2f} ms at its owner, {through:.2f} ms through it: {through / direct:.2f} x"
    print(f"  a command, one call at a time: {words}")


async def measure_speed(postgres: Postgres, count: int, seconds: float, clients: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with CountingServer() as upstream, aiohttp.ClientSession() as http:
            servers = {"x": {"url": upstream.url}, "child": peer("Echo")}
            async with replicas(Path(folder), postgres.database(), servers, count=count) as house:
                for tool in TOOLS:
                    await press(http, house.address, tool, 1, clients)
                    durations = await press(http, house.address, tool, seconds, clients)
                    p95 = durations[int(len(durations) * 0.95)] * 1000
                    print(f"  {count} replicas, {tool:<10} {len(durations) / seconds:8.0f} calls/s, p95 {p95:7.1f} ms")
                print(f"  memory of a replica: {max(map(memory, house.replicas)):.0f} MiB")
                if count > 1:
                    await measure_hop(http, house, seconds)


async def try_faults(seconds: float, each: int, clients: int) -> None:
    """The table of what was lost, repeated or doubled, fault by fault, in one run of so many seconds."""
    print(f"  {each} servers over HTTP, {each} commands, {clients} clients of both eras: calls, scripts, large results")
    with tempfile.TemporaryDirectory() as folder:
        async with prepare(Path(folder), each, clients) as faults:
            began = time.perf_counter()
            # Five parts of equal length; who is cut off gives up after 5 s, and the others take over after 12 s.
            await faults.run(lambda: asyncio.sleep((seconds - CUT) / 6), lambda: asyncio.sleep(CUT))
            took = time.perf_counter() - began
            parts = faults.report()
            print(f"  {took:.0f} s, {sum(len(part.calls) for part in parts)} calls")
            head = ("", "calls", "error, typed", "error, untyped", "lost", "executed twice")
            print("  {:<34}{:>8}{:>14}{:>16}{:>6}{:>16}".format(*head))
            for part in parts:
                typed = len(part.failed) - len(part.untyped)
                counts = (len(part.calls), typed, len(part.untyped), len(part.lost), len(part.doubled))
                print("  {:<34}{:>8}{:>14}{:>16}{:>6}{:>16}".format(part.name, *counts))
            killed = next(part for part in parts if "killed" in part.name)
            late = len(killed.failed.keys() - faults.begun_before_death)
            print(f"  commands owned twice: {faults.owned_twice}; errors of calls begun after the kill: {late}")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="for each measurement")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--faults", type=float, default=60.0, help="seconds for all faults together")
    parser.add_argument("--upstreams", type=int, default=20, help="of the faults; half of them commands")
    parser.add_argument("--many", type=int, default=125, help="clients of the faults")
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}, load {os.getloadavg()[0]:.1f}")
    with Postgres() as postgres:
        for count in (1, 2, 3):
            await measure_speed(postgres, count, options.seconds, options.clients)
    if os.geteuid() == 0:
        await try_faults(options.faults, options.upstreams // 2, options.many)
    else:
        print("  faults: left out, cutting a replica off needs a network namespace, which needs root")
    print(CONTEXTFORGE)


if __name__ == "__main__":
    asyncio.run(main())
