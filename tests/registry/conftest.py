"""A registry over a state file of its own, a clock that the test turns, and a DNS server on loopback."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.peers.dns_server import Names
from wicket_mcp.calls.audit import Audit
from wicket_mcp.calls.cache import Cache
from wicket_mcp.calls.forward import Forward
from wicket_mcp.calls.limits import ServerBuckets
from wicket_mcp.calls.pipeline import Parts, Pipeline
from wicket_mcp.calls.task_ids import TaskIds
from wicket_mcp.catalog.addresses import Addresses
from wicket_mcp.catalog.catalogue import Catalogue
from wicket_mcp.config.model.config import Config, LimitsConfig
from wicket_mcp.identity.approver import Approver
from wicket_mcp.model import Principal
from wicket_mcp.registry.facade import RegistryFacade
from wicket_mcp.request import Request
from wicket_mcp.results.handles import Handles
from wicket_mcp.results.results import Results
from wicket_mcp.results.storage import ResultStorage
from wicket_mcp.sealing import Ring
from wicket_mcp.store.open import open_store
from wicket_mcp.upstream.events import UpstreamEvent
from wicket_mcp.upstream.pool import Pool


class Clock:
    """Time as the test wants it."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now

    def pass_hours(self, hours: float) -> None:
        self.now += hours * 3600


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def names() -> Iterator[Names]:
    with Names() as running:
        yield running


def ignore(event: UpstreamEvent) -> None:
    """What upstreams say unasked."""


OpenFacade = Callable[..., Awaitable[RegistryFacade]]


@pytest.fixture
async def open_facade(tmp_path: Path, clock: Clock) -> AsyncGenerator[OpenFacade]:
    """Makes a registry; all of one test share their state file, as after a restart."""
    async with AsyncExitStack() as opened:

        async def make(**options: object) -> RegistryFacade:
            config = Config.from_dict({"servers": {}, **options})
            store = await open_store(tmp_path / "state" / "wicket.db")
            opened.push_async_callback(store.close)
            pool = Pool((), on_event=ignore, max_message=2**20, max_call=30)
            opened.push_async_callback(pool.close)
            forward = Forward(pool)
            catalogue = Catalogue((), pool, forward, store, LimitsConfig())
            opened.push_async_callback(catalogue.close)

            async def admit(principal: Principal, kind: str) -> None:
                await facade.keys.take(principal, kind)

            async def give_back(principal: Principal, kind: str) -> None:
                await facade.keys.give_back(principal, kind)

            async def demand(request: Request) -> None:
                return None

            addresses, ring = Addresses(catalogue), Ring([bytes(32)])
            results = Results(ResultStorage(store), Handles(ring), config.results, lambda _principal, _tool: True)
            parts = Parts(
                catalogue,
                addresses,
                results,
                Audit(store.record_call),
                admit,
                give_back,
                Cache(),
                ServerBuckets(),
                Approver(store),
                demand,
                forward,
                forward,
                forward.set_log_level,
                TaskIds(ring),
            )
            facade = RegistryFacade(config, store, pool, catalogue, forward, lambda: Pipeline(parts).guard, clock)
            opened.push_async_callback(facade.close)
            return facade

        yield make
