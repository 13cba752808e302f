"""Every cell of the matrix, one test each: pytest tests/eras -k "elicitation and modern-legacy"."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio

from tests.eras.cells import CELLS
from tests.eras.house import Kept, Line, line, upstream
from tests.eras.table import FEATURES, LINKS, Dialect, tries

pytestmark = pytest.mark.asyncio(loop_scope="module")
LIMIT = 30
"""Seconds in which a cell must be done, on a machine that does other things too."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def up(request: pytest.FixtureRequest) -> AsyncGenerator[Line]:
    async with Kept(line(request.param, upstream(request.param))) as found:
        yield found


@pytest.mark.parametrize("up", LINKS, ids=str, indirect=True, scope="module")
@pytest.mark.parametrize(("feature", "via"), tries(FEATURES))
@pytest.mark.promise("F32", "Every feature works in every combination of the eras.")
async def test_f32_cell(up: Line, feature: str, via: Dialect) -> None:
    up.chair.forget()
    async with asyncio.timeout(LIMIT):
        await CELLS[feature](up, via)
