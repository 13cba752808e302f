"""How long a client waits for its first answer: process start to `initialize` and `tools/list` answered, over stdio.

    python bench/coldstart.py [--rounds N] [--json] [--before PROGRAM]

Wicket with 1 and with 50 configured upstreams, with an empty state folder and with a warm catalogue, next to raw
Python, a bare server on the official SDK, and FastMCP's proxy; one after the other, round by round. Those are gateways
of their own (`--no-daemon`); then clients of a shared daemon: the first, which starts it, and one that comes later,
next to `python -c pass`; with `--before`, also a client of an earlier `wicket`. Then the modules that our own start
spends its time on. Exit status 1 when a target is missed.
"""

import argparse
import asyncio
import datetime
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import environments
from clients import BenchError, StdioClient
from contenders import ECHO, PEERS, wicket_serve, write_mcp_servers, write_wicket_config
from imports import slowest
from machine import cpu_seconds, description, load_average
from report import Verdict, number, save, table
from wicket_mcp.model import JsonObject

FEW, MANY = 1, 50
NOTHING, FIRST, LATER = "python -c pass", "wicket, first client of a daemon", "wicket, later client of a daemon"
BEFORE = "earlier wicket, 1 upstream"
RAW, SDK, FASTMCP = "raw Python", "SDK server, bare", "FastMCP proxy, 1 upstream"


stop_daemons: list[Callable[[], None]] = []


def nothing() -> None:
    """Needs no preparation."""


@dataclass
class Starter:
    """Something whose start is measured; `prepare` puts its state in order before each."""

    name: str
    command: Sequence[str]
    log: Path
    prepare: Callable[[], None] = nothing
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    waits: list[float] = field(default_factory=list[float])
    cpu: list[float] = field(default_factory=list[float])

    async def start(self, *, keep: bool) -> None:
        """One start, kept unless it is the first, which only warms the caches of the machine."""
        self.prepare()
        client = StdioClient(self.command, self.log, env=self.env)
        began = time.perf_counter()
        try:
            await client.start()
            await client.request("tools/list", {})
            if keep:
                self.waits.append((time.perf_counter() - began) * 1000)
                self.cpu.append(cpu_seconds(client.pid) * 1000)
        finally:
            await client.stop()

    async def run(self, *, keep: bool) -> None:
        """A start that is no server's: until the process has ended."""
        began = time.perf_counter()
        process = await asyncio.create_subprocess_exec(*self.command)
        await process.wait()
        if keep:
            self.waits.append((time.perf_counter() - began) * 1000)
            self.cpu.append(0.0)

    @property
    def median(self) -> float:
        return statistics.median(self.waits)

    @property
    def spread(self) -> float:
        """The middle half of what was measured, from end to end."""
        low, _, high = statistics.quantiles(self.waits, n=4)
        return high - low


def starters(folder: Path, before: str) -> Iterator[Starter]:
    yield Starter(RAW, (*ECHO, "stdio"), folder / "raw.log")
    try:
        python = environments.program("fastmcp", "python")
    except environments.Missing as problem:
        print(f"left out: the SDK and FastMCP cannot be installed: {problem}")
    else:
        servers = write_mcp_servers(folder / "servers.json", {"server": (*ECHO, "stdio")})
        yield Starter(SDK, (python, str(PEERS / "sdk_server.py")), folder / "sdk.log")
        command = (python, str(PEERS / "fastmcp_proxy.py"), "stdio", str(servers))
        yield Starter(FASTMCP, command, folder / "fastmcp.log")
    yield Starter(NOTHING, (sys.executable, "-c", "pass"), folder / "nothing.log")
    yield from shims(folder / "shim")
    if before:
        config = write_wicket_config(folder / "before", {"up00": (*ECHO, "stdio", "--tools", "10")})
        yield Starter(BEFORE, (before, "serve", "--config", str(config)), folder / "before.log")
    for upstreams in (FEW, MANY):
        for state in ("empty", "warm"):
            yield wicket(folder / f"wicket-{upstreams}-{state}", upstreams, state)


def shims(folder: Path) -> Iterator[Starter]:
    """The first client of a daemon, which starts it, and one that comes while it runs."""
    config = write_wicket_config(folder, {"up00": (*ECHO, "stdio", "--tools", "10")})
    env = {"WICKET_NO_DAEMON": "", "WICKET_RUNTIME_DIR": tempfile.mkdtemp(prefix="wicket-"), "WICKET_DAEMON_IDLE": "60"}

    def stop() -> None:
        command = (sys.executable, "-m", "wicket_mcp", "daemon", "stop")
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, **env})

    stop_daemons.append(stop)
    yield Starter(FIRST, wicket_serve(config), folder / "wicket.log", stop, env)
    yield Starter(LATER, wicket_serve(config), folder / "wicket.log", nothing, env)


