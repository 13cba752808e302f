"""Which era an upstream speaks, however late it says so, and what of its greeting is kept."""

import asyncio
from collections.abc import Callable

import pytest
from tests.peers.recording_host import RecordingHost
from tests.unit.upstream.scripted import Asked, ScriptedConnection, turns

from wicket_mcp.errors import Refused
from wicket_mcp.model import LATEST_LEGACY_VERSION, META_SERVER_INFO, MODERN_VERSION, JsonObject
from wicket_mcp.tasks import Tasks
from wicket_mcp.upstream import era
from wicket_mcp.upstream.era import Greeting, negotiate

INFO: JsonObject = {"name": "Ada's server", "version": "3"}
MODERN: JsonObject = {"supportedVersions": [MODERN_VERSION], "capabilities": {"tools": {}}}
LEGACY: JsonObject = {"protocolVersion": LATEST_LEGACY_VERSION, "capabilities": {"tools": {}}}
NO = Refused("x", {"code": -32601, "message": "Method not found"})


class Negotiation:
    """A handshake with an upstream whose answers the test gives."""

    def __init__(self) -> None:
        self._connection = ScriptedConnection(RecordingHost(), silent=True)
        self._connection.may_close.set()
        self._running = Tasks().start(self._negotiate(), "negotiate", awaited=True)

    async def _negotiate(self) -> Greeting:
        return (await negotiate(self._connection, "x")).greeting

    async def asked(self, method: str) -> Asked:
        async with asyncio.timeout(20):
            request = await self._connection.received.get()
        assert request.method == method
        return request

    async def greeting(self) -> Greeting:
        async with asyncio.timeout(20):
            return await self._running


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(era, "SILENCE", 0.0)


async def test_a_modern_server_may_answer_later_than_it_refuses_the_handshake() -> None:
    both = Negotiation()
    discover, initialize = await both.asked("server/discover"), await both.asked("initialize")
    initialize.reply.set_exception(NO)
    await turns()
    discover.reply.set_result(MODERN)
    greeting = await both.greeting()
    assert (greeting.protocol_version, greeting.modern) == (MODERN_VERSION, True)


async def test_a_server_that_refuses_both_is_refused() -> None:
    both = Negotiation()
    discover, initialize = await both.asked("server/discover"), await both.asked("initialize")
    initialize.reply.set_exception(NO)
    discover.reply.set_exception(NO)
    with pytest.raises(Refused, match="Method not found"):
        await both.greeting()


def give_legacy(discover: Asked, initialize: Asked, answer: JsonObject) -> None:
    discover.reply.set_exception(NO)
    initialize.reply.set_result({**LEGACY, **answer})


def give_modern(discover: Asked, initialize: Asked, answer: JsonObject) -> None:
    discover.reply.set_result({**MODERN, **answer})


@pytest.mark.parametrize(
    ("give", "is_modern", "answer", "info", "fields"),
    [
        (give_legacy, False, {"serverInfo": INFO}, INFO, {}),
        (give_legacy, False, {"mine": 1}, {}, {"mine": 1}),
        (give_legacy, False, {"_meta": {"vendor/a": 1}}, {}, {"_meta": {"vendor/a": 1}}),
        (give_modern, True, {"_meta": {META_SERVER_INFO: INFO}}, INFO, {}),
        (give_modern, True, {"serverInfo": INFO, "mine": 1}, INFO, {"mine": 1}),
        (
            give_modern,
            True,
            {"_meta": {META_SERVER_INFO: INFO, "vendor/a": 1}, "mine": 1},
            INFO,
            {"mine": 1, "_meta": {"vendor/a": 1}},
        ),
    ],
)
async def test_a_greeting_keeps_who_the_server_is_and_fields_that_nobody_knows(
    give: Callable[[Asked, Asked, JsonObject], None],
    is_modern: bool,
    answer: JsonObject,
    info: JsonObject,
    fields: JsonObject,
) -> None:
    both = Negotiation()
    give(await both.asked("server/discover"), await both.asked("initialize"), answer)
    greeting = await both.greeting()
    assert (greeting.modern, greeting.server_info, greeting.fields) == (is_modern, info, fields)
