"""Short rounds over everybody in turn, so that whatever else the machine does hits all alike.

One round asks each contender for a moment at each level of concurrency. What is reported are medians over the rounds,
and ratios within a round.
"""

import asyncio
import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from clients import BenchError
from contenders import SERVER, Contender, Field
from machine import cpu_seconds
from peers.http_hop import HopLost
from wicket_mcp.model import JsonObject

LEVELS = (1, 16, 64)
WARM_UP = 0.2  # seconds of calls before a contender is measured, every round
PAYLOAD = "x" * 64
PATIENCE = 90.0  # seconds beyond its time that a round may take before its contender is given up


@dataclass(frozen=True)
class Sample:
    """One contender, one round, one level of concurrency."""

    calls: int
    seconds: float
    cpu: float
    latencies: list[float] = field(repr=False)

    @property
    def rate(self) -> float:
        return self.calls / self.seconds

    @property
    def cpu_ms(self) -> float:
        return self.cpu / self.calls * 1000


@dataclass
class Record:
    """Everything measured of one contender."""

    contender: Contender
    samples: dict[int, list[Sample]] = field(default_factory=lambda: {level: [] for level in LEVELS})
    problem: str = ""

    def rates(self, level: int) -> list[float]:
        return [sample.rate for sample in self.samples[level]]

    def rate(self, level: int) -> float:
        return statistics.median(self.rates(level))

    def cpu_ms(self, level: int) -> float:
        return statistics.median(sample.cpu_ms for sample in self.samples[level])

    def latency_ms(self, share: float, level: int = 1) -> float:
        """The quantile `share` over all rounds."""
        pooled = sorted(itertools.chain.from_iterable(sample.latencies for sample in self.samples[level]))
        return pooled[min(len(pooled) - 1, int(len(pooled) * share))] * 1000


def ratio(mine: Record, theirs: Record, level: int = 16) -> float:
    """How many times their calls per second mine are: the median of the rounds."""
    return statistics.median(a / b for a, b in zip(mine.rates(level), theirs.rates(level), strict=True))


async def prepare(everybody: Field, say: Callable[[str], None]) -> list[Record]:
    """Start all programs and greet them; the record of whoever does not answer properly says why."""
    for program in everybody.programs:
        await program.start()
    records: list[Record] = []
    for contender in everybody.contenders:
        records.append(record := Record(contender))
        try:
            async with asyncio.timeout(120):
                await contender.client.start()
                await _meet(contender)
        except (BenchError, HopLost, OSError, TimeoutError) as problem:
            record.problem = str(problem) or type(problem).__name__
            say(f"left out: {contender.title}: {record.problem}")
    return records


async def dismiss(everybody: Field) -> None:
    for contender in everybody.contenders:
        await contender.client.stop()
    await asyncio.gather(*(program.stop() for program in everybody.programs))


async def run_rounds(records: Sequence[Record], rounds: int, seconds: float, say: Callable[[str], None]) -> None:
    for number in range(rounds):
        began = time.perf_counter()
        for record in (record for record in records if not record.problem):
            try:
                async with asyncio.timeout(len(LEVELS) * seconds + PATIENCE):
                    await _round(record, seconds)
            except (BenchError, HopLost, OSError, TimeoutError) as problem:
                record.problem = str(problem) or type(problem).__name__
                say(f"given up: {record.contender.title}: {record.problem}")
        say(f"round {number + 1} of {rounds}: {time.perf_counter() - began:.0f} s")


async def _round(record: Record, seconds: float) -> None:
    contender = record.contender
    await hammer(contender, 1, WARM_UP)
    samples = {level: await hammer(contender, level, seconds) for level in LEVELS}
    contender.client.rest()
    for level, sample in samples.items():
        record.samples[level].append(sample)


async def hammer(contender: Contender, level: int, seconds: float) -> Sample:
    """Call for `seconds` with `level` calls in flight."""
    latencies: list[float] = []
    pid = contender.program.pid
    cpu, began = cpu_seconds(pid), time.perf_counter()
    end = began + seconds

    async def work() -> None:
        before = began
        while before < end:
            await _call(contender)
            after = time.perf_counter()
            latencies.append(after - before)
            before = after

    await asyncio.gather(*(work() for _ in range(level)))
    return Sample(len(latencies), time.perf_counter() - began, cpu_seconds(pid) - cpu, latencies)


async def _call(contender: Contender) -> JsonObject:
    result = await contender.client.request("tools/call", contender.call)
    if result.get("isError"):
        raise BenchError(str(result)[:300])
    return result


async def _meet(contender: Contender) -> None:
    """Find the echo tool and see that it echoes."""
    tools = (await contender.client.request("tools/list", {}))["tools"]
    if contender.native:
        inner = {"name": f"{SERVER}.echo", "arguments": {"message": PAYLOAD}}
        contender.call = {"name": "call_tool", "arguments": inner}
    else:
        names = [tool["name"] for tool in tools if tool["name"].endswith("echo")]
        if not names:
            raise BenchError("it shows no echo tool")
        contender.call = {"name": names[0], "arguments": {"message": PAYLOAD}}
    result = await _call(contender)
    if result["content"][0]["text"] != PAYLOAD:
        raise BenchError(f"it does not echo: {str(result)[:200]}")
