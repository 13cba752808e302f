"""The contract of `contract.py`, for every store there is."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.store.contract import *  # noqa: F403  (the tests themselves)
from tests.store.contract import OpenAnother
from wicket_mcp.store.base import Store
from wicket_mcp.store.open import open_store

STORES = ["sqlite", "postgres"]


@pytest.fixture(params=STORES)
async def open_another(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[OpenAnother]:
    location: Path | str = tmp_path / "state" / "wicket.db"
    if request.param == "postgres":
        location = request.getfixturevalue("postgres").database()
    async with AsyncExitStack() as opened:

        async def open_again() -> Store:
            store = await open_store(location)
            opened.push_async_callback(store.close)
            return store

        yield open_again
