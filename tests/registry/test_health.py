"""Health is measured: from calls and probes, by a formula that is written down."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import ClassVar

import pytest

from tests.conftest import OpenGateway, peer
from tests.peers.http_faults import Received, Says
from tests.registry.conftest import Clock, OpenFacade
from tests.registry.greets import Greets
from wicket_mcp.errors import WicketError
from wicket_mcp.model import LOCAL
from wicket_mcp.registry.health import UNKNOWN, summarise
from wicket_mcp.registry.probes import AT_ONCE
from wicket_mcp.store.model import Observation


def seen(*outcomes: str, every: float = 60.0, duration: float = 100.0) -> Sequence[Observation]:
    """Observations from a word for each: `ok`, `down`, or `error` for a JSON-RPC error."""
    return [
        Observation(1000 + number * every, outcome != "down", outcome != "ok", duration)
        for number, outcome in enumerate(outcomes)
    ]


def test_nothing_seen_is_unknown_and_has_no_numbers() -> None:
    assert summarise([]) == UNKNOWN


def test_a_server_that_always_answers_quickly_has_the_full_score() -> None:
    found = summarise(seen(*["ok"] * 10))
    assert (found.status, found.score, found.uptime, found.error_rate, found.response_time) == (
        *("healthy", 100, 100, 0, 100),
    )


def test_the_score_is_the_formula() -> None:
    found = summarise(seen("ok", "ok", "ok", "down", "error"))
    assert (found.uptime, found.error_rate) == (80, 40)
    assert found.score == round(100 * (0.5 * 0.8 + 0.3 * 0.6 + 0.2 * 1))
    assert found.status == "degraded"


@pytest.mark.parametrize(("milliseconds", "score"), [(1, 100), (500, 100), (2236, 90), (10_000, 80), (60_000, 80)])
def test_slowness_costs_up_to_a_fifth(milliseconds: float, score: int) -> None:
    assert summarise(seen("ok", duration=milliseconds)).score == score


def test_three_failures_in_a_row_are_unhealthy_whatever_was_before() -> None:
    assert summarise(seen(*["ok"] * 100, "down", "down")).status == "degraded"
    assert summarise(seen(*["ok"] * 100, "down", "down", "down")).status == "unhealthy"
    assert summarise(seen(*["ok"] * 100, "down", "down", "down", "ok")).status == "healthy"


def test_a_minute_with_one_success_is_a_minute_up() -> None:
    found = summarise(seen("down", "down", "ok", every=1))
    assert found.uptime == 100
    assert found.error_rate == pytest.approx(66.7)


def test_the_response_time_is_the_median_of_what_succeeded() -> None:
    observations = [Observation(60.0 * n, True, False, d) for n, d in enumerate((10, 20, 900))]
    slow_failure = Observation(500.0, False, True, 99_999)
    assert summarise([*observations, slow_failure]).response_time == 20


async def test_calls_count_but_not_those_that_say_nothing_of_the_server(open_gateway: OpenGateway) -> None:
    async with open_gateway({"echo": peer("Echo"), "dead": peer("ExitsAtOnce")}) as gateway:
        await gateway.call("echo.echo", {"message": "hi"})
        await gateway.call("echo.fails")
        with pytest.raises(WicketError):
            await gateway.call("echo.refuses")
        with pytest.raises(WicketError):
            await gateway.call("echo.echo", {"wrong": 1})
        (echo,) = await gateway.registry.measure("echo", 1, LOCAL)
        assert echo.main.observations == 3, "arguments that never reached it are no observation"
        assert echo.main.uptime == 100
        assert echo.main.error_rate == pytest.approx(33.3)


async def test_only_servers_in_use_or_watched_are_probed_and_none_is_started_for_it(open_gateway: OpenGateway) -> None:
    async with open_gateway({"used": peer("Echo"), "watched": peer("Echo"), "idle": peer("Echo")}) as gateway:
        facade = gateway.registry
        assert await facade.probes.round() == set()
        await gateway.call("used.echo", {"message": "hi"})
        await facade.measure("watched", 1, LOCAL)
        assert await facade.probes.round() == {"used"}
        assert str(gateway.pool.state("watched")[0]) == "idle"
        (used,) = await facade.measure("used", 1, LOCAL)
        assert used.main.observations == 2


async def test_probes_see_a_modern_server_and_a_dead_one(open_gateway: OpenGateway) -> None:
    async with open_gateway({"modern": peer("Modern"), "dying": peer("DiesMidCall")}) as gateway:
        facade = gateway.registry
        await gateway.call("modern.echo", {"message": "hi"})
        assert await facade.probes.round() == {"modern"}
        assert (await facade.measure("modern", 1, LOCAL))[0].main.status == "healthy"


async def test_a_registered_address_that_is_watched_is_asked_there(open_facade: OpenFacade) -> None:
    facade = await open_facade(registry={"allowed_addresses": ["127.0.0.1"]})
    async with Greets() as well, Says(500, "text/plain", b"no") as ill:
        for name, server in (("well", well), ("ill", ill)):
            body = {"name": f"io.github.ann/{name}", "description": "A server", "version": "1.0.0"}
            remotes = [{"type": "streamable-http", "url": server.url}]
            await facade.registry.publish({**body, "remotes": remotes}, LOCAL)
            (before,) = await facade.measure(name, 1, LOCAL)
            assert before.main.status == "unknown"
        assert await facade.probes.round() == {"io.github.ann/well", "io.github.ann/ill"}
    (well_now,) = await facade.measure("well", 1, LOCAL)
    assert well_now.main.status == "healthy"
    (ill_now,) = await facade.measure("ill", 1, LOCAL)
    assert (ill_now.main.status, ill_now.main.score) == ("unhealthy", 0)


class Crowded(Greets):
    """Does not answer a probe before as many are under way, at all of its kind, as may be at once."""

    under_way: ClassVar[list[int]] = []
    full: ClassVar[asyncio.Event]

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        if request.rpc_method == "ping":
            self.under_way.append(self.under_way[-1] + 1 if self.under_way else 1)
            if self.under_way[-1] == AT_ONCE:
                self.full.set()
            await self.full.wait()
            self.under_way.append(self.under_way[-1] - 1)
        await super().answer(request, writer)


async def test_only_a_few_are_probed_at_the_same_time(open_facade: OpenFacade) -> None:
    facade = await open_facade(registry={"allowed_addresses": ["127.0.0.1"]})
    Crowded.full = asyncio.Event()
    async with AsyncExitStack() as stack:
        for number in range(2 * AT_ONCE):
            server = await stack.enter_async_context(Crowded())
            remotes = [{"type": "streamable-http", "url": server.url}]
            body = {"name": f"io.github.ann/s{number}", "description": "A server", "version": "1.0.0"}
            await facade.registry.publish({**body, "remotes": remotes}, LOCAL)
            await facade.measure(f"s{number}", 1, LOCAL)
        assert len(await facade.probes.round()) == 2 * AT_ONCE
    assert max(Crowded.under_way) == AT_ONCE


async def test_a_watch_ends_after_a_day_and_old_probes_are_dropped(open_facade: OpenFacade, clock: Clock) -> None:
    facade = await open_facade(registry={"allowed_addresses": ["127.0.0.1"]})
    async with Says(500, "text/plain", b"no") as ill:
        remotes = [{"type": "streamable-http", "url": ill.url}]
        body = {"name": "io.github.ann/ill", "description": "A server", "version": "1.0.0", "remotes": remotes}
        await facade.registry.publish(body, LOCAL)
        await facade.measure("ill", 1, LOCAL)
        assert await facade.probes.round() == {"io.github.ann/ill"}
        clock.pass_hours(25)
        assert await facade.probes.round() == set()
    clock.pass_hours(24 * 8)
    assert (await facade.health.measure("io.github.ann/ill"))["7d"] == UNKNOWN
