"""What a gateway costs a call: direct, Wicket, FastMCP's proxy, mcp-proxy and a bare forwarder, measured in one run.

    python bench/overhead.py [--rounds N] [--seconds S] [--route TEXT] [--before COMMAND] [--alone] [--json]

All contenders run at the same time and are asked in turn, in short rounds. Exit status 1 when a target is missed.
"""

import argparse
import asyncio
import datetime
import platform
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import environments
from contenders import HTTP_HTTP, HTTP_STDIO, ROUTES, gather
from fanout import Count, count_requests
from machine import description, load_average
from report import Verdict, number, save, table
from rounds import LEVELS, Record, dismiss, prepare, ratio, run_rounds
from wicket_mcp.model import JsonObject

TARGETS = {HTTP_STDIO: 4.0, HTTP_HTTP: 20.0}
"""How many times FastMCP's calls per second at 16 in flight Wicket has to make, by route."""


async def measure(options: argparse.Namespace, folder: Path) -> tuple[list[Record], list[Count]]:
    routes = [route for route in ROUTES if options.route.lower() in route.lower()]
    everybody = gather(folder, routes, before=options.before, peers=not options.alone)
    for name, reason in everybody.missing.items():
        print(f"left out: {name} cannot be installed: {reason}")
    try:
        records = await prepare(everybody, progress)
        await run_rounds(records, options.rounds, options.seconds, progress)
    finally:
        await dismiss(everybody)
    counts = [] if options.no_count else await count_requests(folder / "fanout", options.calls)
    return records, counts


def progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def rows(records: Sequence[Record]) -> list[list[str]]:
    floor = next((record for record in records if record.contender.name.startswith("floor")), None)
    fastmcp = {record.contender.name.split()[-1]: record for record in records if "fastmcp" in record.contender.name}
    lines: list[list[str]] = []
    for record in records:
        same_era = fastmcp.get(record.contender.name.split()[-1], fastmcp.get("legacy"))
        lines.append(
            [
                record.contender.name,
                number(record.latency_ms(0.5)),
                number(record.latency_ms(0.99)),
                *(number(record.rate(level), 0) for level in LEVELS),
                number(record.cpu_ms(1)),
                number(record.cpu_ms(16)),
                number(record.cpu_ms(64)),
                number(ratio(record, floor)) if floor else "-",
                f"{ratio(record, same_era):.1f}x" if same_era else "-",
            ]
        )
    return lines


def verdicts(records: Sequence[Record], counts: Sequence[Count]) -> list[Verdict]:
    """One for every target and every way to call Wicket. What could not be measured was not met."""
    by_title = {record.contender.title: record for record in records}
    found: list[Verdict] = []
    for record in records:
        route, name = record.contender.route, record.contender.name
        if not name.startswith("wicket") or route not in TARGETS:
            continue
        target = f"{route}, {name}: at least {TARGETS[route]:.0f}x FastMCP's calls/s at 16 in flight"
        theirs = by_title.get(f"{route}: fastmcp {name.split()[-1]}")
        if record.problem or theirs is None or theirs.problem:
            reason = record.problem or (theirs.problem if theirs else "FastMCP is not there to compare with")
            found.append(Verdict(target, f"not measured: {reason}", met=False))
            continue
        reached = ratio(record, theirs)
        found.append(Verdict(target, f"{reached:.1f}x", reached >= TARGETS[route]))
    for count in counts:
        if count.name.startswith("wicket"):
            exact = sum(count.heard.values()) == count.calls
            found.append(Verdict(f"20 upstreams, 400 tools, {count.name}: exactly 1.00", str(count), exact))
    return found


def facts(options: argparse.Namespace, records: Sequence[Record], counts: Sequence[Count]) -> JsonObject:
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": description(),
        "load_average": load_average(),
        "rounds": options.rounds,
        "seconds": options.seconds,
        "contenders": [
            {
                "route": record.contender.route,
                "name": record.contender.name,
                "p50_ms": record.latency_ms(0.5),
                "p99_ms": record.latency_ms(0.99),
                "calls_per_second": {str(level): record.rate(level) for level in LEVELS},
                "cpu_ms_per_call": {str(level): record.cpu_ms(level) for level in LEVELS},
                "rounds": {str(level): record.rates(level) for level in LEVELS},
            }
            for record in records
        ],
        "upstream_requests": [
            {"name": count.name, "calls": count.calls, "per_call": count.per_call, "heard": count.heard}
            for count in counts
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="how often everybody is measured")
    parser.add_argument("--seconds", type=float, default=0.5, help="time for each level of concurrency in a round")
    parser.add_argument("--route", default="", help=f"only routes that contain this text ({', '.join(ROUTES)})")
    parser.add_argument("--no-count", action="store_true", help="leave out the count of upstream requests")
    parser.add_argument("--calls", type=int, default=2000, help="calls of that count")
    parser.add_argument("--before", default="", help="the `wicket` command of an earlier version, to compare with")
    parser.add_argument("--alone", action="store_true", help="leave out the other gateways")
    parser.add_argument("--json", action="store_true", help="also write bench/out/overhead.json")
    options = parser.parse_args()

    print(f"machine: {description()}; load average before: {load_average()}")
    with tempfile.TemporaryDirectory(prefix="wicket-bench-") as folder:
        measured, counts = asyncio.run(measure(options, Path(folder)))
    print(f"load average after: {load_average()}; fastmcp {_version('fastmcp')}, mcp-proxy {_version('mcp-proxy')}")
    records = [record for record in measured if not record.problem]
    headings = ["contender", "p50 ms", "p99 ms", *(f"calls/s c{level}" for level in LEVELS)]
    headings += ["CPU ms c1", "CPU ms c16", "CPU ms c64", "of floor c16", "of FastMCP c16"]
    for route in ROUTES:
        if here := [record for record in records if record.contender.route == route]:
            print(f"\n{route}\n\n{table(headings, rows(here))}")
    if counts:
        print("\nUpstream requests\n")
        print("\n".join(f"{count.name:22} {count}; {count.calls / count.seconds:,.1f} calls/s" for count in counts))
    judged = verdicts(measured, counts)
    print("\nTargets\n")
    print("\n".join(map(str, judged)))
    if options.json:
        print(f"\nwritten: {save('overhead', facts(options, records, counts), judged)}")
    sys.exit(0 if judged and all(verdict.met for verdict in judged) else 1)


def _version(package: str) -> str:
    try:
        return environments.version(package, package)
    except environments.Missing:
        return "missing"


if __name__ == "__main__":
    if platform.system() == "Windows":
        sys.exit("This benchmark needs POSIX process groups.")
    main()
