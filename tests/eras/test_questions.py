"""Whose question it is: an upstream that several clients share, and one that each has for itself."""

from collections.abc import Callable

import mcp_types as types
import pytest

from tests.conftest import OpenGateway
from tests.eras.cells import text
from tests.eras.chair import SERVER, Chair, Elicited, seated
from tests.eras.house import upstream
from tests.eras.table import Era, Link
from tests.eras.witness import witness
from tests.gateway.serving import serve_http
from wicket_mcp.tasks import Tasks

STDIO = Link("legacy", "legacy", "http", "stdio")
ERAS = pytest.mark.parametrize("era", ["legacy", "modern"])


def named(name: str) -> Callable[[Elicited], types.ElicitResult]:
    """A person who answers every question with this name."""
    return lambda _: types.ElicitResult(action="accept", content={"name": name})


async def ask(chair: Chair, message: str = "Name?") -> types.CallToolResult:
    return await chair.call("flat", "ask_form", {"message": message})


@ERAS
async def test_a_shared_server_with_two_calls_under_way_is_not_told_whom_it_asks(
    open_gateway: OpenGateway, era: Era
) -> None:
    tasks = Tasks()
    levels: dict[Era, list[str]] = {"legacy": ["error"], "modern": ["info", "error"]}
    async with upstream(STDIO) as server, open_gateway({SERVER: server}, unprefixed=True) as gateway:
        async with (
            serve_http(gateway, "flat", token=None) as address,
            seated(address, era) as busy,
            seated(address, era) as curious,
            witness() as seen,
        ):
            tasks.start(busy.call("flat", "hang", {"witness": seen.path}), "call")
            await seen.began()
            answer = await ask(curious)
            assert answer.is_error
            assert text(answer).startswith("the question was refused")
            assert "2 calls are under way" in text(answer)
            assert 'isolation = "session"' in text(answer)
            assert busy.asked == curious.asked == []
            await curious.call("flat", "log")
            assert busy.logs == curious.logs == [], "nor whose its log is"
            await tasks.close()
            assert await seen.ended() == "cancelled"
            assert text(await ask(curious)) == "accept: Ada", "alone again, it can be asked"
            await curious.call("flat", "log")
            assert [log.level for log in curious.logs] == levels[era]


async def test_a_server_with_a_connection_for_each_client_asks_the_right_one(open_gateway: OpenGateway) -> None:
    tasks = Tasks()
    async with upstream(STDIO) as server:
        async with open_gateway({SERVER: {**server, "isolation": "session"}}, unprefixed=True) as gateway:
            async with (
                serve_http(gateway, "flat", token=None) as address,
                seated(address, "legacy") as ann,
                seated(address, "legacy") as bob,
                witness() as seen,
            ):
                ann.answer, bob.answer = named("Ann"), named("Bob")
                tasks.start(ann.call("flat", "hang", {"witness": seen.path}), "call")
                await seen.began()
                assert text(await ask(bob)) == "accept: Bob"
                assert text(await ask(ann)) == "accept: Ann", "with a call of its own under way, too"
                assert (len(ann.asked), len(bob.asked)) == (1, 1)
                await tasks.close()


async def test_modern_clients_are_told_apart_by_who_they_are(open_gateway: OpenGateway) -> None:
    async with upstream(STDIO) as server:
        async with open_gateway({SERVER: {**server, "isolation": "session"}}, unprefixed=True) as gateway:
            keys = [(await gateway.registry.keys.create(name, ["invoke"]))[0] for name in ("ann", "bob")]
            tasks = Tasks()
            async with serve_http(gateway, "flat") as address:
                async with (
                    seated(address, "modern", token=keys[0]) as ann,
                    seated(address, "modern", token=keys[1]) as bob,
                    witness() as seen,
                ):
                    ann.answer, bob.answer = named("Ann"), named("Bob")
                    tasks.start(ann.call("flat", "hang", {"witness": seen.path}), "call")
                    await seen.began()
                    assert text(await ask(bob)) == "accept: Bob"
                    assert ann.asked == []
                    await tasks.close()
