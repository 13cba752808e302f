"""What watching costs a call: nothing exported, metrics for Prometheus, traces to a collector; one interleaved run.

    python bench/observing.py [--rounds 150] [--calls 40]

Processor time of this process for each `tools/call` that passes protocol, pipeline and a real server behind pipes; the
gateways take turns in short rounds, and each is compared with the two of its own round that cannot be watched at all:
their protocol and audit are without the places where a trace or a metric could come in. So whatever else the machine
does hits all, and how far those two are apart shows what the measurement is worth. HTTP is left out: what it costs
would only make the shares smaller. Nine in ten repetitions would fall into the interval. Exit status 1 when a bar is
missed.
"""

import argparse
import asyncio
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from dataclasses import fields
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.conftest import peer

from wicket_mcp import Gateway
from wicket_mcp.model import JsonObject, Silent
from wicket_mcp.observing import LoopLag, observe
from wicket_mcp.store.model import CallRecord
from wicket_mcp.surface.admission import Admission
from wicket_mcp.surface.protocol import Protocol, Request
from wicket_mcp.surface.sessions import Sessions

OPENINGS = 10
"""Times that all gateways are opened anew: where its memory happens to lie can make one of them a tenth slower."""
BLIND = ("blind", "blind, again")
BARS = {"nothing": 0.02, "metrics": 0.05, "traces, 10 %": 0.15}
COLLECTOR = """
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200); self.end_headers()
    def log_message(self, *_): pass
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


def request() -> Request:
    params: dict[str, Any] = {
        "name": "call_tool",
        "arguments": {"name": "echo.echo", "arguments": {"message": "hello"}},
    }
    return Request(1, "tools/call", params, Silent(), modern=False)


async def spend(protocol: Protocol, calls: int) -> float:
    """Processor time of one call, in microseconds."""
    started = time.process_time()
    for _ in range(calls):
        await protocol.answer(request())
    return (time.process_time() - started) / calls * 1e6


class BlindProtocol(Protocol):
    """As it would be if nobody had thought of traces."""

    def answer(self, request: Request) -> Awaitable[JsonObject]:
        return self._answer(request)


def blind(gateway: Gateway) -> Protocol:
    sinks = gateway.audit._sinks  # pyright: ignore[reportPrivateUsage]

    def record(record: CallRecord) -> None:
        for sink in sinks:
            sink(record)

    gateway.audit.record = record
    protocol = gateway.protocol()
    return BlindProtocol(**{each.name: getattr(protocol, each.name) for each in fields(protocol) if each.init})


async def measure(rounds: int, calls: int, endpoint: str) -> dict[str, list[float]]:
    async with AsyncExitStack() as opened:
        protocols: dict[str, Protocol] = {}
        for name in random.sample((*BLIND, *BARS), len(BLIND) + len(BARS)):
            folder = opened.enter_context(tempfile.TemporaryDirectory())
            trace = {"endpoint": endpoint, "percent": 10} if "traces" in name else {}
            config = {"servers": {"echo": peer("Echo")}, "state_dir": folder, "trace": trace}
            gateway = await opened.enter_async_context(Gateway.open(config))
            protocols[name] = blind(gateway) if name in BLIND else gateway.protocol()
            if name == "metrics":
                lag = LoopLag()
                observe(gateway, Sessions(lambda session: None), lag, Admission(lag))
            if gateway.tracing is not None:
                protocols[name].trace = gateway.tracing.server("tcp")
            await spend(protocols[name], calls)
        times: dict[str, list[float]] = {name: [] for name in protocols}
        names = list(protocols)
        for turn in range(rounds):
            for name in names[turn % len(names) :] + names[: turn % len(names)]:  # nobody is always the first
                times[name].append(await spend(protocols[name], calls))
        return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=150)
    parser.add_argument("--calls", type=int, default=40)
    options = parser.parse_args()
    with subprocess.Popen([sys.executable, "-c", COLLECTOR], stdout=subprocess.PIPE, text=True) as collector:
        assert collector.stdout is not None
        endpoint = f"http://127.0.0.1:{collector.stdout.readline().strip()}"
        try:
            times: dict[str, list[float]] = {name: [] for name in (*BLIND, *BARS)}
            for _ in range(OPENINGS):
                for name, taken in asyncio.run(measure(options.rounds // OPENINGS, options.calls, endpoint)).items():
                    times[name] += taken
        finally:
            collector.kill()
    bare = [statistics.mean(pair) for pair in zip(*(times[name] for name in BLIND), strict=True)]
    missed = False
    for name, taken in times.items():
        shares = [cost / base - 1 for cost, base in zip(taken, bare, strict=True)]
        dice = random.Random(1)
        drawn = sorted(statistics.median(dice.choices(shares, k=len(shares))) for _ in range(1000))
        share, bar = statistics.median(shares), BARS.get(name)
        missed |= bar is not None and share > bar
        words = "" if bar is None else f"  bar {bar:.0%}  {'holds' if share <= bar else 'MISSED'}"
        interval = f"({drawn[50]:+.1%} to {drawn[949]:+.1%})"
        sys.stdout.write(f"{name:14} {statistics.median(taken):8.1f} µs a call {share:+7.1%} {interval:20}{words}\n")
    sys.exit(missed)


if __name__ == "__main__":
    main()
