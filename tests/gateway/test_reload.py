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
from tests.gateway.serving import Command, raw_client, serve_http, toml_of
from wicket_mcp.app import Gateway
from wicket_mcp.config.read.formats import load
from wicket_mcp.errors import ConfigError, UnknownName
from wicket_mcp.model import LOCAL
from wicket_mcp.reload import needing_restart
from wicket_mcp.surface.feed import Changes
from wicket_mcp.upstream.lifecycle import State


def write(path: Path, servers: dict[str, Server], head: str = "") -> None:
    path.write_text(f'state_dir = "state"\n{head}\n{toml_of(servers)}')


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "wicket.toml"


async def pid(gateway: Gateway, server: str) -> str:
    return (await gateway.call(f"{server}.pid"))["content"][0]["text"]


@pytest.mark.promise("F26", "Servers that did not change keep their connections.")
async def test_f26_servers_come_go_and_change_and_the_others_keep_their_connections(config: Path) -> None:
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


@pytest.mark.promise("F26", "A call in flight ends on the server that it was sent to.")
async def test_f26_a_call_in_flight_ends_on_the_server_it_was_sent_to(config: Path) -> None:
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
    log, made = logging.getLogger("wicket_mcp"), list[Heard]()
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


@pytest.mark.promise("F26", "A broken file changes nothing.")
async def test_f26_a_served_gateway_follows_its_file_and_a_broken_one_changes_nothing(
    config: Path, hear: Callable[[str], Heard]
) -> None:
    write(config, {"x": peer("Echo")}, "[http]\nport = 0")
    broken, reloaded = hear("the old one stays in use"), hear("the configuration was reloaded")
    waits = hear("changes of http.port take effect when Wicket is started again")
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


async def test_what_needs_a_restart_is_named_and_stays(config: Path) -> None:
    config.write_text("[http]\nport = 0\n")
    async with Gateway.open(config) as gateway:
        old = gateway.config
        config.write_text('state_dir = "elsewhere"\n[http]\nhost = "127.0.0.2"\nport = 1\nmax_body = "1 MiB"\n')
        assert needing_restart(old, load(config)) == ["http.host", "http.port", "state_dir"]
        gateway.apply(load(config))
        assert (gateway.config.http.host, gateway.config.http.port, gateway.config.state_path) == (
            old.http.host,
            old.http.port,
            old.state_path,
        )
        assert gateway.config.http.max_body == 2**20


async def test_limits_hold_from_now_on(config: Path) -> None:
    write(config, {"x": peer("Echo")})
    async with Gateway.open(config) as gateway:
        agent = Speaker(gateway, "native")
        answer = await agent.text("call_tool", name="x.big", arguments={"rows": 100})
        assert "row 99" in answer
        assert await agent.text("run_script", code="return 1", language="lua") == "1"
        limits = "[limits]\nmax_call = 0.2\n[results]\nlarge = 100\n[scripts]\ncalls = 1"
        write(config, {"x": peer("Echo")}, limits)
        gateway.apply(load(config))
        answer = await agent.text("call_tool", name="x.big", arguments={"rows": 100})
        assert "read_result" in answer
        twice = "x.echo({message = 'a'}) return x.echo({message = 'b'})"
        assert "limit of 1 tool calls" in await agent.problem("run_script", code=twice, language="lua")
        assert "limits.max_call" in await agent.problem("call_tool", name="x.slow", arguments={})


async def test_who_is_answered_over_http_changes_with_the_file(config: Path) -> None:
    write(config, {"x": peer("Echo")}, "[http]\nport = 0")
    async with Gateway.open(config) as gateway, serve_http(gateway) as address, raw_client(address) as client:
        assert (await client.modern("tools/list", Host="wicket.example"))[0] == 421
        write(config, {"x": peer("Echo")}, '[http]\nport = 0\nallowed_hosts = ["wicket.example"]\nmax_body = 300')
        gateway.apply(load(config))
        assert (await client.modern("tools/list", Host="wicket.example"))[0] == 200
        message = {"name": "call_tool", "arguments": {"name": "x.echo", "arguments": {"message": "m" * 300}}}
        assert (await client.modern("tools/call", message))[0] == 413


async def test_a_configuration_that_cannot_be_used_changes_nothing(config: Path) -> None:
    write(config, {"x": peer("Echo")}, "unprefixed = true")
    async with Gateway.open(config) as gateway:
        agent = Speaker(gateway, "flat")
        before = await agent.names()
        write(config, {"x": peer("Echo"), "y": peer("Echo")}, "unprefixed = true")
        with pytest.raises(ConfigError, match="one server, not 2"):
            gateway.apply(load(config))
        assert await agent.names() == before
        assert list(gateway.catalogue.servers) == ["x"]
        write(config, {"x": peer("Echo"), "y": peer("Echo")})
        gateway.apply(load(config))
        assert {"x__echo", "y__echo"} <= set(await agent.names())


