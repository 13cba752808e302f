"""How fast search is: from nothing to the first answer, and a query at two sizes of catalogue.

Every number is the median of processes that are run in turn, so that a busy moment hits all of them alike.
"""

import sys
import tempfile
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any

from machine import description, load_average
from report import Verdict, number, table
from retrieval.child import child
from retrieval.shelf import fill
from wicket_mcp import search
from wicket_mcp.codec import decode

SIZES = {2000: (3.0, 10.0), 10000: (5.0, 15.0)}
"""Tools, and the milliseconds that half of the queries, and nineteen of twenty, may take."""
OWN = 40.0
"""Megabytes that the wheel may have, of which nearly all is what search reads."""
LOAD = 150.0
"""Milliseconds from nothing to an index of the smaller size that can be asked, numpy included."""


def measure(data: Path, rounds: int) -> dict[str, Any]:
    found: dict[str, list[dict[str, float]]] = {"numpy": [], "load": []} | {f"query {size}": [] for size in SIZES}
    with tempfile.TemporaryDirectory() as folder:
        files = {size: Path(folder) / f"{size}.db" for size in SIZES}
        for size, file in files.items():
            sys.stderr.write(f"filling a catalogue of {size:,} tools …\n")
            fill(file, data, size)
        for turn in range(rounds + 1):
            taken = {"numpy": _child("numpy"), "load": _child("load", files[min(SIZES)])}
            taken |= {f"query {size}": _child("query", file) for size, file in files.items()}
            if turn:  # the first is for the disk's cache
                for name, facts in taken.items():
                    found[name].append(facts)
    return {name: {key: median(one[key] for one in many) for key in many[0]} for name, many in found.items()}


def _child(*arguments: object) -> dict[str, float]:
    done = child(sys.executable, "retrieval.timed", *map(str, arguments))
    if done.returncode:
        raise SystemExit(f"measuring {arguments[0]} failed:\n{done.stderr}")
    return decode(done.stdout.splitlines()[-1])


def show(facts: dict[str, Any], rounds: int) -> None:
    print(f"\nSpeed: {description()}, load {load_average()}, medians of {rounds} processes in turn\n")
    load, numpy = facts["load"], facts["numpy"]
    rows = [["numpy alone", *_pair(numpy, "numpy")]]
    rows += [[words, *_pair(load, key)] for words, key in _STEPS]
    rows.append(["ready for a query", number(total(facts), 0), number(sum(load[f"{key}_cpu"] for _, key in _STEPS), 0)])
    print(table((f"loading {load['tools']:,.0f} tools", "ms", "processor ms"), rows))
    sizes = [facts[f"query {size}"] for size in SIZES]
    rows = [[f"{one['tools']:,.0f}", *(number(one[key], 2) for key in ("p50", "p95", "cpu"))] for one in sizes]
    print(f"\n{table(('tools', 'query p50 ms', 'p95 ms', 'processor ms, mean'), rows)}\n")


_STEPS = (("imports, numpy among them", "imports"), ("segments from the store", "segments"), ("joining them", "join"))


def _pair(facts: dict[str, float], key: str) -> list[str]:
    return [number(facts[key], 0), number(facts[f"{key}_cpu"], 0)]


def total(facts: dict[str, Any]) -> float:
    return sum(facts["load"][key] for _, key in _STEPS)


def judge(facts: dict[str, Any]) -> list[Verdict]:
    ready = total(facts)
    verdicts = [Verdict(f"ready for a query in {LOAD:.0f} ms", f"{ready:.0f} ms", ready <= LOAD)]
    for size, (half, most) in SIZES.items():
        p50, p95 = facts[f"query {size}"]["p50"], facts[f"query {size}"]["p95"]
        target = f"half of the queries at {size:,} tools in {half:.0f} ms, nineteen of twenty in {most:.0f} ms"
        verdicts.append(Verdict(target, f"{p50:.2f} and {p95:.2f} ms", p50 <= half and p95 <= most))
    ours, theirs = install_size()
    target = f"at most {OWN:.0f} MB of Wicket's own files for search"
    verdicts.append(Verdict(target, f"{ours:.0f} MB, beside {theirs:.0f} of numpy", ours <= OWN))
    return verdicts


def install_size() -> tuple[float, float]:
    """Megabytes of our own files and of numpy's, without compiled copies of Python files."""
    ours = [file for file in Path(search.__file__).parent.rglob("*") if file.is_file()]
    theirs = [Path(str(file.locate())) for file in metadata.files("numpy") or ()]
    own, other = (
        sum(file.stat().st_size for file in files if file.suffix != ".pyc" and file.exists()) / 1e6
        for files in (ours, theirs)
    )
    return own, other
