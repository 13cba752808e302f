"""The suite's scenarios of the extension for tasks say of Wicket what they say of the server behind it."""

import sys

import pytest

from tests import needs
from tests.conformance.extension_scenarios import TASKS
from tests.conformance.suite import installed, measure_server
from tests.conformance.targets import wicket
from tests.eras.child import serving
from tests.gateway.extensions_document import shows


@shows("tasks", "the conformance suite's ten scenarios", clients="modern", servers="modern with tasks")
@pytest.mark.node
@pytest.mark.timeout(300)
@pytest.mark.skipif(not installed(), reason=needs.NPM_SERVERS)
async def test_wicket_passes_the_scenarios_of_tasks_as_the_server_behind_it_does() -> None:
    async with serving([sys.executable, "-m", "tests.conformance.task_server", "--http", "0"]) as server:
        direct = await measure_server(server, "2026-07-28", TASKS)
        async with wicket({"url": server}) as address:
            through = await measure_server(address, "2026-07-28", TASKS)
    verdicts = [
        {(name, check.id): check.status for name, checks in report.checks.items() for check in checks}
        for report in (direct, through)
    ]
    assert verdicts[0] == verdicts[1]
    assert {name for name, _ in verdicts[0]} == set(TASKS)
    assert set(verdicts[0].values()) == {"SUCCESS", "SKIPPED"}
