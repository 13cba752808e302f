"""The registry follows a configuration that changes while it runs."""

import asyncio
from typing import Any

import pytest

from tests.peers.dns_server import Names
from tests.peers.http_faults import Received
from tests.registry.conftest import OpenFacade
from tests.registry.greets import Greets
from wicket_mcp.config.model.config import Config
from wicket_mcp.errors import ConfigError, Crashed, Denied, RateLimited
from wicket_mcp.model import LOCAL, SCOPES, Principal, Silent
from wicket_mcp.registry.settings import check
from wicket_mcp.tasks import Tasks

ANN = Principal("ann", SCOPES - {"admin"})


def config(**registry: Any) -> Config:
    return Config.from_dict({"servers": {}, "registry": registry})


async def test_limits_change(open_facade: OpenFacade) -> None:
    facade = await open_facade(registry={"rates": {"discovery": 1}})
    await facade.discover("files", ANN, limit=1)
    with pytest.raises(RateLimited, match="1 discovery requests"):
        await facade.discover("files", ANN, limit=1)
    facade.reconfigure(config(rates={"discovery": 0}))
    for _ in range(3):
        await facade.discover("files", ANN, limit=1)


async def test_addresses_are_allowed_and_then_no_more(open_facade: OpenFacade) -> None:
    facade = await open_facade()
    async with Greets() as server:
        with pytest.raises(Denied):
            await facade.invoke(server.url, "x", {}, {}, Silent(ANN))
        facade.reconfigure(config(allowed_addresses=["127.0.0.1"]))
        await facade.invoke(server.url, "x", {}, {}, Silent(ANN))
        seen = len(server.received)
        facade.reconfigure(config())
        await facade.wait_until_settled()
        with pytest.raises(Denied):
            await facade.invoke(server.url, "x", {}, {}, Silent(ANN))
        assert len(server.received) == seen


