"""A configuration that changes while the gateway runs."""

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from tests.conftest import Server, peer
from tests.dialects.seeds import Speaker
from tests.gateway.serving import serve_http, toml_of
from wicket.app import Gateway
from wicket.config.formats import load
from wicket.errors import UnknownName
from wicket.reload import needing_restart


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
            while (await gateway.call("x.calls"))["structuredContent"]["waiting"] == 0:
                pass
            write(config, {"x": peer("Echo", env={"MODE": "new"})})
            gateway.apply(load(config))
            assert await pid(gateway, "x") != first
            assert not slow.done()
            os.kill(int(first), signal.SIGUSR1)
        assert slow.result()["content"][0]["text"] == "released"


async def test_servers_that_were_added_at_run_time_stay(config: Path) -> None:
    write(config, {"x": peer("Echo")}, "allow_runtime_servers = true")
    async with Gateway.open(config) as gateway:
        manual = {"name": "added", **peer("Echo")}
        await Speaker(gateway, "chain").text("register_manual", manual_call_template=manual)
        number = await pid(gateway, "added")
        write(config, {"y": peer("Echo")}, "allow_runtime_servers = true")
        gateway.apply(load(config))
        assert await pid(gateway, "added") == number
        assert list(gateway.catalogue.servers) == ["y", "added"]


class Heard(logging.Handler):
    """Waits for a log line."""

    def __init__(self, words: str) -> None:
        super().__init__()
        self._words = words
        self._said = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if self._words in record.getMessage():
            self._said.set()

    async def wait(self) -> None:
        async with asyncio.timeout(60):
            await self._said.wait()


@pytest.fixture
def hear() -> Generator[Callable[[str], Heard]]:
    """Listens to the log for words."""
    log, made = logging.getLogger("wicket"), list[Heard]()
    level = log.level
    log.setLevel(logging.INFO)

    def listen(words: str) -> Heard:
        made.append(Heard(words))
        log.addHandler(made[-1])
        return made[-1]

    yield listen
    log.setLevel(level)
    for handler in made:
        log.removeHandler(handler)


async def test_a_served_gateway_follows_its_file_and_a_broken_one_changes_nothing(
    config: Path, hear: Callable[[str], Heard]
) -> None:
    write(config, {"x": peer("Echo")}, "[http]\nport = 0")
    broken, reloaded = hear("the old one stays in use"), hear("the configuration was reloaded")
    waits = hear("changes of http take effect when Wicket is started again")
    async with Gateway.open(config) as gateway, serve_http(gateway):
        first = await pid(gateway, "x")
        config.write_text("servers = [broken")
        await broken.wait()
        assert await pid(gateway, "x") == first
        config.unlink()
        write(config, {"x": peer("Echo"), "y": peer("Echo")}, "[http]\nport = 1")
        await reloaded.wait()
        assert await pid(gateway, "x") == first
        assert await pid(gateway, "y") != first
        await waits.wait()


async def test_every_option_either_is_live_or_is_named(config: Path) -> None:
    write(config, {"x": peer("Echo")})
    old = load(config)
    write(config, {"z": peer("Echo")}, 'dialects = ["flat"]\naliases = { a = "z.pid" }\n[limits]\nmax_tools = 5')
    assert needing_restart(old, load(config)) == ["dialects", "limits"]
