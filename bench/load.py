"""What a gateway does under load: `python bench/load.py neighbours|goodput [SECONDS] [TURN] [BAD ...]`.

`neighbours`: sixty-four clients call sixteen healthy servers for SECONDS (60), in short turns with and without four bad
servers beside them, which sixteen more clients call: one floods, one hangs, one crashes, one is slow (or only those
that are named). A flood that a turn has begun is stopped while it is over, and goes on in the next. Wicket's turns and
those of FastMCP's proxy, with the same servers behind it, follow each other, so that whatever else the machine does
hits all alike. Printed: what became of the healthy calls, the ratio of their p50 and p99, and that of the gateway's
processor time for each of them, bad ones' work included.

`goodput`: 64, 320, 1,000 and 3,000 clients, each with a connection of its own, call one server as fast as they are
answered, in turns of SECONDS (5), once all of them are connected. Who is turned away comes back after the time that
the answer names. The gateway has a core of its own; the clients, one process of sockets and prepared bytes
(`peers/callers.py`), and the server share another, so that what they cost is not what is measured. Printed: calls that
were answered in a second, and in a second of the gateway's processor time, which what else runs on the machine does not
change; their share of the best; and how busy the clients' process was.
"""

import asyncio
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import environments
from clients import META, Program
from contenders import write_mcp_servers
from machine import children, cpu_seconds, free_port
from peers.http_hop import Hop, HopLost
from wicket_mcp.codec import encode
from wicket_mcp.model import LATEST_LEGACY_VERSION, MODERN_VERSION, JsonObject

HERE = Path(__file__).parent
HEALTHY = [f"good{number}" for number in range(16)]
BAD = {"floods": "Floods", "hangs": "Echo", "crashes": "DiesMidCall", "slow": "Slow"}
CLIENTS = 64
READY = 90.0
MOMENT = 0.1  # seconds after which somebody whose call failed tries again
SETTLE = 4.0  # seconds in which those that come all at once are told when to come back
CORES = sorted(os.sched_getaffinity(0))
LEVELS = (64, 320, 1000, 3000)
HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
}


@dataclass
class Turn:
    """The calls of one turn that are measured."""

    seconds: float = 0.0
    cpu: float = 0.0
    """Seconds of the gateway's processor time."""
    latencies: list[float] = field(default_factory=list[float])
    outcomes: Counter[str] = field(default_factory=Counter[str])
    clients_cpu: float = 0.0
    """Seconds of the processor time of the clients, where they have a process of their own."""

    def at(self, share: float) -> float:
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000

    @property
    def rate(self) -> float:
        return self.outcomes["ok"] / self.seconds

    @property
    def worth(self) -> float:
        """Calls that were answered in a second of processor time."""
        return self.outcomes["ok"] / self.cpu


