"""Servers that were installed, when two want the same name, nobody waits, or the configuration changes."""

import asyncio
from typing import Any

import pytest

from tests.conftest import OpenGateway, Server, peer
from tests.peers.http_faults import EVENTS, HttpPeer, Silent
from tests.registry.greets import Greets
from wicket.app import Gateway
from wicket.config.model import Config
from wicket.errors import BadArguments, Denied, UnknownName
from wicket.model import LOCAL
from wicket.registry.install import Wanted

OPTIONS: dict[str, Any] = {"allow_runtime_servers": True, "registry": {"allowed_addresses": ["127.0.0.1"]}}


def remote(name: str, server: HttpPeer) -> Wanted:
    return Wanted(name, "remote", server.url)


async def test_an_installation_that_nobody_waits_for_any_more_leaves_nothing(open_gateway: OpenGateway) -> None:
    async with open_gateway({}, **OPTIONS) as gateway, Silent(EVENTS) as silent, Greets() as well:
        managed = gateway.registry.managed
        async with asyncio.TaskGroup() as group:
            installing = group.create_task(managed.install(remote("x", silent), LOCAL, start=True))
            await silent.asked.wait()
            installing.cancel()
        assert (await managed.list(), managed.running, gateway.catalogue.servers) == ([], set(), {})
        await managed.install(remote("x", well), LOCAL, start=True)
        assert [one.name for one in await managed.list()] == ["x"]


async def test_of_two_who_install_the_same_name_one_does(open_gateway: OpenGateway) -> None:
    async with open_gateway({}, **OPTIONS) as gateway, Greets() as one, Greets() as other:
        managed = gateway.registry.managed
        outcomes = await asyncio.gather(
            managed.install(remote("same", one), LOCAL, start=True),
            managed.install(remote("SAME", other), LOCAL, start=True),
            return_exceptions=True,
        )
        assert [isinstance(outcome, BadArguments) for outcome in outcomes].count(True) == 1
        assert len(await managed.list()) == 1
        assert len(gateway.catalogue.servers) == 1


def config(gateway: Gateway, servers: dict[str, Server], **options: Any) -> Config:
    kept = {"state_dir": gateway.config.state_dir, "http": {"port": 0}}
    return Config.from_dict({"servers": servers, **kept, **OPTIONS, **options})


async def names(gateway: Gateway) -> set[str]:
    """Once what a new configuration set going has been done."""
    await gateway.registry.settled()
    return {tool.key for tool in await gateway.tools() if tool.name == "echo"}


async def install(gateway: Gateway, name: str) -> None:
    """Not the way in which a client may do so, but for this what it starts is all that counts."""
    made = Config.from_dict({"servers": {name: peer("Echo")}}).servers[0]
    await gateway.registry.managed.register(made, LOCAL)


async def test_a_name_is_free_when_the_file_has_it_no_more_and_taken_when_it_has(open_gateway: OpenGateway) -> None:
    async with open_gateway({"old": peer("Echo")}, **OPTIONS) as gateway:
        with pytest.raises(BadArguments, match="'OLD' already exists"):
            await install(gateway, "OLD")
        gateway.apply(config(gateway, {"new": peer("Echo")}))
        with pytest.raises(BadArguments, match="'New' already exists"):
            await install(gateway, "New")
        await install(gateway, "old")
        assert await names(gateway) == {"new.echo", "old.echo"}


async def test_a_disabled_servers_name_is_taken_too(open_gateway: OpenGateway) -> None:
    async with open_gateway({"later": peer("Echo", enabled=False)}, **OPTIONS) as gateway:
        with pytest.raises(BadArguments, match="already exists"):
            await install(gateway, "later")


@pytest.mark.parametrize("spelling", ["x", "X"])
async def test_an_installed_server_gives_way_to_a_configured_one_and_comes_back(
    open_gateway: OpenGateway, spelling: str
) -> None:
    async with open_gateway({}, **OPTIONS) as gateway:
        await install(gateway, "x")
        mine = (await gateway.call("x.pid"))["content"]
        gateway.apply(config(gateway, {spelling: peer("Echo", env={"MODE": "configured"})}))
        assert await names(gateway) == {f"{spelling}.echo"}
        assert (await gateway.call(f"{spelling}.pid"))["content"] != mine
        managed = gateway.registry.managed
        assert [(one.name, one.status) for one in await managed.list()] == [("x", "stopped")]
        for action in ("start", "stop", "restart"):
            with pytest.raises(BadArguments, match="stands in its place"):
                await managed.control("x", action)
        assert await names(gateway) == {f"{spelling}.echo"}, "what is configured is never touched"
        gateway.apply(config(gateway, {}))
        assert await names(gateway) == {"x.echo"}
        assert [(one.name, one.status) for one in await managed.list()] == [("x", "running")]


async def test_an_installed_server_whose_name_was_taken_can_be_forgotten(open_gateway: OpenGateway) -> None:
    async with open_gateway({}, **OPTIONS) as gateway:
        await install(gateway, "x")
        gateway.apply(config(gateway, {"x": peer("Echo", env={"MODE": "configured"})}))
        await gateway.registry.managed.control("x", "remove")
        assert await gateway.registry.managed.list() == []
        assert await names(gateway) == {"x.echo"}
        gateway.apply(config(gateway, {}))
        assert await names(gateway) == set()


async def test_a_configured_server_is_not_reached_by_the_rules_for_an_installed_one(open_gateway: OpenGateway) -> None:
    async with open_gateway({}, **OPTIONS) as gateway, Greets() as one, Greets() as other:
        await gateway.registry.managed.install(remote("x", one), LOCAL, start=True)
        gateway.apply(config(gateway, {"x": {"url": other.url}}, registry={}))
        await gateway.pool.request("x", "ping", {})
        assert other.received, "what the configuration names is not checked like what an agent names"


async def test_installing_is_switched_off_and_on(open_gateway: OpenGateway) -> None:
    async with open_gateway({}, **OPTIONS) as gateway:
        await install(gateway, "x")
        gateway.apply(config(gateway, {}, allow_runtime_servers=False))
        assert await names(gateway) == set()
        with pytest.raises(UnknownName):
            await gateway.call("x.echo", {"message": "hi"})
        with pytest.raises(Denied, match="allow_runtime_servers"):
            await gateway.registry.managed.control("x", "start")
        gateway.apply(config(gateway, {}))
        assert await names(gateway) == {"x.echo"}
        assert (await gateway.call("x.echo", {"message": "hi"}))["content"][0]["text"] == "hi"