class Waits(Greets):
    """Answers a call when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.called, self.go = asyncio.Event(), asyncio.Event()

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        if request.rpc_method == "tools/call":
            self.called.set()
            await self.go.wait()
        await super().answer(request, writer)


async def test_calls_to_an_address_that_stays_allowed_go_on(open_facade: OpenFacade) -> None:
    facade = await open_facade(registry={"allowed_addresses": ["127.0.0.1", "10.0.0.0/8"]})
    async with Waits() as server, asyncio.TaskGroup() as group:
        calling = group.create_task(facade.invoke(server.url, "x", {}, {}, Silent(ANN)))
        await server.called.wait()
        facade.reconfigure(config(allowed_addresses=["127.0.0.1"]))
        await facade.wait_until_settled()
        server.go.set()
        assert await calling == {"ok": True}


async def test_calls_to_a_host_that_stays_allowed_by_name_go_on(open_facade: OpenFacade) -> None:
    facade = await open_facade(registry={"allowed_addresses": ["localhost", "intranet.example"]})
    async with Waits() as server, asyncio.TaskGroup() as group:
        url = server.url.replace("127.0.0.1", "localhost")
        calling = group.create_task(facade.invoke(url, "x", {}, {}, Silent(ANN)))
        await server.called.wait()
        facade.reconfigure(config(allowed_addresses=["localhost"]))
        await facade.wait_until_settled()
        server.go.set()
        assert await calling == {"ok": True}


@pytest.mark.parametrize("allowed", ["127.0.0.1", "localhost"])
async def test_a_call_to_an_address_that_is_allowed_no_more_ends_at_once(open_facade: OpenFacade, allowed: str) -> None:
    facade = await open_facade(registry={"allowed_addresses": [allowed]})
    async with Waits() as server:
        url = server.url.replace("127.0.0.1", allowed)
        calling = Tasks().start(facade.invoke(url, "x", {}, {}, Silent(ANN)), "call")
        await server.called.wait()
        facade.reconfigure(config())
        with pytest.raises(Crashed):
            await calling
        await server.hung_up.wait()


async def test_other_resolvers_are_asked(open_facade: OpenFacade, names: Names) -> None:
    with Names() as second:
        facade = await open_facade(registry={"resolvers": [names.address]})
        claim = await facade.domains.begin("example.com", ANN)
        second.zone.records["_wicket.example.com"] = [f"wicket-verify={claim.token}"]
        assert (await facade.domains.check("example.com", ANN)).state == "failed"
        facade.reconfigure(config(resolvers=[second.address]))
        assert (await facade.domains.check("example.com", ANN)).state == "verified"


async def published(open_facade: OpenFacade, server: Greets, **registry: Any) -> Any:
    """A facade that serves, with a record whose health somebody has asked for."""
    facade = await open_facade(registry={"allowed_addresses": ["127.0.0.1"], **registry})
    remotes = [{"type": "streamable-http", "url": server.url}]
    body = {"name": "io.github.ann/far", "description": "Far away", "version": "1.0.0", "remotes": remotes}
    await facade.registry.publish(body, LOCAL)
    await facade.measure("far", 1, LOCAL)
    facade.probes.start()
    return facade


async def probed(server: Greets, times: int) -> None:
    async with asyncio.timeout(30):
        while sum(one.rpc_method == "ping" for one in server.received) < times:
            await asyncio.sleep(0)


async def test_what_is_watched_is_probed_again_and_again_in_the_background(open_facade: OpenFacade) -> None:
    async with Greets() as server:
        facade = await published(open_facade, server, probe_every=0.05)
        await probed(server, 3)
        (far,) = await facade.measure("far", 1, LOCAL)
        assert (far.main.status, far.main.observations >= 2) == ("healthy", True)


async def test_probes_begin_and_end_with_the_configuration(open_facade: OpenFacade) -> None:
    async with Greets() as server:
        facade = await published(open_facade, server, probe_every=0)
        facade.reconfigure(config(allowed_addresses=["127.0.0.1"], probe_every=0.05))
        await probed(server, 2)
        facade.reconfigure(config(allowed_addresses=["127.0.0.1"], probe_every=0))
        assert not facade.probes.running


@pytest.mark.parametrize(
    "wrong", [{"rates": {"coffee": 1}}, {"resolvers": ["dns.example"]}, {"allowed_addresses": ["10.0.0.0/99"]}]
)
async def test_a_configuration_that_cannot_be_used_changes_nothing(
    open_facade: OpenFacade, names: Names, wrong: dict[str, Any]
) -> None:
    facade = await open_facade(registry={"rates": {"discovery": 1}, "resolvers": [names.address]})
    right: dict[str, Any] = {"rates": {"discovery": 5}, "resolvers": ["9.9.9.9"], "allowed_addresses": ["127.0.0.1"]}
    with pytest.raises(ConfigError):
        facade.reconfigure(config(**right | wrong))
    await facade.discover("files", ANN, limit=1)
    with pytest.raises(RateLimited, match="1 discovery requests"):
        await facade.discover("files", ANN, limit=1)
    with pytest.raises(Denied):
        facade.rules.check_url("http://127.0.0.1/")
    await facade.domains.begin("example.com", ANN)
    await facade.domains.check("example.com", ANN)
    assert names.zone.asked


@pytest.mark.parametrize(
    ("option", "wrong"),
    [
        ("rates", {"coffee": 1}),
        ("rates", {"discovery": -1}),
        ("resolvers", ["dns.example"]),
        ("resolvers", ["9.9.9.9:99999"]),
        ("allowed_addresses", ["10.0.0.0/99"]),
    ],
)
def test_options_are_checked_without_a_registry(option: str, wrong: Any) -> None:
    check(config(rates={"discovery": 0}, resolvers=["9.9.9.9"], allowed_addresses=["127.0.0.1"]).registry)
    with pytest.raises(ConfigError, match=f"registry.{option}"):
        check(config(**{option: wrong}).registry)
