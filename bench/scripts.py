"""What a script costs: start, calls, memory, and what endless ones do to the event loop; beside FastMCP's code mode.

    python bench/scripts.py [--rounds N] [--json]

Tools are functions in this process, so that the engine is measured and no upstream is. FastMCP runs in its own
environment (`WICKET_BENCH_FASTMCP` names its interpreter; without it one is made), in the same run. Both give the
same samples, each the time of one whole script from its text to its value, and the same arithmetic is done on them.
Exit status 1 when a target is missed.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import environments
from machine import description, load_average
from report import Verdict, number, save, table
from wicket_mcp.codec import decode, encode
from wicket_mcp.config.model.scripts import Limits
from wicket_mcp.model import Json, JsonObject, Tool
from wicket_mcp.scripts import Api, Outcome, Scripts
from wicket_mcp.scripts.calls import CallKind
from wicket_mcp.tasks import Tasks

PEER = Path(__file__).parent / "peers" / "fastmcp_code_mode.py"
NUMBERS = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
API = Api.of(
    [Tool("calculator", name, {"inputSchema": NUMBERS}) for name in ("add", "slow")]
    + [Tool(f"u{n}", "add", {"inputSchema": NUMBERS}) for n in range(20)]
)
CALLS = 200
LONG_ROUNDS = 5
PACE = 0.25
"""Seconds between scripts, quicker than any agent: by then the next warm process is ready. The peer has the same."""
ONE = {
    "lua": "return calculator.add({a = 1, b = 2}):await()",
    "javascript": "return await calculator.add({a: 1, b: 2})",
    "python": "await calculator.add(a=1, b=2)",
}
SEQUENTIAL = {
    "lua": "for i = 1, 200 do calculator.add({a = i, b = 1}):await() end",
    "javascript": "for (let i = 0; i < 200; i++) await calculator.add({a: i, b: 1})",
    "python": "for i in range(200):\n    await calculator.add(a=i, b=1)",
}
BATCHED = {
    "lua": "local c = {} for i = 1, 200 do c[i] = calculator.add({a = i, b = 1}) end await_all(c)",
    "javascript": "await Promise.all([...Array(200).keys()].map((i) => calculator.add({a: i, b: 1})))",
    "python": "import asyncio\nawait asyncio.gather(*[calculator.add(a=i, b=1) for i in range(200)])\n1",
}
FIFTY = {
    "lua": "local c = {} for i = 1, 50 do c[i] = calculator.slow({a = i, b = 1}) end await_all(c)",
    "javascript": "await Promise.all([...Array(50).keys()].map((i) => calculator.slow({a: i, b: 1})))",
    "python": "import asyncio\nawait asyncio.gather(*[calculator.slow(a=i, b=1) for i in range(50)])\n1",
}
TWENTY = "\n".join(f"await u{n}.add(a={n}, b=1)" for n in range(20))
FOREVER = {"lua": "while true do end", "javascript": "for (;;) {}", "python": "while True:\n    pass"}
LAG_TARGET_MS = 20.0
FIFTY_TARGET_MS = 250.0


class Gateway:
    """Stands for the gateway: answers calls at once, or after 100 ms, or never."""

    def __init__(self) -> None:
        self.requests = 0
        self.waiting = asyncio.Event()

    async def __call__(self, kind: CallKind, name: str, arguments: JsonObject) -> Json:
        self.requests += 1
        if name == "calculator.slow":
            self.waiting.set()
            await asyncio.sleep(0.1)
        return {"content": [], "structuredContent": {"sum": arguments["a"] + arguments["b"]}}


async def timed(scripts: Scripts, language: str, source: str, limits: Limits | None = None) -> float:
    began = time.perf_counter()
    outcome = await scripts.run(source, language, API, Gateway(), limits)
    took = time.perf_counter() - began
    if outcome.problem is not None:
        raise SystemExit(f"{language}: {outcome.explain()}")
    return took


async def language_facts(scripts: Scripts, language: str, rounds: int) -> JsonObject:
    async def samples(source: str, count: int) -> list[float]:
        found: list[float] = []
        for _ in range(count):
            await asyncio.sleep(PACE)
            found.append(await timed(scripts, language, source, Limits(in_flight=50)))
        return found

    await timed(scripts, language, ONE[language])
    return {
        "one": await samples(ONE[language], rounds),
        "sequential": await samples(SEQUENTIAL[language], LONG_ROUNDS),
        "batched": await samples(BATCHED[language], LONG_ROUNDS),
        "fifty": await samples(FIFTY[language], LONG_ROUNDS),
        "memory_kib": await memory(scripts, language),
    }


async def memory(scripts: Scripts, language: str) -> int | None:
    """Memory that one waiting script adds (its own pages, not those it shares), or None where nobody may look."""
    gateway = Gateway()
    before = children(scripts)
    running = asyncio.gather(scripts.run(FIFTY[language], language, API, gateway, Limits(cpu=2.5)))
    await gateway.waiting.wait()
    try:
        return sum(private_kib(pid) for pid in children(scripts) - before)
    except OSError:
        return None
    finally:
        await running


def children(scripts: Scripts) -> set[int]:
    found: set[int] = set()
    pending = [scripts.zygote_pid]
    while pending:
        pid = pending.pop()
        try:
            listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        except OSError:
            continue
        found.update(map(int, listed))
        pending.extend(map(int, listed))
    return found


def private_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


async def storm() -> JsonObject:
    """Eight endless scripts beside eight good ones: how late the event loop is, and how the good ones fare."""
    scripts = Scripts(Limits(cpu=1.0))
    lags: list[float] = []

    async def probe() -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0.005)
            lags.append(time.perf_counter() - began - 0.005)

    async def good(language: str) -> tuple[float, Outcome]:
        began = time.perf_counter()
        outcome = await scripts.run(ONE[language], language, API, Gateway())
        return time.perf_counter() - began, outcome

    for language, source in ONE.items():
        await timed(scripts, language, source)
    lags.clear()
    languages = [*FOREVER, *FOREVER, "lua", "javascript"]
    tasks = Tasks()
    tasks.start(probe(), "lag")
    bad = asyncio.gather(*(scripts.run(FOREVER[name], name, API, Gateway()) for name in languages))
    finished = await asyncio.gather(*(good(language) for language in languages))
    ended = await bad
    await tasks.close()
    await scripts.close()
    lags.sort()
    return {
        "good": sum(outcome.ok for _, outcome in finished),
        "good_ms": statistics.median(took for took, _ in finished) * 1000,
        "bad_stopped": sum(outcome.state == "limit" for outcome in ended),
        "lag_p50_ms": lags[len(lags) // 2] * 1000,
        "lag_p99_ms": lags[int(len(lags) * 0.99)] * 1000,
        "lag_max_ms": lags[-1] * 1000,
    }


async def twenty(scripts: Scripts) -> JsonObject:
    gateway = Gateway()
    began = time.perf_counter()
    await scripts.run(TWENTY, "python", API, gateway)
    return {"requests": gateway.requests, "ms": (time.perf_counter() - began) * 1000}


async def wicket(rounds: int) -> JsonObject:
    scripts = Scripts()
    facts: dict[str, Any] = {"languages": {}}
    began = time.perf_counter()
    await scripts.run("return 1", "lua", API, Gateway())
    facts["cold_ms"] = (time.perf_counter() - began) * 1000
    for language in ONE:
        facts["languages"][language] = await language_facts(scripts, language, rounds)
    facts["twenty"] = await twenty(scripts)
    await scripts.close()
    facts["storm"] = await storm()
    return facts


def fastmcp(rounds: int) -> JsonObject | str:
    """FastMCP's numbers, or why there are none."""
    environments.REQUIREMENTS["fastmcp-code-mode"] = ("fastmcp[code-mode]==4.1.2", "httptools", "uvloop")
    try:
        python = os.environ.get("WICKET_BENCH_FASTMCP") or environments.program("fastmcp-code-mode", "python")
        command = [python, str(PEER), str(rounds), str(LONG_ROUNDS), str(PACE)]
        ended = subprocess.run(command, capture_output=True, timeout=300, check=True)
        return decode(ended.stdout.splitlines()[-1])
    except environments.Missing as missing:
        return f"it cannot be installed here ({missing})"
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        return f"it did not run here ({type(error).__name__})"


