"""Both eras, scripts and large results at servers of both kinds, while everything goes wrong: no call is lost."""

from pathlib import Path

import aiohttp
import pytest

from tests.cluster.faults import Faults, prepare
from tests.cluster.house import Replica
from tests.cluster.test_replicas import readiness
from tests.gateway.serving import Raw

EACH = 3
CLIENTS = 12


async def use_all_commands(http: aiohttp.ClientSession, replica: Replica) -> None:
    for number in range(EACH):
        params = {"name": "call_tool", "arguments": {"name": f"cmd{number}.echo", "arguments": {"message": "first"}}}
        assert (await Raw(http, f"{replica.address}/mcp").modern("tools/call", params))[0] == 200


async def others_take_over(http: aiohttp.ClientSession, faults: Faults) -> None:
    """Until the replica that is cut off says that it is not ready, and others have started its commands."""
    cut_off, *others = faults.house.replicas
    owned = cut_off.log.count("this replica runs server")
    while (await readiness(http, cut_off)).startswith('{"status":"ready"'):
        pass
    while owned and sum(replica.log.count("this replica runs server") for replica in others) == 0:
        await faults.load.pass_by(1)
    await faults.load.pass_by(100)


@pytest.mark.timeout(300)
async def test_no_call_is_lost_or_doubled_while_everything_goes_wrong(tmp_path: Path) -> None:
    async with prepare(tmp_path, EACH, CLIENTS) as faults, aiohttp.ClientSession() as http:
        await use_all_commands(http, faults.house.replicas[0])  # which owns them from now on
        await faults.run(lambda: faults.load.pass_by(150), lambda: others_take_over(http, faults))
        *before, killed, rolled, cut_off = faults.report()
        assert [part.failed for part in (*before, rolled)] == [{}] * (len(before) + 1)
        assert killed.failed.keys() <= faults.begun_before_death, killed.failed
        assert len(cut_off.failed) <= CLIENTS, cut_off.failed  # in flight at the commands that it stopped
        for part in faults.report():
            assert part.untyped == part.lost == part.doubled == [], (part.name, part.failed)
        assert faults.owned_twice == 0
