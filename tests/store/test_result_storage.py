"""Results that the store did not take: kept in memory, and brought to it when it takes some again."""

import time
from pathlib import Path

import pytest

from tests.store.test_sqlite import HOLDS_THE_WRITE_LOCK, answer, child
from wicket_mcp.model import LOCAL
from wicket_mcp.results.storage import ResultStorage
from wicket_mcp.store.model import StoredResult
from wicket_mcp.store.open import open_store

ROOM = 1_000_000


def result(handle: str) -> StoredResult:
    return StoredResult(handle, LOCAL.name, "x.echo", b'{"content":[]}', time.time() + 60)


@pytest.mark.promise("F18", "A result that waited in memory is stored when the state can be written again.")
async def test_f18_what_waited_in_memory_is_stored_when_the_state_can_be_written_again(tmp_path: Path) -> None:
    path = tmp_path / "wicket.db"
    store = await open_store(path)
    storage = ResultStorage(store)
    early, late = result("early"), result("late")
    async with child("-c", HOLDS_THE_WRITE_LOCK, str(path)) as holder:
        assert await answer(holder) == "held"
        assert not await storage.save(early, ROOM)
        assert await storage.load("early", LOCAL) == early
        assert await store.load_result("early", LOCAL) is None
    assert await storage.save(late, ROOM)
    assert repr(storage) == "<ResultStorage 0 in memory>"
    assert [await store.load_result(handle, LOCAL) for handle in ("early", "late")] == [early, late]
    await store.close()