def wicket(folder: Path, upstreams: int, state: str) -> Starter:
    servers = {f"up{number:02}": (*ECHO, "stdio", "--tools", "10") for number in range(upstreams)}
    config = write_wicket_config(folder, servers)
    prepare = nothing
    if state == "warm":
        command = (sys.executable, "-m", "wicket_mcp", "tools", "--config", str(config))
        subprocess.run(command, check=True, capture_output=True)
    else:

        def prepare() -> None:
            shutil.rmtree(folder / "state", ignore_errors=True)

    return Starter(wicket_name(upstreams, state), wicket_serve(config), folder / "wicket.log", prepare)


def wicket_name(upstreams: int, state: str) -> str:
    return f"wicket, {upstreams} upstream{'s' if upstreams > 1 else ''}, {state}"


async def measure(field: Sequence[Starter], rounds: int) -> None:
    for number_of_round in range(rounds + 1):
        for starter in field:
            await (starter.run if starter.name == NOTHING else starter.start)(keep=number_of_round > 0)
        print(f"round {number_of_round} of {rounds}", file=sys.stderr, flush=True)


def verdicts(field: Sequence[Starter]) -> list[Verdict]:
    by_name = {starter.name: starter for starter in field}
    found: list[Verdict] = []
    for state in ("empty", "warm"):
        few, many = by_name[wicket_name(FEW, state)], by_name[wicket_name(MANY, state)]
        difference = many.median - few.median
        noise = max(few.spread, many.spread, 0.05 * few.median)
        measured = f"{few.median:.0f} and {many.median:.0f} ms, {difference:+.0f} (noise {noise:.0f})"
        target = f"{FEW} and {MANY} upstreams start alike, {state}"
        found.append(Verdict(target, measured, abs(difference) <= noise))
    later, least, first = by_name[LATER].median, by_name[NOTHING].median, by_name[FIRST].median
    measured = f"{later:.0f} ms, {later / least:.1f} x {least:.0f} ms"
    found.append(Verdict("a later client is ready within 3 x `python -c pass`", measured, later <= 3 * least))
    own = by_name[wicket_name(FEW, "warm")]
    noise = max(own.spread, by_name[FIRST].spread, 0.05 * own.median)
    measured = f"{first:.0f} and {own.median:.0f} ms (noise {noise:.0f})"
    found.append(Verdict("the first client waits as long as without one", measured, first <= own.median + noise))
    if BEFORE in by_name:
        earlier = by_name[BEFORE]
        noise = max(earlier.spread, by_name[FIRST].spread, 0.05 * earlier.median)
        measured = f"{first:.0f} and {earlier.median:.0f} ms (noise {noise:.0f})"
        target = "the first client of a daemon waits no longer than one of the earlier wicket"
        found.append(Verdict(target, measured, first <= earlier.median + noise))
    if SDK in by_name:
        bare = by_name[SDK].median
        for starter in (starter for starter in field if starter.name.startswith("wicket")):
            measured = f"{starter.median:.0f} and {bare:.0f} ms"
            found.append(Verdict(f"{starter.name}: no slower than a bare SDK server", measured, starter.median <= bare))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9, help="how often everybody is started")
    parser.add_argument("--json", action="store_true", help="also write bench/out/coldstart.json")
    parser.add_argument("--before", default="", metavar="PROGRAM", help="an earlier wicket to start beside this one")
    options = parser.parse_args()

    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # installed packages are compiled once, not at every start
    print(f"machine: {description()}; load average before: {load_average()}")
    with tempfile.TemporaryDirectory(prefix="wicket-bench-") as name:
        folder = Path(name)
        field = list(starters(folder, options.before))
        try:
            try:
                asyncio.run(measure(field, options.rounds))
            finally:
                for stop in stop_daemons:
                    stop()
        except BenchError as problem:
            sys.exit(f"{problem}\n{''.join(path.read_text('utf-8')[-2000:] for path in folder.rglob('*.log'))}")
        ours = next(starter for starter in field if starter.name == wicket_name(FEW, "warm"))
        packages, modules = slowest(ours.command)
    print(f"load average after: {load_average()}\n")
    raw = field[0].median
    rows = [
        [
            starter.name,
            number(starter.median, 0),
            number(min(starter.waits), 0),
            number(starter.spread, 0),
            number(statistics.median(starter.cpu), 0),
            f"{starter.median / raw:.1f}x",
        ]
        for starter in field
    ]
    print(table(["start to first list", "median ms", "best ms", "middle half ms", "CPU ms", "of raw Python"], rows))
    print("\nImports of `wicket serve` (with -X importtime, which makes them slower)\n")
    print(table(["package, all its modules", "ms"], [[name, number(ms, 1)] for name, ms in packages]))
    print()
    print(table(["module, by itself", "ms"], [[name, number(ms, 1)] for name, ms in modules]))
    judged = verdicts(field)
    print("\nTargets\n")
    print("\n".join(map(str, judged)))
    if options.json:
        print(f"\nwritten: {save('coldstart', facts(options, field), judged)}")
    sys.exit(0 if all(verdict.met for verdict in judged) else 1)


def facts(options: argparse.Namespace, field: Sequence[Starter]) -> JsonObject:
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": description(),
        "load_average": load_average(),
        "rounds": options.rounds,
        "starts": [{"name": starter.name, "ms": starter.waits, "cpu_ms": starter.cpu} for starter in field],
    }


if __name__ == "__main__":
    main()
