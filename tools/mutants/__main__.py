"""How many small mistakes the tests notice: `python -m tools.mutants [MODULE…] [--sample 12] [--seed 7]`.

A traced run says which tests execute which line; `--traced FILE` keeps that, and uses what is kept. Then a weighted,
seeded sample of mutants, at most one a line, runs in a copy of the repository against the tests that execute its line,
the module's own and quickest first. Prints for each module how many were killed, which survived, and how many no test
executes. The working tree is only read.
"""

import argparse
import json
import os
import random
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from tools.mutants.copies import Copy
from tools.mutants.operators import WEIGHTS, Mutant, mutate
from tools.mutants.table import MODULES, Module

REPOSITORY = Path(__file__).parents[2]
MOST_TESTS = 100
"""That one mutant is run against."""
STARTING = 60.0
"""Seconds that a run of tests may take beside the tests themselves; a mutant that takes longer is killed."""

Traced: TypeAlias = dict[str, Any]
"""For each test that passed: its seconds, and the lines of each module that it executed."""


@dataclass
class Score:
    """What became of a module's mutants."""

    module: Module
    all: int
    unreached: int
    run: int = 0
    survivors: list[Mutant] = field(default_factory=list[Mutant])

    @property
    def killed(self) -> int:
        return self.run - len(self.survivors)

    def __str__(self) -> str:
        lines = ", ".join(str(mutant.line) for mutant in self.survivors) or "-"
        return f"{self.module.name:26} {self.run:4} {self.killed:7}   {lines:32} {self.unreached} of {self.all}"


def main() -> None:
    options = _read_options()
    modules = [Module.read(name) for name in options.modules] or [
        module for module in MODULES if (options.root / module.path).exists()
    ]
    ends = time.monotonic() + options.minutes * 60
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Copy(options.root, Path(folder) / "copy")
        print(f"seed {options.seed}: tracing the tests of {len(modules)} modules", flush=True)
        traced = trace(copy, modules, options.traced or Path(folder) / "traced.json")
        print(f"{'module':26}  run  killed   {'survived (lines)':32} no test executes", flush=True)
        scores: list[Score] = []
        for module in modules:
            score = measure(copy, module, traced, options, ends)
            scores.append(score)
            print(score, flush=True)
    _sum_up(scores, options.seed)


def trace(copy: Copy, modules: Iterable[Module], file: Path) -> Traced:
    """Run the tests of all modules once, unchanged; or read what an earlier run of these modules found."""
    if file.exists():
        return json.loads(file.read_text())
    sources = os.pathsep.join(module.path for module in modules)
    folders = dict.fromkeys(folder for module in modules for folder in module.tests)
    if missing := [folder for folder in folders if not (copy.root / folder).exists()]:
        raise SystemExit(f"There are no tests at {', '.join(missing)}.")
    variables = {"MUTANTS_SOURCES": sources, "MUTANTS_TRACED": str(file), "PYTHONPATH": str(REPOSITORY)}
    _, printed = copy.run("-p", "tools.mutants.tracing", *folders, limit=3600.0, variables=variables)
    print((printed.strip().splitlines() or ["the traced run took more than an hour"])[-1], flush=True)
    return json.loads(file.read_text()) if file.exists() else {}


def measure(copy: Copy, module: Module, traced: Traced, options: argparse.Namespace, ends: float) -> Score:
    """Run a sample of a module's mutants until the time is up."""
    source = (copy.root / module.path).read_text("utf-8")
    mutants = mutate(source)
    tests = {mutant: choose(mutant, module, traced, options.seconds) for mutant in mutants}
    reached = [mutant for mutant in mutants if tests[mutant]]
    score = Score(module, len(mutants), len(mutants) - len(reached))
    try:
        for mutant in draw(reached, options.sample, f"{options.seed} {module.name}"):
            if time.monotonic() > ends:
                break
            copy.write(module.path, mutant.text)
            status, _ = copy.run("-x", *tests[mutant], limit=STARTING + 4 * options.seconds)
            score.run += 1
            if status == 0:
                score.survivors.append(mutant)
    finally:
        copy.write(module.path, source)
    score.survivors.sort(key=lambda mutant: mutant.line)
    return score


def choose(mutant: Mutant, module: Module, traced: Traced, seconds: float) -> list[str]:
    """The tests that execute a mutant's lines: the module's own first, then the quickest, as many as fit."""
    stem = Path(module.path).stem
    found: list[tuple[bool, bool, float, str]] = []
    for test, seen in traced.items():
        lines: list[int] = seen["lines"].get(module.path, [])
        if lines and (not mutant.lines or any(line in mutant.lines for line in lines)):
            file = test.partition("::")[0]
            found.append((stem not in Path(file).stem, not file.startswith(module.tests[0]), seen["seconds"], test))
    chosen: list[str] = []
    spent = 0.0
    for _, _, took, test in sorted(found)[:MOST_TESTS]:
        if chosen and spent + took > seconds:
            continue
        chosen.append(test)
        spent += took
    return chosen


def draw(mutants: Sequence[Mutant], count: int, seed: str) -> list[Mutant]:
    """A sample in which no line has two, and which is the same for the same seed."""
    rng = random.Random(seed)
    drawn: dict[int, Mutant] = {}
    for mutant in sorted(mutants, key=lambda one: rng.random() ** (1 / WEIGHTS[one.operator]), reverse=True):
        drawn.setdefault(mutant.line, mutant)
    return list(drawn.values())[:count]


def _sum_up(scores: Sequence[Score], seed: int) -> None:
    print()
    for score in scores:
        for mutant in score.survivors:
            print(f"survived {score.module.path}:{mutant}")
    deciding = [score for score in scores if score.module.decides]
    run, killed = sum(score.run for score in deciding), sum(score.killed for score in deciding)
    share = f"{100 * killed / run:.0f} %" if run else "none"
    print(f"killed {share}: {killed} of {run} mutants in {len(deciding)} modules that decide (seed {seed})")


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description="See tools/mutants/__main__.py.")
    parser.add_argument("modules", nargs="*", help="of tools/mutants/table.py, or PATH:TESTS,TESTS (default: all)")
    parser.add_argument("--sample", type=int, default=12, help="mutants of each module (default: 12)")
    parser.add_argument("--seed", type=int, default=random.randrange(10_000), help="repeats an earlier sample")
    parser.add_argument("--seconds", type=float, default=15.0, help="of tests for each mutant (default: 15)")
    parser.add_argument("--minutes", type=float, default=60.0, help="after which no mutant is begun (default: 60)")
    parser.add_argument("--traced", type=lambda name: Path(name).resolve(), help="the file that keeps the traced run")
    parser.add_argument("--root", type=Path, default=REPOSITORY, help="the repository (default: this one)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
