"""What workers are worth: `python bench/workers.py [SECONDS] [WORKERS]`.

Calls a second in front of HTTP upstreams, by one worker on one processor and by WORKERS (2) on as many, in turns. The
client and upstream share the processors with their workers, so that neither number of workers has a processor for
its client that the other has not; they are as cheap as they come: `wrk` sends, HAProxy answers (it reads the request's
id and gives a text back). What they take is printed beside what the workers take, and next to it how much more two busy
processes of this machine do than one, which no gateway can exceed. Then the price of the hop to a command that another
worker owns: the same call, one at a time, answered by its owner and by who asks the owner; the workers' own processor
time tells which it was. Needs `wrk` and `haproxy` (Debian's packages). Exit status 1 when a target is missed.
"""

import asyncio
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from clients import META, Program
from contenders import ECHO, write_wicket_config
from machine import description, free_port, load_average
from wicket_mcp.codec import encode

CONNECTIONS = 48
TURNS = 4
HOPS = 16
SCALE, HOP = 1.7, 2.0
TICK = os.sysconf("SC_CLK_TCK")

HAPROXY = """
global
  maxconn 2000
  nbthread 1
defaults
  mode http
  timeout connect 2s
  timeout client 1h
  timeout server 1h
  option http-buffer-request
frontend upstream
  bind 127.0.0.1:{port}
  http-request set-var(txn.id) req.body,json_query('$.id')
  acl call hdr(mcp-method) tools/call
  acl list hdr(mcp-method) tools/list
  acl discover hdr(mcp-method) server/discover
  http-request set-var(txn.message) req.body,json_query('$.params.arguments.message') if call
{answers}  http-request return status 405
"""
_CACHEABLE = '"resultType":"complete","ttlMs":3600000,"cacheScope":"public"'
_SCHEMA = '{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}'
ANSWERS = {
    "call": '{"content":[{"type":"text","text":"%[var(txn.message)]"}],"resultType":"complete"}',
    "list": f'{{"tools":[{{"name":"echo","inputSchema":{_SCHEMA}}}],{_CACHEABLE}}}',
    "discover": f'{{"supportedVersions":["2026-07-28"],"capabilities":{{"tools":{{}}}},{_CACHEABLE}}}',
}

ANSWER = """
  http-request return status 200 content-type application/json \\
    lf-string '{{"jsonrpc":"2.0","id":%[var(txn.id)],"result":{result}}}' if {method}
"""

HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": "tools/call",
    "Mcp-Name": "call_tool",
}
WRK = """
wrk.method = "POST"
wrk.body = [==[{body}]==]
{headers}
function response(status, headers, body)
  if status ~= 200 or not body:find('"text":"hello"', 1, true) then print("WRONG " .. status .. " " .. body) end
end
"""


def haproxy_config(port: int) -> str:
    answers = (ANSWER.format(method=method, result=result) for method, result in ANSWERS.items())
    return HAPROXY.format(port=port, answers="".join(answers).replace("\\\n   ", ""))


def body() -> bytes:
    arguments = {"name": "server.echo", "arguments": {"message": "hello"}}
    params = {"name": "call_tool", "arguments": arguments, "_meta": META}
    return encode({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})