def milliseconds(samples: list[float], share: float = 0.5) -> float:
    return sorted(samples)[int(len(samples) * share)] * 1000


def calls_a_second(samples: list[float]) -> str:
    """Of a script that makes `CALLS` calls, its start and end included."""
    return number(CALLS / milliseconds(samples) * 1000, 0)


def row(name: str, facts: JsonObject) -> list[str]:
    kib = facts.get("memory_kib")
    return [
        name,
        number(milliseconds(facts["one"])),
        number(milliseconds(facts["one"], 0.95)),
        calls_a_second(facts["sequential"]),
        calls_a_second(facts["batched"]),
        number(milliseconds(facts["fifty"]), 0),
        "-" if kib is None else number(kib / 1024, 1),
    ]


def show(ours: JsonObject, theirs: JsonObject | str) -> None:
    rows = [row(f"wicket {language}", facts) for language, facts in ours["languages"].items()]
    if not isinstance(theirs, str):
        rows.append(row("fastmcp code mode", theirs))
    headings = [
        "whole scripts",
        "1 call, p50 ms",
        "p95 ms",
        "calls/s in turn",
        "calls/s at once",
        "50 x 100 ms, ms",
        "MiB",
    ]
    print(table(headings, rows))
    if isinstance(theirs, str):
        print(f"\nFastMCP is left out: {theirs}.")
    else:
        print(
            f"\n20 calls over 20 upstreams: wicket {ours['twenty']['requests']} requests, "
            f"{number(ours['twenty']['ms'], 0)} ms; fastmcp {theirs['twenty']['calls']} calls and "
            f"{theirs['twenty']['listings']} listings, {number(theirs['twenty']['ms'], 0)} ms"
        )
    storm_facts = ours["storm"]
    print(
        f"first script of a gateway {number(ours['cold_ms'], 0)} ms; 8 endless beside 8 good scripts: "
        f"{storm_facts['good']} good ones ended (p50 {number(storm_facts['good_ms'], 0)} ms), "
        f"{storm_facts['bad_stopped']} endless ones stopped; event loop late by p50 "
        f"{number(storm_facts['lag_p50_ms'])}, p99 {number(storm_facts['lag_p99_ms'])}, "
        f"most {number(storm_facts['lag_max_ms'])} ms"
    )


