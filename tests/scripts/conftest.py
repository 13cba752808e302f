"""Fixtures for scripts: one engine per test, closed after it."""

from collections.abc import AsyncIterator

import pytest

from wicket_mcp.scripts import Scripts


@pytest.fixture
async def scripts() -> AsyncIterator[Scripts]:
    engine = Scripts()
    yield engine
    await engine.close()
