"""How long a person waits for the command line: `wicket --help`, and a search over 2,000 catalogued tools.

    python bench/cli.py [--rounds N] [--imports] [--json]

The commands are run in turn in new processes, beside `fastmcp --help` and a Python that does nothing. Exit status 1
when a target is missed.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import environments
from imports import slowest
from machine import description, load_average
from report import Verdict, number, save, table
from wicket_mcp.codec import decode, encode

ROOT = Path(__file__).parent.parent
CATALOG = ROOT / "tests" / "data" / "catalog"
REPLAY = ROOT / "tests" / "peers" / "replay.py"
TOOLS = 2000
TARGETS = {"wicket --help": 250.0, "wicket search": 600.0}
"""Milliseconds, as the median."""


def prepare(folder: Path) -> dict[str, str]:
    """A configuration whose catalogue has been filled; the environment for commands that use it."""
    listed = sorted(CATALOG.glob("*.json"))
    captured = {file.stem: decode(file.read_bytes()) for file in listed}
    missing = TOOLS - sum(len(one["tools"]) for one in captured.values())
    spare = [tool for one in captured.values() for tool in one["tools"]][:missing]
    (folder / "spare.json").write_bytes(
        encode({"server": "spare", "serverInfo": {}, "instructions": "", "tools": spare})
    )
    servers = {
        file.stem: {"command": sys.executable, "args": [str(REPLAY), str(file)], "connect_timeout": 120}
        for file in [*listed, folder / "spare.json"]
    }
    config = folder / "wicket.json"
    config.write_bytes(encode({"mcpServers": servers}))
    environ = {**os.environ, "WICKET_CONFIG": str(config), "XDG_STATE_HOME": str(folder / "state")}
    environ.pop("WICKET_LOG", None)
    print(f"filling a catalogue of {len(servers)} servers …", file=sys.stderr, flush=True)
    wicket = [sys.executable, "-m", "wicket_mcp"]
    subprocess.run([*wicket, "servers"], env=environ, check=True, capture_output=True)
    status = decode(subprocess.run([*wicket, "status", "--json"], env=environ, check=True, capture_output=True).stdout)
    if status["tools"] != TOOLS:
        raise SystemExit(f"the catalogue has {status['tools']} tools, not {TOOLS}: is a peer broken?")
    return environ


def commands() -> dict[str, list[str]]:
    beside = Path(sys.executable).with_name("wicket")
    wicket = [str(beside)] if beside.exists() else [sys.executable, "-m", "wicket_mcp"]
    found = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "wicket --help": [*wicket, "--help"],
        "wicket search": [*wicket, "search", "create an issue in a repository"],
        "wicket status": [*wicket, "status"],
    }
    try:
        found["fastmcp --help"] = [environments.program("fastmcp", "fastmcp"), "--help"]
    except environments.Missing as problem:
        print(f"left out: fastmcp cannot be installed: {problem}")
    return found


def timed(command: list[str], environ: Mapping[str, str]) -> tuple[float, float]:
    """Milliseconds of wall clock and of processor time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    subprocess.run(command, env=dict(environ), check=True, capture_output=True)
    elapsed = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return elapsed * 1000, busy * 1000


def _imports(command: list[str], environ: Mapping[str, str]) -> str:
    program = command if command[0] == sys.executable else [sys.executable, *command]
    packages, _ = slowest(program, environ)
    return ", ".join(f"{name} {took:.0f}" for name, took in packages if took >= 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--imports", action="store_true", help="also say which packages take longest to import")
    parser.add_argument("--json", action="store_true", help="also write bench/out/cli.json")
    options = parser.parse_args()
    everybody = commands()
    wall: dict[str, list[float]] = {name: [] for name in everybody}
    busy: dict[str, list[float]] = {name: [] for name in everybody}
    with tempfile.TemporaryDirectory() as folder:
        environ = prepare(Path(folder))
        for number_of_round in range(options.rounds + 1):
            for name, command in everybody.items():
                took, used = timed(command, environ)
                if number_of_round:  # the first is for the disk's cache
                    wall[name].append(took)
                    busy[name].append(used)
        if options.imports:
            for name in TARGETS:
                print(f"{name} imports, in ms: {_imports(everybody[name], environ)}\n")
    rows = [
        [
            name,
            *(
                number(value, 0)
                for value in (statistics.median(wall[name]), min(wall[name]), statistics.median(busy[name]))
            ),
        ]
        for name in everybody
    ]
    print(f"{description()}, load {load_average()}, {options.rounds} rounds, {TOOLS:,} tools\n")
    print(table(("command", "median ms", "best ms", "processor ms"), rows))
    verdicts = [
        Verdict(
            f"{name} in {target:.0f} ms",
            f"{statistics.median(wall[name]):.0f} ms",
            statistics.median(wall[name]) <= target,
        )
        for name, target in TARGETS.items()
    ]
    print("\n" + "\n".join(map(str, verdicts)))
    if options.json:
        print(f"\nwritten to {save('cli', {'wall_ms': wall, 'processor_ms': busy}, verdicts)}")
    sys.exit(0 if all(verdict.met for verdict in verdicts) else 1)


if __name__ == "__main__":
    main()
