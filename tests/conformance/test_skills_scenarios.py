"""The suite's scenarios of skills: Wicket as the server behind it, and Wicket as a client."""

import sys

import pytest

from tests import needs
from tests.conformance.extension_scenarios import SKILLS, SKILLS_CLIENT
from tests.conformance.suite import installed, measure_client, measure_server
from tests.conformance.targets import wicket
from tests.eras.child import serving
from tests.gateway.extensions_document import shows

pytestmark = [
    pytest.mark.node,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not installed(), reason=needs.NPM_SERVERS),
]


@shows("skills", "the conformance suite's three server scenarios", clients="modern", servers="modern")
async def test_wicket_passes_the_scenarios_of_skills_as_the_server_behind_it_does() -> None:
    async with serving([sys.executable, "-m", "tests.conformance.skill_server", "--http", "0"]) as server:
        direct = await measure_server(server, "2026-07-28", SKILLS)
        async with wicket({"url": server}) as address:
            through = await measure_server(address, "2026-07-28", SKILLS)
    verdicts = [
        {(name, check.id): check.status for name, checks in report.checks.items() for check in checks}
        for report in (direct, through)
    ]
    assert verdicts[0] == verdicts[1]
    assert {name for name, _ in verdicts[0]} == set(SKILLS)
    assert set(verdicts[0].values()) == {"SUCCESS"}


@shows("skills", "the conformance suite's four client scenarios", clients="modern", servers="modern")
async def test_as_a_client_wicket_fetches_nothing_early_and_gives_nobody_what_differs() -> None:
    command = f"{sys.executable} -m tests.conformance.skill_client"
    report = await measure_client(command, "2026-07-28", SKILLS_CLIENT)
    statuses = {name: [check.status for check in checks] for name, checks in report.checks.items()}
    assert statuses == {name: ["SUCCESS"] for name in SKILLS_CLIENT}
