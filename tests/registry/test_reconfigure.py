"""The registry follows a configuration that changes while it runs."""

import asyncio
from typing import Any

import pytest

from tests.peers.dns_server import Names
from tests.registry.conftest import OpenDesk
from tests.registry.greets import Greets
from wicket.config.model import Config
from wicket.errors import ConfigError, Denied, RateLimited
from wicket.model import LOCAL, SCOPES, Principal, Silent

ANN = Principal("ann", SCOPES - {"admin"})


def config(**registry: Any) -> Config:
    return Config.from_dict({"servers": {}, "registry": registry})


async def test_limits_change(open_desk: OpenDesk) -> None:
    desk = open_desk(registry={"rates": {"discovery": 1}})
    await desk.discover("files", ANN, limit=1)
    with pytest.raises(RateLimited, match="1 discovery requests"):
        await desk.discover("files", ANN, limit=1)
    desk.reconfigure(config(rates={"discovery": 0}))
    for _ in range(3):
        await desk.discover("files", ANN, limit=1)


async def test_addresses_are_allowed_and_then_no_more(open_desk: OpenDesk) -> None:
    desk = open_desk()
    async with Greets() as server:
        with pytest.raises(Denied):
            await desk.invoke(server.url, "x", {}, {}, Silent(ANN))
        desk.reconfigure(config(allowed_addresses=["127.0.0.1"]))
        await desk.invoke(server.url, "x", {}, {}, Silent(ANN))
        seen = len(server.received)
        desk.reconfigure(config())
        await desk.settled()
        with pytest.raises(Denied):
            await desk.invoke(server.url, "x", {}, {}, Silent(ANN))
        assert len(server.received) == seen


async def test_other_resolvers_are_asked(open_desk: OpenDesk, names: Names) -> None:
    with Names() as second:
        desk = open_desk(registry={"resolvers": [names.address]})
        claim = await desk.domains.begin("example.com", ANN)
        second.zone.records["_wicket.example.com"] = [f"wicket-verify={claim.token}"]
        assert (await desk.domains.check("example.com", ANN)).state == "failed"
        desk.reconfigure(config(resolvers=[second.address]))
        assert (await desk.domains.check("example.com", ANN)).state == "verified"


async def published(open_desk: OpenDesk, server: Greets, **registry: Any) -> Any:
    """A desk that serves, with a record whose health somebody has asked for."""
    desk = open_desk(registry={"allowed_addresses": ["127.0.0.1"], **registry})
    remotes = [{"type": "streamable-http", "url": server.url}]
    body = {"name": "io.github.ann/far", "description": "Far away", "version": "1.0.0", "remotes": remotes}
    await desk.registry.publish(body, LOCAL)
    await desk.measure("far", 1, LOCAL)
    desk.probes.start()
    return desk


async def probed(server: Greets, times: int) -> None:
    async with asyncio.timeout(30):
        while sum(one.rpc_method == "ping" for one in server.received) < times:
            await asyncio.sleep(0.01)


async def test_what_is_watched_is_probed_again_and_again_in_the_background(open_desk: OpenDesk) -> None:
    async with Greets() as server:
        desk = await published(open_desk, server, probe_every=0.05)
        await probed(server, 3)
        (far,) = await desk.measure("far", 1, LOCAL)
        assert (far.main.status, far.main.observations >= 2) == ("healthy", True)


async def test_probes_begin_and_end_with_the_configuration(open_desk: OpenDesk) -> None:
    async with Greets() as server:
        desk = await published(open_desk, server, probe_every=0)
        desk.reconfigure(config(allowed_addresses=["127.0.0.1"], probe_every=0.05))
        await probed(server, 2)
        desk.reconfigure(config(allowed_addresses=["127.0.0.1"], probe_every=0))
        assert not desk.probes.running


@pytest.mark.parametrize(
    "wrong", [{"rates": {"coffee": 1}}, {"resolvers": ["dns.example"]}, {"allowed_addresses": ["10.0.0.0/99"]}]
)
async def test_a_configuration_that_cannot_be_used_changes_nothing(
    open_desk: OpenDesk, names: Names, wrong: dict[str, Any]
) -> None:
    desk = open_desk(registry={"rates": {"discovery": 1}, "resolvers": [names.address]})
    right: dict[str, Any] = {"rates": {"discovery": 5}, "resolvers": ["9.9.9.9"], "allowed_addresses": ["127.0.0.1"]}
    with pytest.raises(ConfigError):
        desk.reconfigure(config(**right | wrong))
    await desk.discover("files", ANN, limit=1)
    with pytest.raises(RateLimited, match="1 discovery requests"):
        await desk.discover("files", ANN, limit=1)
    with pytest.raises(Denied):
        desk.rules.check_url("http://127.0.0.1/")
    await desk.domains.begin("example.com", ANN)
    await desk.domains.check("example.com", ANN)
    assert names.zone.asked
