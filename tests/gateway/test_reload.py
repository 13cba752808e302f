"""A configuration that changes while the gateway runs."""

import asyncio
import logging
from pathlib import Path

import pytest

from tests.conftest import Server, peer
from tests.gateway.serving import serve_http, toml_of
from wicket.app import Gateway
from wicket.config.formats import load
from wicket.errors import UnknownName
from wicket.reload import needing_restart, watch


def write(path: Path, servers: dict[str, Server], head: str = "") -> None:
    path.write_text(f'state_dir = "state"\n{head}\n{toml_of(servers)}')


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "wicket.toml"


async def pid(gateway: Gateway, server: str) -> str:
    return (await gateway.call(f"{server}.pid"))["content"][0]["text"]


async def test_servers_come_go_and_change_and_the_others_keep_their_connections(config: Path) -> None:
    write(config, {"stays": peer("Echo"), "goes": peer("Echo"), "changes": peer("Echo")})
    async with Gateway.open(config) as gateway:
        before = {name: await pid(gateway, name) for name in ("stays", "goes", "changes")}
        write(
            config,
            {
                "stays": peer("Echo", description="said more", allowed_tools=["pid", "echo"]),
                "changes": peer("Echo", env={"MODE": "new"}),
                "comes": peer("Echo"),
            },
            'aliases = { say = "comes.echo" }',
        )
        gateway.apply(load(config))
        assert await pid(gateway, "stays") == before["stays"]
        assert {tool.name for tool in await gateway.tools("stays")} == {"pid", "echo"}
        assert await pid(gateway, "changes") != before["changes"]
        assert (await gateway.call("say", {"message": "new"}))["content"][0]["text"] == "new"
        with pytest.raises(UnknownName):
            await gateway.call("goes.pid")


async def test_a_call_in_flight_ends_on_the_server_it_was_sent_to(config: Path) -> None:
    write(config, {"x": peer("Echo")})
    async with Gateway.open(config) as gateway:
        first = await pid(gateway, "x")
        async with asyncio.TaskGroup() as group:
            slow = group.create_task(gateway.call("x.slow"))
            while (await gateway.call("x.calls"))["structuredContent"]["calls"] < 3:
                await asyncio.sleep(0)
            write(config, {"x": peer("Echo", env={"MODE": "new"})})
            gateway.apply(load(config))
            assert await pid(gateway, "x") != first
            assert not slow.done()
            import os
            import signal

            os.kill(int(first), signal.SIGUSR1)
        assert slow.result()["content"][0]["text"] == "released"


async def test_servers_that_were_added_at_run_time_stay(config: Path) -> None:
    write(config, {"x": peer("Echo")}, "allow_runtime_servers = true")
    async with Gateway.open(config) as gateway:
        from tests.dialects.seeds import Speaker

        manual = {"name": "added", **peer("Echo")}
        await Speaker(gateway, "chain").text("register_manual", manual_call_template=manual)
        number = await pid(gateway, "added")
        write(config, {"y": peer("Echo")}, "allow_runtime_servers = true")
        gateway.apply(load(config))
        assert await pid(gateway, "added") == number
        assert list(gateway.catalogue.servers) == ["y", "added"]


async def test_a_served_gateway_follows_its_file_and_a_broken_one_changes_nothing(
    config: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(config, {"x": peer("Echo")}, "[http]\nport = 0")
    caplog.set_level(logging.INFO)
    async with Gateway.open(config) as gateway, serve_http(gateway):
        config.write_text("servers = [broken")
        await _until(lambda: any("the old one stays in use" in line for line in caplog.messages))
        assert await pid(gateway, "x")
        write(config, {"x": peer("Echo"), "y": peer("Echo")}, "[http]\nport = 1")
        await _until(lambda: "y" in gateway.catalogue.servers)
        assert await pid(gateway, "y")
        assert any("changes of http take effect when Wicket is started again" in line for line in caplog.messages)


async def test_every_option_either_is_live_or_is_named(config: Path) -> None:
    write(config, {"x": peer("Echo")})
    old = load(config)
    write(config, {"z": peer("Echo")}, 'dialects = ["flat"]\naliases = { a = "z.pid" }\n[limits]\nmax_tools = 5')
    assert needing_restart(old, load(config)) == ["dialects", "limits"]


async def test_a_file_that_was_removed_is_waited_for(config: Path) -> None:
    write(config, {"x": peer("Echo")})
    seen: asyncio.Queue[int] = asyncio.Queue()
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(watch(config, lambda new: seen.put_nowait(len(new.servers))))
        await asyncio.sleep(0)
        config.unlink()
        write(config, {"x": peer("Echo"), "y": peer("Echo")})
        assert await seen.get() == 2
        watching.cancel()


async def _until(condition: object) -> None:
    """Wait for something that another task brings about."""
    assert callable(condition)
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.05)
