"""Limits in Redis: shared by all who use it, counted by its clock, and a share for each while it is away."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import redis

from tests.peers.ports import free_port
from tests.peers.redis import RedisServer
from wicket_mcp.config.model.config import Config
from wicket_mcp.errors import ConfigError
from wicket_mcp.store.open import open_state
from wicket_mcp.store.redis import RedisLimits

NOW = 1_800_000_000.0
HOUR = 3600.0


@pytest.fixture
async def server() -> AsyncGenerator[RedisServer]:
    with RedisServer() as server:
        yield server


async def test_replicas_share_a_bucket_whatever_their_clocks_say(server: RedisServer) -> None:
    limits = [await RedisLimits.open(server.address) for _ in range(3)]
    waits = [await each.take("ann", "a", 2, NOW + 300 * number) for number, each in enumerate(limits)]
    assert waits[:2] == [0.0, 0.0]
    assert 1700 < waits[2] <= 1800
    assert await limits[0].take("bob", "a", 2, NOW) == await limits[1].take("ann", "b", 2, NOW) == 0.0
    for each in limits:
        await each.close()


async def test_many_at_once_get_no_more_than_there_is(server: RedisServer) -> None:
    limits = [await RedisLimits.open(server.address) for _ in range(3)]
    waits = await asyncio.gather(*(limits[n % 3].take("ann", "a", 10, NOW) for n in range(40)))
    assert waits.count(0.0) == 10
    for each in limits:
        await each.close()


async def test_a_bucket_can_owe_what_was_spent_with_redis_and_without(server: RedisServer) -> None:
    limits = [await RedisLimits.open(server.address) for _ in range(2)]
    assert await limits[0].draw("ann", "a", 3600, NOW, 0) == 0.0
    assert await limits[0].draw("ann", "a", 3600, NOW, 3000) == 0.0
    assert 2300 < await limits[1].draw("ann", "a", 3600, NOW, 3000) <= 2401
    assert 2300 < await limits[0].take("ann", "a", 3600, NOW) <= 2401
    server.stop()
    assert await limits[0].draw("ann", "a", 3600, NOW, 3000) == 0.0
    assert 2300 < await limits[0].draw("ann", "a", 3600, NOW, 3000) <= 2401
    assert 2300 < await limits[0].take("ann", "a", 3600, NOW) <= 2401
    for each in limits:
        await each.close()


@pytest.mark.promise("F20", "While Redis is away, each replica grants its share of a limit, and logs this.")
async def test_f20_without_redis_each_grants_its_share_and_says_so(
    server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    limits = await RedisLimits.open(server.address)
    limits.divide_by(lambda: 3)
    server.stop()
    waits = [await limits.take("ann", "a", 9, NOW) for _ in range(4)]
    assert [wait == 0.0 for wait in waits] == [True, True, True, False]
    assert "cannot be reached" in caplog.text
    assert "each replica applies its share" in caplog.text
    server.start()
    async with asyncio.timeout(10):
        while "can be reached again" not in caplog.text:
            await limits.take("bob", "a", 1000, NOW)
    assert await limits.take("ann", "a", 9, NOW) == 0.0
    await limits.close()


async def test_a_database_of_somebody_else_is_refused(server: RedisServer) -> None:
    with redis.Redis(port=server.port) as client:
        client.lpush("wicket:limits", "theirs")
    with pytest.raises(ConfigError, match=r"something else under 'wicket:limits'.*another database"):
        await RedisLimits.open(server.address)


async def test_a_server_that_takes_no_changes_and_a_database_that_is_not_there_are_named(server: RedisServer) -> None:
    with pytest.raises(ConfigError, match=r"cannot be used: DB index is out of range.*a database that it has"):
        await RedisLimits.open(f"redis://127.0.0.1:{server.port}/99")
    with RedisServer("--replicaof", "127.0.0.1", str(free_port())) as copy:
        with pytest.raises(ConfigError, match=r"cannot be used: .*read only replica.*takes changes"):
            await RedisLimits.open(copy.address)


async def test_a_wrong_address_says_what_is_wrong_and_one_that_is_away_is_survived(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with RedisServer("--requirepass", "right") as server:
        for wrong in (server.address, f"redis://:hunter2@127.0.0.1:{server.port}/0"):
            with pytest.raises(ConfigError, match="Check user and password") as caught:
                await RedisLimits.open(wrong)
            assert "hunter2" not in str(caught.value)
    for wrong in ("memcached://127.0.0.1", "redis:/:hunter2@127.0.0.1"):
        with pytest.raises(ConfigError, match="cannot be read") as caught:
            await RedisLimits.open(wrong)
        assert "hunter2" not in str(caught.value)
    limits = await RedisLimits.open(f"redis://127.0.0.1:{free_port()}/0")
    assert await limits.take("ann", "a", 2, NOW) == 0.0
    assert "cannot be reached" in caplog.text
    await limits.close()


async def test_the_configuration_chooses_where_limits_are_counted(server: RedisServer, tmp_path: Path) -> None:
    stores = [
        await open_state(Config.from_dict({"state_dir": str(tmp_path / name), "shared_limits": server.address}))
        for name in ("a", "b")
    ]
    assert [await store.take("ann", "a", 2, NOW) == 0.0 for store in (*stores, stores[0])] == [True, True, False]
    for store in stores:
        await store.close()
