"""What bad servers cost the good ones: `python bench/neighbours.py [ROUNDS] [SECONDS]`.

Sixty-four clients call sixteen healthy servers through one gateway over HTTP, in turns with and without four bad ones
beside them: one floods, one hangs, one crashes, one is slow. Both kinds of turn follow each other in every round, so
that whatever else the machine does hits them alike. Printed: errors of the healthy calls, and the ratio of their p50
and p99.
"""

import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

HERE = Path(__file__).parent
ROOT = HERE.parent
HEALTHY = [f"good{number}" for number in range(16)]
BAD = {"floods": "Floods", "hangs": "Echo", "crashes": "DiesMidCall", "slow": "Slow"}
CLIENTS = 64
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "neighbours", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@dataclass
class Turn:
    """The healthy calls of one turn."""

    latencies: list[float] = field(default_factory=list[float])
    outcomes: Counter[str] = field(default_factory=Counter[str])

    def at(self, share: float) -> float:
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000


def configuration(folder: Path) -> Path:
    def table(name: str, kind: str, extra: str = "") -> str:
        args = json.dumps([str(HERE / "peers" / "bad_server.py"), kind])
        return f"[servers.{name}]\ncommand = {json.dumps(sys.executable)}\nargs = {args}\n{extra}\n"

    servers = [table(name, "Echo") for name in HEALTHY]
    servers += [table(name, kind, "timeout = 2") for name, kind in BAD.items()]
    path = folder / "wicket.toml"
    path.write_text(f'state_dir = "{folder / "state"}"\n' + "".join(servers))
    return path


class Client:
    """One connection pool for all clients."""

    def __init__(self, session: aiohttp.ClientSession, address: str) -> None:
        self._session, self._address = session, address

    async def call(self, server: str, tool: str, **arguments: Any) -> str:
        """What became of the call: `ok`, `failed` or `turned away`."""
        name = f"{server}__{tool}"
        params = {"name": name, "arguments": arguments, "_meta": META}
        headers = {
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call",
            "Mcp-Name": name,
        }
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        async with self._session.post(self._address, json=message, headers=headers) as answer:
            body = await answer.read()
            if answer.status == 503:
                return "turned away"  # the machine has more to do than it can, whoever's doing that is
            ok = answer.status == 200 and b'"isError":true' not in body and b'"error"' not in body
            return "ok" if ok else "failed"


async def turn(client: Client, seconds: float, *, bad: bool) -> Turn:
    done, end = Turn(), time.perf_counter() + seconds

    async def use(number: int) -> None:
        while time.perf_counter() < end:
            began = time.perf_counter()
            outcome = await client.call(HEALTHY[number % len(HEALTHY)], "echo", message="x" * 64)
            done.latencies.append(time.perf_counter() - began)
            done.outcomes[outcome] += 1

    async def provoke(server: str) -> None:
        while True:
            with suppress(aiohttp.ClientError):
                await client.call(server, "slow")

    work: list[Coroutine[Any, Any, None]] = [provoke(server) for server in BAD for _ in range(4)] if bad else []
    provoking = [asyncio.create_task(one) for one in work]
    await asyncio.gather(*(use(number) for number in range(CLIENTS)))
    for task in provoking:
        task.cancel()
    await asyncio.gather(*provoking, return_exceptions=True)
    return done


async def main(rounds: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as name:
        command = ("-m", "wicket_mcp", "serve", "--config", str(configuration(Path(name))))
        gateway = await asyncio.create_subprocess_exec(
            sys.executable,
            *command,
            "--http",
            "127.0.0.1:0",
            "--no-auth",
            "--dialect",
            "flat",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            address = await _address(gateway)
            reading = asyncio.create_task(_drain(gateway))
            await measure(address, rounds, seconds)
        finally:
            gateway.terminate()
            await gateway.wait()
        await reading


async def measure(address: str, rounds: int, seconds: float) -> None:
    without: list[Turn] = []
    beside: list[Turn] = []
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        client = Client(session, address)
        await asyncio.gather(*(client.call(server, "echo", message="hello") for server in HEALTHY))
        await turn(client, seconds, bad=False)
        for number in range(rounds):
            without.append(await turn(client, seconds, bad=False))
            beside.append(await turn(client, seconds, bad=True))
            print(f"round {number + 1}: p99 {without[-1].at(0.99):.1f} -> {beside[-1].at(0.99):.1f} ms", flush=True)
    for share in (0.5, 0.99):
        ratio = statistics.median(b.at(share) / a.at(share) for a, b in zip(without, beside, strict=True))
        print(f"p{share * 100:.0f} beside bad servers: {ratio:.2f} x without")
    for title, turns in (("without", without), ("beside bad servers", beside)):
        print(f"healthy calls {title}: {dict(sum((one.outcomes for one in turns), Counter[str]()))}")


async def _drain(gateway: asyncio.subprocess.Process) -> None:
    """Read its log: a pipe that nobody reads fills up."""
    assert gateway.stdout is not None
    while await gateway.stdout.read(65536):
        pass


async def _address(gateway: asyncio.subprocess.Process) -> str:
    assert gateway.stdout is not None
    while line := (await gateway.stdout.readline()).decode():
        words = [word.strip(".,;()'\"") for word in line.split()]
        if address := next((word for word in words if word.startswith("http://") and "/mcp" in word), ""):
            return address
    raise SystemExit("the gateway did not start")


if __name__ == "__main__":
    arguments = [float(argument) for argument in sys.argv[1:]]
    asyncio.run(main(int(arguments[0]) if arguments else 5, arguments[1] if len(arguments) > 1 else 3.0))
