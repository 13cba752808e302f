"""What watching costs a call: nothing exported, metrics for Prometheus, traces to a collector; one interleaved run.

    python bench/observing.py [--openings 12] [--rounds 100] [--calls 20]

Processor time of this process for each `tools/call` that passes protocol, pipeline and a real server behind pipes, with
the writing of its audit record. All variants use one gateway and one server, and take turns in rounds of a few
milliseconds: each has its own layers, and is compared with the two of its own round that cannot be watched at all,
whose protocol and audit are without the places where a trace or a metric could come in. What a variant puts off
(counting the records, sending the spans) is done within its own rounds, or measured apart and added. So whatever else
the machine does hits all, and how far those two are apart shows what the measurement is worth. The gateway is opened
anew several times; the interval, into which nine in ten repetitions would fall, is drawn from the openings. HTTP is
left out: it would only make the shares smaller. Exit status 1 unless every bar holds with its whole interval.
"""

# pyright: reportPrivateUsage=false
import argparse
import asyncio
import gc
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.conftest import peer

from wicket_mcp import Gateway
from wicket_mcp.calls.audit import Listener
from wicket_mcp.calls.forward import OnSent
from wicket_mcp.model import JsonObject, Silent
from wicket_mcp.observing import LoopLag, observe
from wicket_mcp.rooms import build
from wicket_mcp.store.model import CallRecord
from wicket_mcp.surface.admission import Admission
from wicket_mcp.surface.protocol import Protocol, Request, Serving
from wicket_mcp.surface.sessions import Sessions

BLIND = ("blind", "blind, again")
TRACES = "traces, 10 %"
BARS = {"nothing": 0.02, "metrics": 0.05, TRACES: 0.15}
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


class BlindProtocol(Protocol):
    """As it would be if nobody had thought of traces."""

    def answer(self, request: Request) -> Awaitable[JsonObject]:
        return self._answer(request)


class Variant(NamedTuple):
    """A way to be watched."""

    protocol: Protocol
    record: Any
    listeners: list[Listener]
    on_sent: OnSent | None


class Bench:
    """One gateway, watched in several ways."""

    def __init__(self, gateway: Gateway) -> None:
        assert gateway.tracing is not None
        self.gateway, self.tracing = gateway, gateway.tracing
        audit = gateway.audit
        own = list(audit._listeners)
        lag = LoopLag()
        observe(gateway, Sessions(lambda _session, _principal: None), lag, Admission(lag))
        counted = audit._listeners[-1]
        sinks = audit._sinks

        def record(record: CallRecord) -> None:
            for sink in sinks:
                sink(record)

        plain = Serving()
        untraced = build(gateway.config, replace(gateway._rooms.live, tracing=None))
        plain.replace({(): untraced.serve(())})
        parts = ((), gateway.feed, gateway.held, gateway.local_tasks)
        traced = gateway.protocol()
        traced.trace = self.tracing.server("tcp")
        self.variants = {
            **{name: Variant(BlindProtocol(plain, *parts), record, [], None) for name in BLIND},
            "nothing": Variant(Protocol(plain, *parts), audit.record, own, None),
            "metrics": Variant(Protocol(plain, *parts), audit.record, [*own, counted], None),
            TRACES: Variant(traced, audit.record, own, self.tracing.count),
        }

    async def spend(self, name: str, calls: int) -> float:
        """Processor time of one call, in microseconds."""
        protocol, record, listeners, on_sent = self.variants[name]
        audit = self.gateway.audit
        audit.record, audit._listeners, self.gateway.forward._on_sent = record, listeners, on_sent
        started = time.process_time()
        for _ in range(calls):
            await protocol.answer(request())
        audit.flush()
        await self.gateway.store._recorder.settle()  # type: ignore[attr-defined]
        return (time.process_time() - started) / calls * 1e6

    async def send_spans(self) -> float:
        """Processor time for what waits to be sent, in microseconds."""
        spans = self.tracing._spans
        waiting, spans._entries = spans._entries, []
        started = time.process_time()
        await spans.send(waiting)
        return (time.process_time() - started) * 1e6


async def measure(rounds: int, calls: int, endpoint: str) -> dict[str, list[float]]:
    with tempfile.TemporaryDirectory() as folder:
        trace = {"endpoint": endpoint, "percent": 10}
        config = {"servers": {"echo": peer("Echo")}, "state_dir": folder, "trace": trace}
        async with Gateway.open(config) as gateway:
            bench = Bench(gateway)
            for name in bench.variants:
                await bench.spend(name, 3 * calls)
            await bench.send_spans()  # loads what sending needs
            gc.collect()
            gc.freeze()
            gc.set_threshold(50_000, 20, 20)  # as `wicket serve` does
            times: dict[str, list[float]] = {name: [] for name in bench.variants}
            for _ in range(rounds):
                for name in random.sample(list(times), len(times)):  # nobody always follows the same one
                    times[name].append(await bench.spend(name, calls))
            sending = await bench.send_spans() / (rounds * calls)
            times[TRACES] = [cost + sending for cost in times[TRACES]]
            gc.unfreeze()
            return times


def compare(times: dict[str, list[float]]) -> dict[str, float]:
    """The median share by which each variant costs more than the mean of the blind ones of its round."""
    bare = [statistics.mean(pair) for pair in zip(*(times[name] for name in BLIND), strict=True)]
    return {
        name: statistics.median(cost / base - 1 for cost, base in zip(spent, bare, strict=True))
        for name, spent in times.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--openings", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--calls", type=int, default=20)
    options = parser.parse_args()
    with subprocess.Popen([sys.executable, "-c", COLLECTOR], stdout=subprocess.PIPE, text=True) as collector:
        assert collector.stdout is not None
        endpoint = f"http://127.0.0.1:{collector.stdout.readline().strip()}"
        try:
            openings = [asyncio.run(measure(options.rounds, options.calls, endpoint)) for _ in range(options.openings)]
        finally:
            collector.kill()
    compared = [compare(times) for times in openings]
    missed = False
    for name in (*BLIND, *BARS):
        shares = [opening[name] for opening in compared]
        dice = random.Random(1)
        drawn = sorted(statistics.mean(dice.choices(shares, k=len(shares))) for _ in range(2000))
        low, high, bar = drawn[100], drawn[1899], BARS.get(name)
        cost = statistics.median(cost for times in openings for cost in times[name])
        words = ""
        if bar is not None:
            verdict = "holds" if high <= bar else "MISSED" if low > bar else "not decided"
            words = f"  bar {bar:.0%}  {verdict}"
            missed |= verdict != "holds"
        interval = f"({low:+.1%} to {high:+.1%})"
        sys.stdout.write(f"{name:14} {cost:8.1f} µs a call {statistics.mean(shares):+7.1%} {interval:20}{words}\n")
    sys.exit(missed)


if __name__ == "__main__":
    main()
