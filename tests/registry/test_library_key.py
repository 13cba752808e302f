"""The library under an API key: it speaks for whom the key belongs to, with that key's scopes and limits."""

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import peer
from wicket_mcp import Gateway
from wicket_mcp.errors import AmbiguousName, ConfigError, Denied, RateLimited, UnknownName
from wicket_mcp.model import LOCAL

ECHO = {"message": "hi"}


@pytest.fixture
def config(tmp_path: Path) -> dict[str, Any]:
    return {"servers": {"echo": peer("Echo")}, "state_dir": str(tmp_path / "state")}


async def key(config: dict[str, Any], *scopes: str, **rates: int) -> str:
    async with Gateway.open(config) as gateway:
        return (await gateway.registry.keys.create("ann", scopes, rates=rates))[0]


async def test_calls_are_made_in_the_name_of_the_key(config: dict[str, Any]) -> None:
    ann = await key(config, "discover", "invoke")
    async with Gateway.open(config, api_key=ann) as gateway:
        assert (await gateway.search("echo"))[0].tool.key == "echo.echo"
        await gateway.call("echo.echo", ECHO)
        assert [one.tool for one in await gateway.store.recent_calls(gateway.principal, 5)] == ["echo"]
        assert await gateway.store.recent_calls(LOCAL, 5) == []


async def test_its_scopes_hold(config: dict[str, Any]) -> None:
    ann = await key(config, "discover")
    async with Gateway.open(config, api_key=ann) as gateway:
        assert len(await gateway.servers()) == 1
        assert await gateway.tools("echo")
        with pytest.raises(Denied, match="scope 'invoke'"):
            await gateway.call("echo.echo", ECHO)
    async with Gateway.open(config) as gateway:
        await gateway.registry.keys.revoke("ann")
    bob = await key(config, "invoke")
    async with Gateway.open(config, api_key=bob) as gateway:
        await gateway.call("echo.echo", ECHO)
        for asked in (gateway.servers(), gateway.tools(), gateway.search("echo")):
            with pytest.raises(Denied, match="scope 'discover'"):
                await asked


async def test_without_invoke_no_server_is_started_for_a_name(config: dict[str, Any]) -> None:
    ann = await key(config, "discover")
    async with Gateway.open(config, api_key=ann) as gateway:
        for name in ("echo.echo", "nowhere.echo"):
            with pytest.raises(Denied, match="scope 'invoke'"):
                await gateway.call(name, ECHO)
        assert not gateway.catalogue.now.listings


async def test_without_discover_a_wrong_name_tells_nothing_of_the_right_ones(config: dict[str, Any]) -> None:
    ann = await key(config, "invoke")
    config["servers"]["other"] = peer("Echo")
    async with Gateway.open(config, api_key=ann) as gateway:
        with pytest.raises(UnknownName) as caught:
            await gateway.call("echo.ecoh", ECHO)
        assert caught.value.near == ()
        assert "echo.echo" not in str(caught.value)
        await gateway.call("other.echo", ECHO)
        with pytest.raises(AmbiguousName) as several:
            await gateway.call("echo", ECHO)
        assert several.value.candidates == ()
        assert "other" not in str(several.value)


async def test_its_limits_hold(config: dict[str, Any]) -> None:
    ann = await key(config, "invoke", invocation=1)
    async with Gateway.open(config, api_key=ann) as gateway:
        await gateway.call("echo.echo", ECHO)
    async with Gateway.open(config, api_key=ann) as gateway:
        with pytest.raises(RateLimited, match="1 invocation requests an hour"):
            await gateway.call("echo.echo", ECHO)


async def test_a_key_that_is_none_opens_nothing(config: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="Authentication failed"):
        async with Gateway.open(config, api_key="wk_wrong"):
            pass
