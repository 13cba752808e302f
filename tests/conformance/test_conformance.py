"""The official suite says of Wicket what it says of the server behind it, but for the differences that are listed."""

import sys
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import pytest

from tests import needs
from tests.conformance import auth, auth_direct
from tests.conformance.client import command, scenarios
from tests.conformance.differences import Difference, compare, known, told
from tests.conformance.document import FILE as DOCUMENT
from tests.conformance.document import page
from tests.conformance.report import Report
from tests.conformance.suite import (
    HOME,
    REVISIONS,
    Revision,
    Role,
    installed,
    measure_client,
    measure_server,
)
from tests.conformance.targets import Way, target
from wicket_mcp.codec import decode

Measure: TypeAlias = Callable[[frozenset[str] | None], Awaitable[Report]]


def measure_way(way: Way, revision: Revision) -> Measure:
    """Measures a server reached that way: all scenarios, or some."""

    async def measure(chosen: frozenset[str] | None) -> Report:
        async with target(way) as address:
            return await measure_server(address, revision, None if chosen is None else sorted(chosen))

    return measure


def measure_command(started: str, revision: Revision) -> Measure:
    """Measures a client: all scenarios that it takes part in, or some."""

    async def measure(chosen: frozenset[str] | None) -> Report:
        return await measure_client(started, revision, scenarios(revision) if chosen is None else sorted(chosen))

    return measure


async def check(role: Role, revision: Revision, direct: Measure, ways: dict[str, Measure]) -> None:
    """Measures directly and each way, and compares with what is written down."""
    facts = known()
    baseline = await direct(None)
    scores = {"direct": _score(baseline)}
    wrong: list[str] = []
    for way, measure in ways.items():
        expected = facts.of(role, revision, way)
        through = await measure(None)
        found = compare(role, revision, way, baseline, through)
        if found != expected:
            # The suite waits half a second for some answers: what differs gets a second chance on its own.
            again = frozenset(one.check.partition(":")[0] for one in found ^ expected)
            baseline = baseline.renewed(await direct(again))
            through = through.renewed(await measure(again))
            found = compare(role, revision, way, baseline, through)
        scores[way] = _score(through)
        wrong += _unlike(found, expected, through)
    sys.stdout.write(f"{role} {revision}: {scores}\n")
    assert not wrong, "differences.toml is not exact:\n" + "\n\n".join(wrong)
    assert scores == facts.scores[role][revision]


def _score(report: Report) -> str:
    passed, run = report.score
    return f"{passed} of {run}"


def _unlike(found: set[Difference], expected: set[Difference], through: Report) -> list[str]:
    why = {f"{one.check}: {check.message}" for one in found - expected if (check := through.find(one.check))}
    why |= {through.said.get(one.check.partition(":")[0], "") for one in found - expected}
    parts = (told("To be added:", found - expected), *sorted(why), told("No longer true:", expected - found))
    return [part for part in parts if part]


@pytest.fixture
def suite() -> None:
    """Needs the suite from npm and a Node that runs it."""
    if installed():
        return
    pytest.skip(needs.NPM_SERVERS)


@pytest.mark.node
@pytest.mark.timeout(600)
@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.usefixtures("suite")
async def test_a_server_behind_wicket_passes_what_it_passes_alone(revision: Revision) -> None:
    ways: tuple[Way, ...] = ("http", "stdio")
    await check("server", revision, measure_way("direct", revision), {way: measure_way(way, revision) for way in ways})


@pytest.mark.node
@pytest.mark.timeout(600)
@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.usefixtures("suite")
async def test_a_client_behind_wicket_passes_what_it_passes_alone(revision: Revision) -> None:
    alone, behind = (measure_command(command(through_wicket=through), revision) for through in (False, True))
    await check("client", revision, alone, {"wicket": behind})


@pytest.mark.node
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.usefixtures("suite")
async def test_wicket_signs_in_as_the_sdks_own_client_does(revision: Revision) -> None:
    found: dict[str, str] = {}
    failing: list[str | None] = []
    for way, started in (("direct", auth_direct.command()), ("wicket", auth.command())):
        report = await measure_client(started, revision, auth.scenarios(revision))
        extensions = [scenario for scenario in report.checks if scenario not in report.scored]
        found |= {
            way: _score(report),
            f"{way} extensions": f"{sum(map(report.passes, extensions))} of {len(extensions)}",
        }
        failing += [f"{way} {name}: {report.said.get(name)}" for name in report.checks if not report.passes(name)]
    sys.stdout.write(f"auth {revision}: {found}\n")
    assert found == known().scores["auth"][revision], failing


@pytest.mark.node
@pytest.mark.usefixtures("suite")
def test_the_suite_is_the_one_that_the_document_names() -> None:
    assert decode((HOME / "package.json").read_bytes())["version"] == known().suite


def test_every_difference_has_a_reason() -> None:
    assert [entry.check for entry in known().difference if not entry.reason.strip()] == []


def test_the_document_is_made_from_the_differences() -> None:
    assert DOCUMENT.read_text() == page(known()), "run python -m tests.conformance.document"