def judge(ours: JsonObject, theirs: JsonObject | str) -> list[Verdict]:
    storm_facts = ours["storm"]
    slowest = max(milliseconds(facts["fifty"]) for facts in ours["languages"].values())
    verdicts = [
        Verdict("8 of 8 good scripts end beside 8 endless ones", str(storm_facts["good"]), storm_facts["good"] == 8),
        Verdict(
            f"event loop late by at most {LAG_TARGET_MS:.0f} ms (p99)",
            f"{number(storm_facts['lag_p99_ms'])} ms",
            storm_facts["lag_p99_ms"] <= LAG_TARGET_MS,
        ),
        Verdict(
            f"50 calls of 100 ms in at most {FIFTY_TARGET_MS:.0f} ms", f"{slowest:.0f} ms", slowest <= FIFTY_TARGET_MS
        ),
        Verdict("20 calls are 20 requests", str(ours["twenty"]["requests"]), ours["twenty"]["requests"] == 20),
    ]
    if not isinstance(theirs, str):
        for language, facts in ours["languages"].items():
            faster = milliseconds(theirs["sequential"]) / milliseconds(facts["sequential"])
            said = f"{language}: {CALLS} calls in turn take no longer than in FastMCP's code mode"
            verdicts.append(Verdict(said, f"{faster:.1f} x as fast", faster >= 1))
    return verdicts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    theirs = fastmcp(options.rounds)
    ours = asyncio.run(wicket(options.rounds))
    facts = {"machine": description(), "load": load_average(), "wicket": ours, "fastmcp": theirs}
    verdicts = judge(ours, theirs)
    path = save("scripts", facts, verdicts)
    if options.json:
        sys.stdout.buffer.write(encode(facts) + b"\n")
    else:
        print(f"{facts['machine']}, load {facts['load']}\n")
        show(ours, theirs)
        print("\n" + "\n".join(map(str, verdicts)) + f"\n\nwritten to {path}")
    return 0 if all(verdict.met for verdict in verdicts) else 1


if __name__ == "__main__":
    raise SystemExit(main())