def tool(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/bin")
    if found is None:
        sys.exit(f"{name} is missing: apt-get install {name}")
    return found


async def press(folder: Path, port: int, seconds: float, connections: int, *, check: bool = False) -> tuple[int, float]:
    """Calls that were answered, and the median wait in milliseconds. With `check`, every answer is read."""
    script = folder / "wrk.lua"
    headers = "\n".join(f'wrk.headers["{name}"] = "{value}"' for name, value in HEADERS.items())
    text = WRK.format(body=body().decode(), headers=headers)
    script.write_text(text if check else text.partition("function")[0])
    process = await asyncio.create_subprocess_exec(
        *(tool("wrk"), "-t1", f"-c{connections}", f"-d{round(seconds)}s", "--latency", "-s", str(script)),
        f"http://127.0.0.1:{port}/mcp",
        stdout=asyncio.subprocess.PIPE,
    )
    said = (await process.communicate())[0].decode()
    if "WRONG" in said or "Non-2xx" in said:
        sys.exit(f"calls failed: {said[:2000]}")
    calls = re.search(r"(\d+) requests in", said)
    median = re.search(r"50%\s+([\d.]+)(us|ms|s)", said)
    if calls is None or median is None:
        sys.exit(f"wrk said: {said}")
    return int(calls[1]), float(median[1]) * {"us": 0.001, "ms": 1.0, "s": 1000.0}[median[2]]


def own_cpu(pid: int) -> float:
    """Seconds of processor time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def cpu(pid: int) -> float:
    """Seconds of processor time of a process and of its children that still run."""
    own = own_cpu(pid)
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return own + sum(cpu(int(child)) for child in children)


async def serve(folder: Path, servers: dict[str, tuple[str, ...]], workers: int) -> tuple[Program, int]:
    config = write_wicket_config(folder, servers)
    (folder / "wicket.log").unlink(missing_ok=True)
    port = free_port()
    command = (sys.executable, "-m", "wicket_mcp", "serve", "--http", f"127.0.0.1:{port}", "--no-auth")
    program = Program((*command, "--workers", str(workers), "--config", str(config)), folder / "wicket.log")
    await program.start()
    try:
        while "wicket: serving" not in (folder / "wicket.log").read_text():  # all workers are ready
            program.check()
            await asyncio.sleep(0.1)
        await press(folder, port, 1, CONNECTIONS, check=True)
    except BaseException:  # also if the run ends here: nobody else knows the program yet
        await program.stop()
        raise
    return program, port


@dataclass
class Measured:
    """What came of one number of workers, turn by turn."""

    rates: list[float] = field(default_factory=list[float])
    costs: list[float] = field(default_factory=list[float])
    """Milliseconds of processor time of all workers for a call."""
    others: list[float] = field(default_factory=list[float])
    """The same of client and upstream."""


async def measure(folder: Path, upstream: Program, port: int, count: int, seconds: float, measured: Measured) -> None:
    servers = {"server": (f"http://127.0.0.1:{port}/mcp",)}
    everything = os.sched_getaffinity(0)
    used = set(sorted(everything)[:count])
    os.sched_setaffinity(0, used)  # and so for what we start from here on
    os.sched_setaffinity(upstream.pid, used)
    program, address = await serve(folder / str(count), servers, count)
    try:
        before, behind, client = cpu(program.pid), cpu(upstream.pid), os.times()
        calls, _ = await press(folder, address, seconds, CONNECTIONS)
        after = os.times()
        measured.rates.append(calls / seconds)
        measured.costs.append((cpu(program.pid) - before) / calls * 1000)
        sent = after.children_user + after.children_system - client.children_user - client.children_system
        measured.others.append((cpu(upstream.pid) - behind + sent) / calls * 1000)
    finally:
        await program.stop()
        os.sched_setaffinity(0, everything)


@dataclass
class Hop:
    """Calls of a command, at its owner and through it: waits and processor time in milliseconds."""

    direct: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    through: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])

    def medians(self) -> tuple[float, float, float, float]:
        kinds = (self.direct, self.through)
        if not all(kinds):
            sys.exit("all connections went to one worker: run it again")
        waits, costs = ([statistics.median(values[n] for values in kind) for kind in kinds] for n in (0, 1))
        return waits[0], waits[1], costs[0], costs[1]


async def hop(folder: Path, workers: int) -> Hop:
    """One connection at a time, which the kernel gives to any worker. One that is not the owner leaves much of the work
    to another: then two of them are busy.
    """
    program, port = await serve(folder / "owned", {"server": (*ECHO, "stdio")}, workers)
    measured = Hop()
    try:
        for _ in range(HOPS):
            before = worker_times(program.pid)
            calls, wait = await press(folder, port, 1, 1)
            spent = sorted(after - before[pid] for pid, after in worker_times(program.pid).items() if pid in before)
            kind = measured.through if spent[-2] > spent[-1] / 4 else measured.direct
            kind.append((wait, sum(spent) / calls * 1000))
    finally:
        await program.stop()
    return measured


def worker_times(master: int) -> dict[int, float]:
    """Seconds of processor time of each worker, without its servers."""
    children = Path(f"/proc/{master}/task/{master}/children").read_text().split()
    return {int(child): own_cpu(int(child)) for child in children}


def possible() -> float:
    """How much more two processes do on this machine than one, when they do nothing but count."""
    count = "import time\nend = time.perf_counter() + 2\nn = 0\nwhile time.perf_counter() < end: n += 1\nprint(n)"

    def run(processes: int) -> int:
        command = (sys.executable, "-c", count)
        started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
        return sum(int(process.communicate()[0]) for process in started)

    return run(2) / run(1)


async def main(seconds: float, workers: int) -> None:
    haproxy = tool("haproxy")
    tool("wrk")  # before anything is started
    print(f"machine: {description()}; load average before: {load_average()}")
    measured = {1: Measured(), workers: Measured()}
    with tempfile.TemporaryDirectory(prefix="wicket-bench-") as name:
        folder = Path(name)
        port = free_port()
        (folder / "haproxy.cfg").write_text(haproxy_config(port))
        upstream = Program((haproxy, "-f", str(folder / "haproxy.cfg"), "-db"), folder / "haproxy.log")
        await upstream.start()
        try:
            for _ in range(TURNS):
                for count, kept in measured.items():
                    await measure(folder, upstream, port, count, seconds, kept)
        finally:
            await upstream.stop()
        direct, through, own, both = (await hop(folder, workers)).medians()
    for count, kept in measured.items():
        rate, cost, other = (statistics.median(values) for values in (kept.rates, kept.costs, kept.others))
        print(
            f"HTTP -> HTTP, {count} worker(s): {rate:.0f} calls/s; CPU a call: {cost:.3f} ms here, {other:.3f} ms "
            f"client and upstream; {rate * (cost + other) / 1000:.2f} of {count} processor(s) busy"
        )
    one, many = measured[1], measured[workers]
    scale = statistics.median(many.rates) / statistics.median(one.rates)
    even = statistics.median(one.costs) / statistics.median(many.costs) * workers
    print(f"calls/s: {scale:.2f} x one worker's (target {SCALE}); by CPU a call {even:.2f} x")
    print(f"two processes that only count: {possible():.2f} x one of them")
    ratio = through / direct
    words = f"{direct:.3f} ms at its owner, {through:.3f} ms through it"
    print(f"a command, one call at a time: {words}: {ratio:.2f} x (target {HOP})")
    print(f"CPU of the workers for such a call: {own:.3f} and {both:.3f} ms: {both / own:.2f} x")
    print(f"load average after: {load_average()}")
    sys.exit(0 if scale >= SCALE and ratio <= HOP else 1)


if __name__ == "__main__":
    numbers = sys.argv[1:]
    asyncio.run(main(float(numbers[0]) if numbers else 5.0, int(numbers[1]) if len(numbers) > 1 else 2))
