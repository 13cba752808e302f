"""A published server of the legacy era behind Wicket: what works with our own upstream works with it."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio

from tests.eras import cells_everything
from tests.eras.house import Kept, Line, everything, line
from tests.eras.table import EVERYTHING, EVERYTHING_LINKS, Dialect, tries
from tests.eras.test_matrix import LIMIT

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.node]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def up(request: pytest.FixtureRequest) -> AsyncGenerator[Line]:
    async with Kept(line(request.param, everything(request.param))) as found:
        yield found


@pytest.mark.parametrize("up", EVERYTHING_LINKS, ids=str, indirect=True, scope="module")
@pytest.mark.parametrize(("feature", "via"), tries(EVERYTHING))
async def test_cell(up: Line, feature: str, via: Dialect) -> None:
    up.chair.forget()
    async with asyncio.timeout(LIMIT):
        await cells_everything.CELLS[feature](up, via)
