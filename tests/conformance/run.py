"""Runs the conformance suite by hand and prints what failed.

    python -m tests.conformance.run [direct|http|stdio|client|auth] [--requirements REVISION] [--scenario NAME] [-v]

`direct` measures the reference server, `http` and `stdio` Wicket in front of it over that transport, `client` Wicket as
a client of the suite's own servers, `auth` how it signs in to them.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.conformance import auth
from tests.conformance.client import command, scenarios
from tests.conformance.report import Report
from tests.conformance.suite import REVISIONS, Revision, measure_client, measure_server
from tests.conformance.targets import WAYS, target


def told(report: Report, *, verbose: bool) -> Iterator[str]:
    """A line for each scenario, and one for each check that did not pass."""
    for scenario, checks in report.checks.items():
        if scenario.startswith("tasks-") and not verbose:
            continue  # an extension that the reference server does not have
        passed = sum(check.passed for check in checks)
        note = "" if scenario in report.scored else "   (not scored)"
        yield f"{'ok  ' if report.passes(scenario) else 'FAIL'} {scenario}: {passed} of {len(checks)} checks{note}"
        for check in checks:
            if verbose or check.status in ("FAILURE", "WARNING"):
                yield f"       {check.status:8} {check.id}/{check.name}  {check.message}".rstrip()
        if report.said.get(scenario) and (verbose or not report.passes(scenario)):
            yield report.said[scenario]


async def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.run", description="Runs the conformance suite.")
    parser.add_argument("way", nargs="?", choices=(*WAYS, "client", "auth"), default="direct")
    parser.add_argument("--requirements", choices=REVISIONS, help="one revision; both otherwise")
    parser.add_argument("--scenario", help="only this one")
    parser.add_argument("--url", help="measure what already runs there instead")
    parser.add_argument("-v", "--verbose", action="store_true", help="every check, and what the servers said")
    options = parser.parse_args()
    revisions: tuple[Revision, ...] = (options.requirements,) if options.requirements else REVISIONS
    complete = True
    for revision in revisions:
        complete &= await measured(revision, options)
    return 0 if complete else 1


async def measured(revision: Revision, options: argparse.Namespace) -> bool:
    """Measure and print one revision; whether all scored scenarios passed."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        log.touch()
        chosen = [options.scenario] if options.scenario else None
        if options.way == "client":
            started = command(through_wicket=True)
            report = await measure_client(started, revision, chosen or scenarios(revision))
        elif options.way == "auth":
            report = await measure_client(auth.command(), revision, chosen or auth.scenarios(revision))
        elif options.url:
            report = await measure_server(options.url, revision, chosen)
        else:
            async with target(options.way, log) as address:
                report = await measure_server(address, revision, chosen)
        lines = [f"== {options.url or options.way}, {revision}", *told(report, verbose=options.verbose)]
        if options.verbose:
            lines += ["-- what the servers said", log.read_text(errors="replace")]
    passed, run = report.score
    sys.stdout.write("\n".join([*lines, f"== {passed} of {run} scored scenarios pass", ""]) + "\n")
    return passed == run


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
