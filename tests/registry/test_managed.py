"""Servers that were installed, when two want the same name, nobody waits, or the configuration changes."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import OpenGateway, Server, peer
from tests.peers.http_faults import EVENTS, HttpPeer, Received, Silent
from tests.registry.greets import Greets
from wicket_mcp.app import Gateway
from wicket_mcp.config.model.config import Config
from wicket_mcp.errors import BadArguments, Denied, UnknownName
from wicket_mcp.model import LOCAL
from wicket_mcp.registry.install import InstallRequest
from wicket_mcp.tasks import Tasks

OPTIONS: dict[str, Any] = {"allow_runtime_servers": True, "registry": {"allowed_addresses": ["127.0.0.1"]}}


def remote(name: str, server: HttpPeer) -> InstallRequest:
    return InstallRequest(name, "remote", server.url)


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
    await gateway.registry.wait_until_settled()
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


class Slow(Greets):
    """Greets when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.go = asyncio.Event(), asyncio.Event()

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        self.asked.set()
        await self.go.wait()
        await super().answer(request, writer)


async def test_a_failed_installation_leaves_the_server_that_was_configured_meanwhile(open_gateway: OpenGateway) -> None:
    async with open_gateway({}, **OPTIONS) as gateway, Slow() as slow:
        async with asyncio.TaskGroup() as group:
            installing = group.create_task(gateway.registry.managed.install(remote("x", slow), LOCAL, start=True))
            await slow.asked.wait()
            gateway.apply(config(gateway, {"x": peer("Echo")}))
            installing.cancel()
        assert await names(gateway) == {"x.echo"}
        assert (await gateway.call("x.echo", {"message": "hi"}))["content"][0]["text"] == "hi"


@pytest.mark.parametrize(
    ("servers", "options", "problem"),
    [({}, {"allow_runtime_servers": False}, Denied), ({"X": peer("Echo")}, {}, BadArguments)],
)
async def test_what_the_configuration_forbids_while_it_is_installed_is_not_kept(
    open_gateway: OpenGateway, servers: dict[str, Server], options: dict[str, Any], problem: type[Exception]
) -> None:
    async with open_gateway({}, **OPTIONS) as gateway, Slow() as slow:
        managed = gateway.registry.managed
        installing = Tasks().start(managed.install(remote("x", slow), LOCAL, start=True), "install")
        await slow.asked.wait()
        gateway.apply(config(gateway, servers, **options))
        slow.go.set()
        with pytest.raises(problem):
            await installing
        assert (await managed.list(), managed.running) == ([], set())
        assert set(gateway.catalogue.servers) == set(servers)


@pytest.mark.parametrize(
    ("servers", "options", "problem"),
    [({}, {"allow_runtime_servers": False}, Denied), ({"X": peer("Echo")}, {}, BadArguments)],
)
async def test_what_the_configuration_forbids_while_it_restarts_stays_down(
    open_gateway: OpenGateway, servers: dict[str, Server], options: dict[str, Any], problem: type[Exception]
) -> None:
    async with open_gateway({}, **OPTIONS) as gateway:
        await install(gateway, "x")
        managed = gateway.registry.managed
        restarting = Tasks().start(managed.control("x", "restart"), "restart")
        while "x" in managed.running:
            await asyncio.sleep(0)
        gateway.apply(config(gateway, servers, **options))
        with pytest.raises(problem):
            await restarting
        assert managed.running == set()
        assert set(gateway.catalogue.servers) == set(servers)
        gateway.apply(config(gateway, {}))
        assert await names(gateway) == {"x.echo"}, "it comes back when it may"


async def test_what_the_configuration_forbids_while_it_is_restored_stays_down(open_gateway: OpenGateway) -> None:
    async with open_gateway({}, **OPTIONS) as gateway:
        await install(gateway, "x")
        gateway.apply(config(gateway, {}, allow_runtime_servers=False))
        gateway.apply(config(gateway, {}))
        await asyncio.sleep(0)  # restoring has begun
        gateway.apply(config(gateway, {}, allow_runtime_servers=False))
        assert await names(gateway) == set()
        assert gateway.registry.managed.running == set()


class Docker:
    """A command of that name which says who it is, and ends when it may."""

    def __init__(self, folder: Path) -> None:
        self._asked, self._go = folder / "asked", folder / "go"
        for pipe in (self._asked, self._go):
            os.mkfifo(pipe)
        (folder / "docker").write_text(f'#!/bin/sh\necho $$ > "{self._asked}"\nread _ < "{self._go}"\n')
        (folder / "docker").chmod(0o700)

    async def asked(self) -> int:
        return int(await asyncio.to_thread(self._asked.read_text))

    async def go(self) -> None:
        await asyncio.to_thread(self._go.write_text, "\n")


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Docker:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return Docker(folder)


async def test_a_name_that_is_taken_while_the_engine_is_asked_is_taken(
    open_gateway: OpenGateway, docker: Docker
) -> None:
    async with open_gateway({}, **OPTIONS) as gateway:
        managed = gateway.registry.managed
        installing = Tasks().start(
            managed.install(InstallRequest("x", "docker", "image"), LOCAL, start=False), "install"
        )
        await docker.asked()
        gateway.apply(config(gateway, {"x": peer("Echo")}))
        await docker.go()
        with pytest.raises(BadArguments, match="'x' already exists"):
            await installing
        assert await managed.list() == []


async def test_the_engine_is_not_asked_any_longer_than_somebody_waits(
    open_gateway: OpenGateway, docker: Docker
) -> None:
    async with open_gateway({}, **OPTIONS) as gateway:
        async with asyncio.TaskGroup() as group:
            wanted = InstallRequest("x", "docker", "image")
            installing = group.create_task(gateway.registry.managed.install(wanted, LOCAL, start=True))
            process = await docker.asked()
            installing.cancel()
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)