async def test_options_of_rooms_that_are_not_open_are_checked_before_anything_changes(config: Path) -> None:
    write(config, {"x": peer("Echo")})
    async with Gateway.open(config) as gateway:
        for wrong in ('resolvers = ["no address"]', 'allowed_addresses = ["10.0.0.0/99"]', "rates = { sleeping = 1 }"):
            write(config, {"y": peer("Echo")}, f"allow_runtime_servers = true\n[registry]\n{wrong}")
            with pytest.raises(ConfigError):
                gateway.apply(load(config))
            assert (list(gateway.catalogue.servers), gateway.config.allow_runtime_servers) == (["x"], False)


async def test_who_waits_for_a_server_that_is_replaced_gets_the_new_one(config: Path) -> None:
    write(config, {"x": peer("NeverAnswers", connect_timeout=60), "y": peer("Echo")})
    async with Gateway.open(config) as gateway, asyncio.TaskGroup() as group:
        listing = group.create_task(gateway.tools())
        calling = group.create_task(gateway.call("x.echo", {"message": "new"}))
        while gateway.pool.state("x")[0] is not State.STARTING:
            await asyncio.sleep(0)
        write(config, {"x": peer("Echo"), "y": peer("Echo")})
        gateway.apply(load(config))
        assert {tool.server for tool in await listing} == {"x", "y"}
        assert (await calling)["content"][0]["text"] == "new"


async def test_a_server_that_is_to_start_at_once_now_does(config: Path) -> None:
    write(config, {"x": peer("Echo")})
    async with Gateway.open(config) as gateway:
        write(config, {"x": peer("Echo", start="eager")})
        gateway.apply(load(config))
        while gateway.pool.state("x")[0] is not State.READY:
            await asyncio.sleep(0)


async def test_new_addresses_are_told_to_those_who_list_resources_and_prompts(config: Path) -> None:
    write(config, {"x": peer("Echo")})
    async with Gateway.open(config) as gateway:
        told: asyncio.Future[Changes] = asyncio.get_running_loop().create_future()
        gateway.feed.subscribe(told.set_result)
        write(config, {"x": peer("Echo")}, "unprefixed = true")
        gateway.apply(load(config))
        changes = await told
        assert changes.kinds == {"groups", "menu", "tools", "resources", "prompts"}
        assert [*gateway.protocol().changed_lists(changes, LOCAL)] == ["groups", "prompts", "resources", "tools"]
        native = gateway.protocol("native").changed_lists(changes, LOCAL)
        assert [*native] == ["groups", "prompts", "resources"], "tools stay"


async def test_a_file_that_is_gone_is_missed_in_the_log_only(config: Path, hear: Callable[[str], Heard]) -> None:
    write(config, {"x": peer("Echo")}, "[http]\nport = 0")
    gone = hear("was deleted; the configuration that was read from it stays in use")
    async with Gateway.open(config) as gateway, serve_http(gateway):
        config.unlink()
        await gone.wait()
        assert await pid(gateway, "x")


async def test_a_change_between_start_and_serving_is_not_lost(config: Path, hear: Callable[[str], Heard]) -> None:
    write(config, {"x": peer("Echo")}, "[http]\nport = 0")
    async with Gateway.open(config) as gateway:
        write(config, {"y": peer("Echo")}, "[http]\nport = 0")
        reloaded = hear("the configuration was reloaded")
        async with serve_http(gateway):
            await reloaded.wait()
            assert list(gateway.catalogue.servers) == ["y"]


async def test_a_client_hears_of_another_dialect_and_of_new_favourites(tmp_path: Path) -> None:
    servers = {"x": peer("Echo")}
    command = await Command.start(tmp_path, servers)
    assert (await command.initialize())["capabilities"]["tools"] == {"listChanged": True}
    assert "find_tools" in await names(command)

    async def told_of(*expected: str) -> None:
        """Each time that the list changed it is read; sooner or later it is the expected one."""
        while (await command.receive()).get("method") != "notifications/tools/list_changed" or (
            await names(command)
        ) != list(expected):
            pass

    (tmp_path / "wicket.toml").write_text(f'dialects = ["broker"]\n{toml_of(servers)}')
    await told_of("broker_search", "broker_invoke")
    (tmp_path / "tools.overrides.json").write_text('{"overrides": [{"name": "say", "server": "x", "tool": "echo"}]}')
    await told_of("broker_search", "broker_invoke", "say")
    assert (await command.call("say", {"message": "by its name"}))["content"][0]["text"] == "by its name"
    (tmp_path / "tools.overrides.json").unlink()
    await told_of("broker_search", "broker_invoke")
    assert await command.finish() == 0


async def names(command: Command) -> list[str]:
    return [tool["name"] for tool in (await command.ask("tools/list"))["result"]["tools"]]