class Gateway:
    """A program that serves the tools of all servers; `separator` stands between server and tool in a name."""

    def __init__(self, name: str, port: int, separator: str, pid: int, *, modern: bool = True) -> None:
        self.name = name
        self._modern = modern
        self.pid = pid
        self.port = port
        self._separator = separator
        self._address = "127.0.0.1", port
        self.hop = Hop(*self._address)

    def client(self) -> Hop:
        """A client with connections of its own."""
        return Hop(*self._address)

    async def call(self, hop: Hop, server: str, tool: str, **arguments: Any) -> tuple[str, float]:
        """What became of the call (`ok`, `failed`, `turned away`), and the seconds after which to come back."""
        headers, body = self._message(server, tool, arguments)
        try:
            reply = await hop.post("/mcp", headers, body)
        except (HopLost, OSError):
            return "failed", 0.1
        if reply.status == 503:
            return "turned away", float(reply.headers.get(b"retry-after", b"1"))
        good = reply.status == 200 and b'"isError":true' not in reply.body and b'"error"' not in reply.body
        return ("ok", 0.0) if good else ("failed", 0.0)

    def request(self, server: str, tool: str, **arguments: Any) -> bytes:
        """The whole request, as it goes over the wire."""
        headers, body = self._message(server, tool, arguments)
        lines = {"Host": f"127.0.0.1:{self.port}", "Content-Length": str(len(body)), **headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        return f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body

    def _message(self, server: str, tool: str, arguments: dict[str, Any]) -> tuple[dict[str, str], bytes]:
        name = f"{server}{self._separator}{tool}"
        params: JsonObject = {"name": name, "arguments": arguments}
        headers = {**HEADERS, "MCP-Protocol-Version": LATEST_LEGACY_VERSION}
        if self._modern:
            params["_meta"] = META
            headers |= {"MCP-Protocol-Version": MODERN_VERSION, "Mcp-Method": "tools/call", "Mcp-Name": name}
        return headers, encode({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})

    async def is_ready(self) -> bool:
        """Whether every healthy server has answered, within a minute and a half."""
        try:
            async with asyncio.timeout(READY):
                for server in HEALTHY:
                    while (await self.call(self.hop, server, "echo", message="hi"))[0] != "ok":  # noqa: ASYNC110
                        await asyncio.sleep(0.2)
        except TimeoutError:
            print(f"{self.name}: left out, its servers did not all answer within {READY:.0f} s", flush=True)
            return False
        return True


async def use(
    gateway: Gateway, clients: int, seconds: float, *, bad: Sequence[str] = (), servers: Sequence[str]
) -> Turn:
    """One turn: each client calls again when it is answered, while others call the `bad` servers."""
    turn, hops = Turn(), [gateway.client() for _ in range(clients)]
    begin = end = float("inf")

    async def work(number: int, hop: Hop) -> None:
        while (sent := time.perf_counter()) < end:
            outcome, pause = await gateway.call(hop, servers[number % len(servers)], "echo", message="x" * 64)
            if begin <= sent and time.perf_counter() < end:
                turn.outcomes[outcome] += 1
                if outcome == "ok":
                    turn.latencies.append(time.perf_counter() - sent)
            if pause:
                await asyncio.sleep(min(pause * (0.75 + number % 50 / 100), max(0.0, end - time.perf_counter())))
        hop.close()

    await asyncio.gather(*(_connect(gateway, hop, servers[0]) for hop in hops))
    provoking = [asyncio.ensure_future(_provoke(gateway, server)) for server in bad for _ in range(4)]
    begin = time.perf_counter()
    end = begin + seconds
    working = asyncio.gather(*(work(number, hop) for number, hop in enumerate(hops)))
    cpu, began = cpu_seconds(gateway.pid), time.perf_counter()
    await asyncio.sleep(end - began)
    turn.seconds, turn.cpu = time.perf_counter() - began, cpu_seconds(gateway.pid) - cpu
    await working
    for task in provoking:
        task.cancel()
    await asyncio.gather(*provoking, return_exceptions=True)
    return turn


async def _connect(gateway: Gateway, hop: Hop, server: str) -> None:
    """Be answered once, or turned away: whoever cannot even connect tries again."""
    while (await gateway.call(hop, server, "echo", message="hi"))[0] == "failed":  # noqa: ASYNC110
        await asyncio.sleep(0.5)


async def _provoke(gateway: Gateway, server: str) -> None:
    hop = gateway.client()
    while True:
        if (await gateway.call(hop, server, "slow"))[0] != "ok":
            await asyncio.sleep(MOMENT)


def floods(gateway: Gateway, number: signal.Signals) -> None:
    """Stop its flooding server, or let it go on."""
    for pid in children(gateway.pid, BAD["floods"]):
        with suppress(ProcessLookupError):
            os.kill(pid, number)


async def neighbours(gateways: Sequence[Gateway], seconds: float, length: float, kinds: Sequence[str]) -> None:
    turns: dict[tuple[str, bool], list[Turn]] = {
        (gateway.name, bad): [] for gateway in gateways for bad in (False, True)
    }
    gateways = [gateway for gateway in gateways if await gateway.is_ready()]
    for gateway in gateways:
        await use(gateway, CLIENTS, 1.0, servers=HEALTHY)
    for number in range(max(1, round(seconds / length))):
        for gateway in gateways:
            for bad in (False, True) if number % 2 else (True, False):  # whoever is first finds cold caches
                floods(gateway, signal.SIGCONT if bad else signal.SIGSTOP)
                turn = await use(gateway, CLIENTS, length, bad=kinds if bad else (), servers=HEALTHY)
                turns[gateway.name, bad].append(turn)
            floods(gateway, signal.SIGSTOP)
    for gateway in gateways:
        floods(gateway, signal.SIGCONT)  # what is stopped does not notice that its gateway ends
    for gateway in gateways:
        alone, beside = turns[gateway.name, False], turns[gateway.name, True]
        for share in (0.5, 0.99):
            ratios = [
                b.at(share) / a.at(share) for a, b in zip(alone, beside, strict=True) if a.latencies and b.latencies
            ]
            ms = [statistics.median(turn.at(share) for turn in of if turn.latencies) for of in (alone, beside)]
            print(
                f"{gateway.name}: p{share * 100:.0f} {ms[0]:.1f} -> {ms[1]:.1f} ms beside bad servers, "
                f"{statistics.median(ratios):.2f} x (median of {len(ratios)} rounds)"
            )
        spent = [statistics.median(1000 / turn.worth for turn in of if turn.outcomes["ok"]) for of in (alone, beside)]
        print(f"{gateway.name}: {spent[0]:.2f} -> {spent[1]:.2f} ms of processor time for a healthy call")
        for title, of in (("without", alone), ("beside bad servers", beside)):
            print(f"{gateway.name}: healthy calls {title}: {dict(sum((turn.outcomes for turn in of), Counter[str]()))}")


async def goodput(gateway: Gateway, seconds: float, rounds: int = 5) -> None:
    if not await gateway.is_ready():
        return
    give_cores(gateway.pid)
    turns: dict[int, list[Turn]] = {level: [] for level in LEVELS}
    for number in range(rounds):
        for level in LEVELS:
            turns[level].append(await call_from_outside(gateway, level, seconds))
        print(
            f"round {number + 1}: " + ", ".join(f"{level}: {turns[level][-1].rate:.0f}/s" for level in LEVELS),
            flush=True,
        )
    best = max(statistics.median(turn.rate for turn in turns[level]) for level in LEVELS)
    most = max(statistics.median(turn.worth for turn in turns[level]) for level in LEVELS)
    for level in LEVELS:
        of = turns[level]
        rate, worth = (statistics.median(values) for values in ([t.rate for t in of], [t.worth for t in of]))
        away, failed = (sum(turn.outcomes[outcome] for turn in of) for outcome in ("turned away", "failed"))
        p99 = statistics.median(turn.at(0.99) for turn in of if turn.latencies)
        busy = statistics.median(turn.clients_cpu / turn.seconds for turn in of)
        print(
            f"{level} clients: goodput {rate:.0f} calls/s, {rate / best:.0%} of the best; {worth:.0f} for a second of "
            f"processor time, {worth / most:.0%} of the best; p99 {p99:.0f} ms, {away} turned away, {failed} failed; "
            f"the clients' own process {busy:.0%} of a core"
        )


async def call_from_outside(gateway: Gateway, clients: int, seconds: float) -> Turn:
    """One turn of so many clients in a process of their own."""
    command = (sys.executable, str(HERE / "peers" / "callers.py"), str(gateway.port), str(clients), str(SETTLE))
    callers = await asyncio.create_subprocess_exec(
        *command, str(seconds), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=2**24
    )
    assert callers.stdin is not None
    assert callers.stdout is not None
    callers.stdin.write(gateway.request(HEALTHY[0], "echo", message="x" * 64))
    callers.stdin.close()
    os.sched_setaffinity(callers.pid, {CORES[-1]})
    await callers.stdout.readline()
    cpu, began = cpu_seconds(gateway.pid), time.perf_counter()
    said = json.loads(await callers.stdout.readline())
    turn = Turn(time.perf_counter() - began, cpu_seconds(gateway.pid) - cpu, said["latencies"])
    turn.outcomes.update(said["outcomes"])
    turn.clients_cpu = said["cpu"]
    await callers.wait()
    return turn


def give_cores(pid: int) -> None:
    """The first core to a gateway and all its threads, the last one to whatever it has started."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), {CORES[0]})
    for child in children(pid):
        os.sched_setaffinity(child, {CORES[-1]})


def commands() -> dict[str, tuple[str, ...]]:
    program = (sys.executable, str(HERE / "peers" / "bad_server.py"))
    return dict.fromkeys(HEALTHY, (*program, "Echo")) | {name: (*program, kind) for name, kind in BAD.items()}


def configuration(folder: Path) -> Path:
    def table(name: str, command: Sequence[str]) -> str:
        extra = "timeout = 2\n" if name in BAD else ""
        return f"[servers.{name}]\ncommand = {json.dumps(command[0])}\nargs = {json.dumps(command[1:])}\n{extra}\n"

    path = folder / "wicket.toml"
    tables = "".join(table(name, command) for name, command in commands().items())
    path.write_text(f'state_dir = "{folder / "state"}"\n{tables}')
    return path


@asynccontextmanager
async def wicket(folder: Path) -> AsyncGenerator[Gateway]:
    port = free_port()
    serve = ("serve", "--config", str(configuration(folder)), "--http", f"127.0.0.1:{port}", "--no-auth")
    program = Program((sys.executable, "-m", "wicket_mcp", *serve, "--dialect", "flat"), folder / "wicket.log")
    async with _running(program):
        yield Gateway("wicket", port, "__", program.pid)


@asynccontextmanager
async def fastmcp(folder: Path) -> AsyncGenerator[Gateway]:
    port = free_port()
    target = write_mcp_servers(folder / "fastmcp.json", commands())
    proxy = (environments.program("fastmcp", "python"), str(HERE / "peers" / "fastmcp_proxy.py"), "mounted", str(port))
    program = Program((*proxy, str(target)), folder / "fastmcp.log")
    async with _running(program):
        yield Gateway("fastmcp", port, "_", program.pid, modern=False)


@asynccontextmanager
async def _running(program: Program) -> AsyncGenerator[None]:
    await program.start()
    try:
        yield
    finally:
        await program.stop()


async def main(what: str, *words: str) -> None:
    numbers = [float(word) for word in words if word not in BAD]
    kinds = [word for word in words if word in BAD] or list(BAD)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with wicket(folder) as ours:
            if what == "goodput":
                await goodput(ours, (*numbers, 5.0)[0])
                return
            seconds, length = (*numbers, *(60.0, 2.0)[len(numbers) :])
            async with fastmcp(folder) as theirs:
                await neighbours((ours, theirs), seconds, length, kinds)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "neighbours", *sys.argv[2:]))
