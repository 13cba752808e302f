"""What clients of a shared daemon notice of its death.

    python bench/daemon.py [--clients 10] [--servers 20] [--kills 5]

All clients start with the same `wicket serve` line and keep calls in flight at all servers. The servers are stopped for
a moment, so that no call can end, and the daemon is killed (SIGKILL), again and again. Prints how many servers run, how
each call that was in flight ended and how long after the kill, and when calls work again: at another daemon, which
starts the servers it needs. Exit status 1 when a call in flight ended later than a second after the kill, or with
anything but an answer or the error `crashed`.
"""

import argparse
import asyncio
import os
import shutil
import signal
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clients import StdioClient
from contenders import ECHO, wicket_serve, write_wicket_config
from machine import description, load_average
from wicket_mcp.daemon.control import find_daemons

IN_FLIGHT = 8
"""Calls that a client has in flight."""
WITHIN = 1.0
"""Seconds after the kill in which all of them must have ended."""
PRESSED, HELD = 1.0, 0.2
"""Seconds of load before each kill; of these, without an answer of any server."""


@dataclass
class Call:
    """One call of the load."""

    began: float
    ended: float
    error: str
    """The code of its error; empty for an answer."""


@dataclass
class Load:
    """The calls of all clients, until `stop` is set."""

    clients: list[StdioClient]
    servers: list[str]
    calls: list[Call] = field(default_factory=list[Call])
    killed: float = 0.0
    served: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a call that began after the kill was answered; then no more begin."""

    async def warm(self) -> None:
        """Have every server started."""
        await asyncio.gather(*(self._call(self.clients[0], name) for name in self.servers))
        self.calls.clear()

    async def run(self) -> None:
        await asyncio.gather(*(self._press(client, n) for client in self.clients for n in range(IN_FLIGHT)))

    async def _press(self, client: StdioClient, number: int) -> None:
        while not self.served.is_set():
            number += 1
            call = await self._call(client, self.servers[number % len(self.servers)])
            if self.killed and call.began > self.killed and not call.error:
                self.served.set()

    async def _call(self, client: StdioClient, server: str) -> Call:
        params = {"name": "call_tool", "arguments": {"name": f"{server}.echo", "arguments": {"message": "hello"}}}
        began = time.perf_counter()
        result = await client.request("tools/call", params)
        call = Call(began, time.perf_counter(), _error(result))
        self.calls.append(call)
        return call


@dataclass
class Death:
    """What came of one kill: calls that were in flight, by how they ended; seconds after the kill."""

    servers: int
    """Processes of servers that the daemon had."""
    answered: int
    crashed: int
    others: set[str]
    last: float
    served: float
    """When the first call of the next daemon was answered."""


def _error(result: dict[str, Any]) -> str:
    if not result.get("isError"):
        return ""
    return result.get("_meta", {}).get("wicket/error", {}).get("code", "untyped")


def servers_of(pid: int) -> list[int]:
    """The servers that a daemon runs."""
    children = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    return [child for child in children if ECHO[1].encode() in Path(f"/proc/{child}/cmdline").read_bytes()]


def the_daemon(runtime: Path) -> int:
    [(_, about)] = find_daemons(runtime)
    return about["pid"]


async def kill(load: Load, runtime: Path) -> Death:
    await load.warm()
    running = asyncio.ensure_future(load.run())
    await asyncio.sleep(PRESSED - HELD)
    daemon = the_daemon(runtime)
    servers = servers_of(daemon)
    for server in servers:
        os.kill(server, signal.SIGSTOP)
    await asyncio.sleep(HELD)
    load.killed = killed = time.perf_counter()
    os.kill(daemon, signal.SIGKILL)
    await running
    hit = [call for call in load.calls if call.began <= killed < call.ended]
    return Death(
        len(servers),
        sum(not call.error for call in hit),
        sum(call.error == "crashed" for call in hit),
        {call.error for call in load.calls} - {"", "crashed"},
        max(call.ended for call in hit) - killed,
        min(call.ended for call in load.calls if call.began > killed and not call.error) - killed,
    )


async def main(clients: int, servers: int, kills: int) -> None:
    print(f"machine: {description()}; load average before: {load_average()}")
    runtime = Path(tempfile.mkdtemp(prefix="wicket-"))  # a socket's path must be short
    env = {"WICKET_NO_DAEMON": "", "WICKET_RUNTIME_DIR": str(runtime), "WICKET_DAEMON_IDLE": "1"}
    with tempfile.TemporaryDirectory(prefix="wicket-bench-") as name:
        folder = Path(name)
        names = [f"up{number:02}" for number in range(servers)]
        config = write_wicket_config(folder, dict.fromkeys(names, (*ECHO, "stdio")))
        everybody = [StdioClient(wicket_serve(config), folder / "wicket.log", env=env) for _ in range(clients)]
        try:
            await asyncio.gather(*(client.start() for client in everybody))
            deaths = [await kill(Load(everybody, names), runtime) for _ in range(kills)]
        finally:
            for client in everybody:
                await client.stop()
            for _, about in find_daemons(runtime):
                os.kill(about["pid"], signal.SIGKILL)
            shutil.rmtree(runtime, ignore_errors=True)
    most = max(death.servers for death in deaths)
    print(f"{clients} clients of {servers} servers: one daemon, {most} server processes")
    for death in deaths:
        print(
            f"killed with {death.answered + death.crashed} calls in flight: {death.answered} answered, "
            f"{death.crashed} crashed, the last after {death.last * 1000:.0f} ms; "
            f"the next daemon answered after {death.served * 1000:.0f} ms"
        )
    last = max(death.last for death in deaths)
    served = statistics.median(death.served for death in deaths)
    others = set[str]().union(*(death.others for death in deaths))
    print(f"the last call in flight ended after {last * 1000:.0f} ms at most (target {WITHIN * 1000:.0f})")
    print(f"the next call worked after {served * 1000:.0f} ms (median); other errors: {sorted(others) or 'none'}")
    print(f"load average after: {load_average()}")
    sys.exit(0 if last <= WITHIN and not others else 1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--servers", type=int, default=20)
    parser.add_argument("--kills", type=int, default=5)
    options = parser.parse_args()
    asyncio.run(main(options.clients, options.servers, options.kills))
