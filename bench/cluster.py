"""Replicas measured: python -m bench.cluster [--seconds 5] [--clients 16]

Real PostgreSQL, Redis and HAProxy on this machine; one HTTP server and one command behind 1, 2 and 3 replicas. Prints
calls a second and p95 for each, what the hop to the owner of a command costs, the memory of a replica, and what became
of calls of clients of both eras while replicas were killed, rolled, left without their database or Redis, and cut off
by the network. All share this machine's cores with the client, so that more replicas are quicker only where there are
cores for them. Ends within six minutes.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
from tests.cluster.house import House, Replica, replicas
from tests.cluster.load import Load, counting_child, is_typed
from tests.conftest import peer
from tests.gateway.serving import Raw
from tests.peers.counting_servers import CountingServer
from tests.peers.namespace import Namespace
from tests.peers.postgres import Postgres
from tests.peers.redis import RedisServer

CONTEXTFORGE = "ContextForge, as published by its makers (other machines, other load): 548-584 calls/s, p95 0.35 s"
TOOLS = ("x.echo", "child.echo")
LEAVE = '[http]\nleave_after = "1s"\n'


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


@asynccontextmanager
async def under_load(clients: int, machine: Namespace | None = None) -> AsyncGenerator["Faults"]:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = Postgres(machine.severed, machine.net) if machine else Postgres()
        postgres, redis = stack.enter_context(server), stack.enter_context(RedisServer())
        upstream = await stack.enter_async_context(CountingServer())
        http = await stack.enter_async_context(aiohttp.ClientSession())
        counted = folder / "counted"
        servers = {"child": counting_child(counted), **({} if machine else {"x": {"url": upstream.url}})}
        options = f"{'' if machine else f'shared_limits = {redis.address!r}'}\n{LEAVE}".replace("'", '"')
        running = replicas(folder, postgres.database(), servers, options=options, machine=machine)
        house = await stack.enter_async_context(running)
        yield Faults(house, http, postgres, redis, upstream, counted, TOOLS[1:] if machine else TOOLS, clients)


class Faults:
    """Three replicas under load, and the account of one fault after the other."""

    def __init__(
        self,
        house: House,
        http: aiohttp.ClientSession,
        postgres: Postgres,
        redis: RedisServer,
        upstream: CountingServer,
        counted: Path,
        tools: tuple[str, ...],
        clients: int,
    ) -> None:
        self.house, self.postgres, self.redis = house, postgres, redis
        self._http, self._upstream, self._counted = http, upstream, counted
        self._tools, self._clients = tools, clients

    async def run(self, name: str, fault: Callable[[], Awaitable[object]]) -> None:
        self._upstream.executed.clear()
        self._counted.write_text("")
        load = Load(self._http, self.house.address, self._tools, self._clients)
        await load.start()
        await asyncio.sleep(1)
        await fault()
        await asyncio.sleep(2)
        await load.stop()
        executed = [*self._upstream.executed, *self._counted.read_text().split()]
        account = load.account(executed)
        untyped = sum(not is_typed(problem) for problem in load.failed.values())
        print(
            f"  {name:<37} {len(load.sent):6} calls: {len(account['failed'])} with an error "
            f"({untyped} cut by HAProxy), {len(account['lost'])} lost, {len(account['doubled'])} executed twice, "
            f"{executed.count('twice')} processes owned twice"
        )


async def try_faults(clients: int) -> None:
    """The table of what was lost or doubled, fault by fault."""
    async with under_load(clients) as faults:
        house = faults.house

        async def roll() -> None:
            for replica in house.replicas:
                await replica.stop()
                await replica.start()

        async def restart_postgres() -> None:
            await asyncio.to_thread(faults.postgres.stop)
            await asyncio.to_thread(faults.postgres.start)

        await faults.run("rolling restart of all three", roll)
        await faults.run("PostgreSQL restarted", restart_postgres)
        await faults.run("Redis stopped", lambda: asyncio.to_thread(faults.redis.stop))
        await faults.run(f"kill -9 of one ({clients} calls in flight)", house.replicas[1].kill)


async def try_cut(clients: int) -> None:
    with Namespace() as machine:
        async with under_load(clients, machine) as faults:

            async def cut() -> None:
                machine.cut()
                await asyncio.sleep(20)
                machine.mend()
                await faults.house.replicas[0].ready()

            await faults.run("one cut off from PostgreSQL for 20 s", cut)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="for each measurement")
    parser.add_argument("--clients", type=int, default=16)
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}, load {os.getloadavg()[0]:.1f}")
    with Postgres() as postgres:
        for count in (1, 2, 3):
            await measure_speed(postgres, count, options.seconds, options.clients)
    await try_faults(options.clients)
    if os.geteuid() == 0:
        await try_cut(options.clients)
    else:
        print("  one cut off from PostgreSQL: left out, a network namespace needs root")
    print(CONTEXTFORGE)


if __name__ == "__main__":
    asyncio.run(main())
