"""Every feature of both eras through three replicas, without stickiness: the cells of tests/eras behind HAProxy."""

import asyncio
import tempfile
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.cluster.house import replicas
from tests.eras.cells import CELLS
from tests.eras.chair import SERVER, seated
from tests.eras.house import DIALECTS, TIMEOUT, Kept, Line, upstream
from tests.eras.table import FEATURES, LINKS, Dialect, Link, tries
from tests.peers.postgres import Postgres

pytestmark = pytest.mark.asyncio(loop_scope="module")
LIMIT = 30
PASSING = ("call", "progress", "cancellation", "disconnect", "elicitation-form", "elicitation-rounds", "questions",
           "sampling", "logging", "pagination")  # fmt: skip
"""What needs several requests, or a way back, beside subscriptions. The rest cannot tell one replica from three."""
WITHOUT_SUBSCRIPTIONS = ("modern", "legacy")
"""With a legacy upstream each replica has its own session, a subscription belongs to a session, and a modern client is
at home at no replica.
"""
CHOSEN = sorted(
    (link for link in LINKS if link.near == "http" and link.far == "http"),
    key=lambda link: (link.client, link.upstream) == WITHOUT_SUBSCRIPTIONS,
)
"""The one without subscriptions last, so that a link has the same place in both tests, and is put up once for both."""


@asynccontextmanager
async def line(link: Link, postgres: Postgres) -> AsyncGenerator[Line]:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        shared = {"isolation": "session"} if link.upstream == "legacy" else {}
        config = {
            "connect_timeout": 30,
            "timeout": TIMEOUT,
            **shared,
            **await stack.enter_async_context(upstream(link)),
        }
        house = await stack.enter_async_context(
            replicas(folder, postgres.database(), {SERVER: config}, *DIALECTS, "--no-auth", options="unprefixed = true")
        )
        door = f"{house.address}/mcp"
        chair = await stack.enter_async_context(seated(door, link.client))
        yield Line(link, chair, door, stack)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def up(request: pytest.FixtureRequest, postgres: Postgres) -> AsyncGenerator[Line]:
    async with Kept(line(request.param, postgres)) as found:
        yield found


def ways(*features: str) -> Any:
    return [(feature, via) for feature, via in tries(FEATURES) if feature in features]


@pytest.mark.parametrize("up", CHOSEN, ids=str, indirect=True, scope="module")
@pytest.mark.parametrize(("feature", "via"), ways(*PASSING))
async def test_cell(up: Line, feature: str, via: Dialect) -> None:
    await _try(up, feature, via)


@pytest.mark.parametrize("up", CHOSEN[:-1], ids=str, indirect=True, scope="module")
@pytest.mark.parametrize(("feature", "via"), ways("subscription"))
async def test_subscription(up: Line, feature: str, via: Dialect) -> None:
    await _try(up, feature, via)


async def _try(up: Line, feature: str, via: Dialect) -> None:
    up.chair.forget()
    async with asyncio.timeout(LIMIT):
        await CELLS[feature](up, via)
