"""A replica that is cut off from the database, by the network: nobody is told, and nothing runs twice."""

from pathlib import Path

import aiohttp
import pytest

from tests.cluster.house import replicas
from tests.cluster.load import Load, counting_child, is_typed
from tests.cluster.test_ownership import call
from tests.cluster.test_replicas import readiness
from tests.peers.namespace import Namespace
from tests.peers.postgres import Postgres

CLIENTS = 8


@pytest.mark.timeout(240)
async def test_an_owner_that_is_cut_off_from_the_database_stops_before_another_starts(tmp_path: Path) -> None:
    counted = tmp_path / "counted"
    with Namespace() as machine, Postgres(machine.severed, machine.net) as server:
        async with aiohttp.ClientSession() as http:
            servers = {"x": counting_child(counted)}
            async with replicas(tmp_path, server.database(), servers, machine=machine) as house:
                cut_off, *others = house.replicas
                assert (await call(http, cut_off, "echo", message="first"))["content"][0]["text"] == "first"
                assert "runs server 'x'" in cut_off.log
                load = Load(http, house.address, clients=CLIENTS)
                await load.start()
                await load.pass_by(100)
                machine.cut()
                while not (await readiness(http, cut_off)).startswith('{"status":"The database cannot be reached'):
                    pass  # it is not ready: the others are
                while not any("runs server 'x'" in replica.log for replica in others):
                    await load.pass_by(1)
                await load.pass_by(100)
                machine.mend()
                await cut_off.ready()
                await load.pass_by(100)
                await load.stop()
                assert (await call(http, cut_off, "echo", message="last"))["content"][0]["text"] == "last"
        executed = counted.read_text().split()
        account = load.account(executed)
        assert account["lost"] == account["doubled"] == []
        assert "twice" not in executed
        assert len(load.failed) <= CLIENTS, load.failed
        assert all(is_typed(problem) for problem in load.failed.values()), load.failed
