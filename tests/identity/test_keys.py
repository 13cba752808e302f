"""API keys while the store cannot be read: who was valid stays valid, and who was revoked stays out."""

import asyncio
from collections.abc import Generator
from contextlib import AsyncExitStack, suppress

import pytest

from tests.peers.postgres import Postgres
from tests.registry.conftest import Clock
from tests.store.contract import changed
from wicket_mcp.errors import Internal
from wicket_mcp.identity.keys import Keys
from wicket_mcp.store.base import Store
from wicket_mcp.store.open import open_store


@pytest.fixture
def own_server() -> Generator[Postgres]:
    """A server that a test may stop."""
    with Postgres() as server:
        yield server


async def is_noticed(store: Store) -> None:
    """Return once the store knows that its server is away: until then, what was read is still current."""
    async with asyncio.timeout(20):
        while store.keys_version() is not None:
            with suppress(Internal):
                await store.load_note("something to wait for")


async def test_a_revoked_key_stays_out_while_the_store_is_away_and_a_valid_one_stays_in(own_server: Postgres) -> None:
    address, clock = own_server.database(), Clock()
    async with AsyncExitStack() as opened:
        store, elsewhere = await open_store(address), await open_store(address)
        for each in (store, elsewhere):
            opened.push_async_callback(each.close)
        keys, others = Keys(store, {}, clock), Keys(elsewhere, {}, clock)
        texts = {name: (await keys.create(name, ["invoke"]))[0] for name in ("ann", "bob", "unseen")}
        passing, _ = await keys.create("passing", ["invoke"], lifetime=3600)
        for text in (texts["ann"], texts["bob"], passing):
            assert await keys.principal(text)
        before = store.keys_version()
        await others.revoke("bob")
        await changed(store, store.keys_version, before)
        assert await keys.principal(texts["bob"]) is None
        await asyncio.to_thread(own_server.stop)
        await is_noticed(store)
        valid = await keys.principal(texts["ann"])
        assert valid is not None
        assert (valid.name, valid.scopes) == ("ann", {"invoke"})
        for text in (texts["bob"], texts["unseen"]):
            with pytest.raises(Internal, match="could not be used"):
                await keys.principal(text)
        assert await keys.principal(passing)
        clock.pass_hours(1)
        assert await keys.principal(passing) is None
        await asyncio.to_thread(own_server.start)
        assert await keys.principal(texts["bob"]) is None
