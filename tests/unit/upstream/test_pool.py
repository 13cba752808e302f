"""Which requests share an upstream, how many there may be, and what is kept for those that do not run."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.unit.upstream.scripted import ScriptedServer, turns
from wicket_mcp.config.model.config import Config, ServerConfig
from wicket_mcp.errors import Overloaded, Refused
from wicket_mcp.model import LOCAL, MODERN_VERSION, Principal
from wicket_mcp.upstream import pool as pools
from wicket_mcp.upstream.era import Greeting
from wicket_mcp.upstream.events import UpstreamEvent
from wicket_mcp.upstream.key import Key
from wicket_mcp.upstream.lifecycle import State
from wicket_mcp.upstream.pool import Pool, key_of

LIMITS: dict[str, Any] = {"max_message": 2**20, "max_call": 30.0}
WATCHED = "file:///a"


def server_config(**options: Any) -> ServerConfig:
    return Config.from_dict({"servers": {"x": {"command": "scripted", **options}}}).servers[0]


@asynccontextmanager
async def pool_of(server: ScriptedServer, **options: Any) -> AsyncGenerator[Pool]:
    def ignore(event: UpstreamEvent) -> None:
        """Nobody listens."""

    pool = Pool([server_config(**options)], on_event=ignore, opener=server.open, **LIMITS)
    try:
        yield pool
    finally:
        await pool.close()


def user(number: int) -> Principal:
    return Principal(f"key {number}", frozenset({"invoke"}))


def test_a_key_is_the_sessions_own_where_the_server_is_isolated() -> None:
    assert key_of(server_config(), LOCAL, "s") == key_of(server_config(), user(1), "t") == Key("x", "")
    assert key_of(server_config(isolation="session"), LOCAL, "s") == Key("x", "s")


@pytest.mark.promise("D9", "Clients that have left do not count against the limit of an isolated server.")
async def test_d9_more_keys_than_the_limit_may_use_an_isolated_server_one_after_the_other() -> None:
    """B5: an upstream that was stopped for idleness is removed, and does not count."""
    server = ScriptedServer()
    async with pool_of(server, isolation="session", idle_stop=0.01) as pool:
        for number in range(pools.SESSIONS_PER_SERVER + 1):
            await pool.request("x", "ping", {}, session=f"modern key {number}", principal=user(number))
            if len(pool) == pools.SESSIONS_PER_SERVER:
                while len(pool):
                    await asyncio.sleep(0)
        assert len(server.connections) == pools.SESSIONS_PER_SERVER + 1
        while len(pool):
            await asyncio.sleep(0)
        assert pool.state("x") == (State.IDLE, "")


async def test_those_that_run_are_limited_for_a_server_and_for_each_principal() -> None:
    server = ScriptedServer()
    async with pool_of(server, isolation="session") as pool:
        for number in range(pools.SESSIONS_PER_PRINCIPAL):
            await pool.start("x", f"ann {number}", user(1))
        with pytest.raises(Overloaded, match="32 client sessions of 'key 1'"):
            await pool.start("x", "one too many", user(1))
        for number in range(pools.SESSIONS_PER_SERVER - pools.SESSIONS_PER_PRINCIPAL):
            await pool.start("x", f"bob {number}", user(2))
        with pytest.raises(Overloaded, match="already runs for 64 client sessions"):
            await pool.start("x", "one too many", user(3))
        await pool.start("x", "ann 0", user(1))
        await pool.close_session("bob 0")
        await pool.start("x", "carol", user(3))


async def test_one_that_failed_does_not_count_once_its_pause_is_over() -> None:
    server = ScriptedServer()
    async with pool_of(server, isolation="session") as pool:
        await pool.start("x", "ann", user(1))
        server.connections[0].die()
        assert (len(pool), pool.state("x")[0]) == (1, State.WAITING)
        while len(pool):  # until its pause, of half a second at most, is over
            await pool.start("x", "bob", user(2))
            await pool.close_session("bob")


async def test_a_shared_one_stays_known_when_it_is_stopped() -> None:
    server = ScriptedServer()
    async with pool_of(server, idle_stop=0.01) as pool:
        await pool.start("x")
        while pool.state("x")[0] is not State.IDLE:
            await asyncio.sleep(0)
        assert len(pool) == 1


async def test_what_nobody_watches_any_more_is_not_subscribed_to_by_the_next_connection() -> None:
    """B21: `unwatch` counts also while there is no upstream to tell."""
    server = ScriptedServer()
    async with pool_of(server, isolation="session", idle_stop=0.01) as pool:
        await pool.watch("x", WATCHED, session="ann")
        while len(pool):
            await asyncio.sleep(0)
        pool.unwatch("x", WATCHED, session="ann")
        await pool.start("x", "ann")
        await turns()
        assert server.connections[-1].log == []


async def test_what_is_still_watched_is_subscribed_to_by_the_next_connection() -> None:
    server = ScriptedServer()
    async with pool_of(server, isolation="session", idle_stop=0.01) as pool:
        await pool.watch("x", WATCHED, session="ann")
        while len(pool):
            await asyncio.sleep(0)
        await pool.start("x", "ann")
        await turns()
        assert server.connections[-1].log == [("resources/subscribe", WATCHED)]


async def test_a_new_connection_subscribes_to_all_that_is_not_refused_now() -> None:
    server = ScriptedServer(greeting=Greeting(MODERN_VERSION))
    async with pool_of(server) as pool:
        for name in "abcd":
            await pool.watch("x", name)
        assert server.connections[-1].listening == ["a", "b", "c", "d"]
        for refused, accepted in (("bd", ["a", "c"]), ("abcd", []), ("", ["a", "b", "c", "d"])):
            server.refuses = frozenset(refused)
            await pool.stop("x")
            await pool.start("x")
            await turns()
            assert server.connections[-1].listening == accepted
        server.refuses = frozenset("b")
        await pool.stop("x")
        await pool.start("x")
        pool.unwatch("x", "a")
        with pytest.raises(Refused):
            await pool.watch("x", "b", principal=user(1))
        await pool.watch("x", "e")
        await turns()
        assert server.connections[-1].listening == ["c", "d", "e"]


async def test_a_session_that_ends_after_its_server_was_replaced_watches_nothing_any_more() -> None:
    """B21: what a session watched ends with it, whether its upstream still exists or was swapped."""
    server = ScriptedServer()
    async with pool_of(server, isolation="session") as pool:
        await pool.watch("x", WATCHED, session="ann")
        [old] = pool.swap([server_config(isolation="session", args=["new"])], **LIMITS)
        await old.close()
        await pool.close_session("ann")
        await pool.start("x", "ann")
        await turns()
        assert server.connections[-1].log == []


async def test_unwatching_counts_also_between_a_replaced_server_and_the_next() -> None:
    """B21: there is no upstream at that moment, and the next one must not subscribe for nobody."""
    server = ScriptedServer()
    async with pool_of(server) as pool:
        await pool.watch("x", WATCHED)
        assert server.connections[0].log == [("resources/subscribe", WATCHED)], "once"
        [old] = pool.swap([server_config(args=["new"])], **LIMITS)
        await old.close()
        pool.unwatch("x", WATCHED)
        await pool.start("x")
        await turns()
        assert server.connections[-1].log == []


async def test_watches_follow_a_server_that_becomes_shared() -> None:
    server = ScriptedServer()
    async with pool_of(server, isolation="session") as pool:
        await pool.watch("x", WATCHED, session="ann")
        await pool.watch("x", WATCHED, session="bob")
        for old in pool.swap([server_config()], **LIMITS):
            await old.close()
        await pool.start("x")
        await turns()
        shared = server.connections[-1]
        assert shared.log == [("resources/subscribe", WATCHED)]
        pool.unwatch("x", WATCHED, session="ann")
        await turns()
        assert len(shared.log) == 1, "bob still watches"
        pool.unwatch("x", WATCHED, session="bob")
        await turns()
        assert shared.log[1:] == [("resources/unsubscribe", WATCHED)]


async def test_an_upstream_that_is_reached_as_before_goes_on_under_the_new_limits() -> None:
    server = ScriptedServer()
    async with pool_of(server) as pool:
        await pool.start("x")
        assert pool.swap([server_config(description="new words")], max_message=1, max_call=1.0) == []
        await pool.request("x", "ping", {})
        assert len(server.connections) == 1
