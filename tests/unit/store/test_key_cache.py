"""Keys are read from the store once, until a key changes there."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from wicket_mcp.identity.keys import Keys
from wicket_mcp.store.model import StoredKey
from wicket_mcp.store.sql.store import SqlStore
from wicket_mcp.store.sqlite.connection import Connection


class CountingStore(SqlStore):
    """A real store that counts how often a key is read."""

    reads = 0

    async def key_of(self, digest: bytes) -> StoredKey | None:
        self.reads += 1
        return await super().key_of(digest)


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncGenerator[list[SqlStore]]:
    async with AsyncExitStack() as opened:
        stores: list[SqlStore] = []
        for kind in (CountingStore, SqlStore):
            stores.append(kind(await Connection.open(tmp_path / "wicket.db")))
            opened.push_async_callback(stores[-1].close)
        yield stores


async def test_a_key_is_read_once_until_somebody_changes_a_key(stores: list[SqlStore]) -> None:
    ours, theirs = stores
    assert isinstance(ours, CountingStore)
    keys = Keys(ours, {})
    text, _ = await keys.create("ann", ["discover"])
    await keys.principal(text)
    await ours.keys()  # its use is written by now
    ours.reads = 0
    for _ in range(5):
        assert (await keys.principal(text)) is not None
    await theirs.save_note("anything", "else")
    assert (await keys.principal(text)) is not None
    assert ours.reads == 0
    await Keys(theirs, {}).create("bob", ["discover"])
    assert (await keys.principal(text)) is not None
    assert ours.reads == 1


@pytest.mark.parametrize("where", [0, 1])
async def test_a_key_that_is_in_memory_ends_when_it_is_revoked(stores: list[SqlStore], where: int) -> None:
    keys = Keys(stores[0], {})
    text, _ = await keys.create("ann", ["discover"])
    for _ in range(3):
        assert (await keys.principal(text)) is not None
    await Keys(stores[where], {}).revoke("ann")
    assert await keys.principal(text) is None


async def test_an_unknown_key_is_asked_for_again(stores: list[SqlStore]) -> None:
    ours, theirs = stores
    text, _ = await Keys(theirs, {}).create("ann", ["discover"])
    assert await Keys(ours, {}).principal(f"{text}x") is None
    assert await Keys(ours, {}).principal(text) is not None
