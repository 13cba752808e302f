"""Sessions of legacy clients: whose they are, how many, and which one goes."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tests.conftest import OpenGateway
from wicket_mcp.errors import Overloaded
from wicket_mcp.model import Principal
from wicket_mcp.surface.exchange import Exchange
from wicket_mcp.surface.outbox import Counters
from wicket_mcp.surface.protocol import Protocol
from wicket_mcp.surface.sessions import IDLE_LIMIT, MAX_MISSED, HttpSession, Sessions

ANN = Principal("ann", frozenset({"invoke"}))
BOB = Principal("bob", frozenset({"invoke"}))


class World:
    """Sessions under a clock of their own."""

    def __init__(self, protocol: Protocol, most: int = 1000, most_per_principal: int = 100) -> None:
        self.now = 0.0
        self.protocol = protocol
        self.ended: list[str] = []
        self.sessions = Sessions(
            lambda number, _principal: self.ended.append(number),
            most=most,
            most_per_principal=most_per_principal,
            clock=lambda: self.now,
        )

    def open(self, principal: Principal) -> HttpSession:
        self.now += 1
        return self.sessions.open(principal, self.protocol, "/mcp", {})

    def knows(self, session: HttpSession) -> bool:
        return self.sessions.find(session.id, session.principal, self.protocol) is session


async def _nothing(*_: Any) -> Any:
    raise AssertionError("nothing is received or sent here")


def _busy(session: HttpSession) -> None:
    session.running[1] = Exchange(_nothing, Counters())


@pytest.fixture
async def protocol(open_gateway: OpenGateway) -> AsyncGenerator[Protocol]:
    async with open_gateway({}) as gateway:
        yield gateway.protocol()


@pytest.mark.promise("T23", "A client that opens too many sessions loses its own oldest one.")
async def test_t23_b18_whoever_opens_too_many_loses_its_own_oldest(protocol: Protocol) -> None:
    """B18: one key holder could end everybody's sessions with a thousand `initialize` requests."""
    world = World(protocol, most=10, most_per_principal=3)
    anns = [world.open(ANN) for _ in range(2)]
    bobs = [world.open(BOB) for _ in range(3)]
    world.now += 1
    assert world.knows(bobs[0])  # and so it is used later than the others
    more = [world.open(BOB) for _ in range(2)]
    assert world.ended == [bobs[1].id, bobs[2].id]
    assert all(map(world.knows, [*anns, bobs[0], *more]))
    world.sessions.end_all()


async def test_b18_a_session_with_calls_in_flight_stays(protocol: Protocol) -> None:
    world = World(protocol, most=10, most_per_principal=2)
    first, second = world.open(BOB), world.open(BOB)
    _busy(first)
    third = world.open(BOB)
    assert world.ended == [second.id]
    _busy(third)
    with pytest.raises(Overloaded, match="Too many sessions"):
        world.open(BOB)
    assert len(world.sessions) == 2
    world.open(ANN)
    world.sessions.end_all()


@pytest.mark.promise("V11", "A client cannot end another client's session by opening many.")
@pytest.mark.promise("D9", "Opening many sessions ends only one's own.")
async def test_v11_b18_d9_a_full_house_takes_nobody_elses_session(protocol: Protocol) -> None:
    world = World(protocol, most=3, most_per_principal=3)
    anns = [world.open(ANN) for _ in range(3)]
    with pytest.raises(Overloaded, match="Too many sessions"):
        world.open(BOB)
    assert all(map(world.knows, anns))
    world.open(ANN)
    assert world.ended == [anns[0].id]
    world.sessions.end_all()


async def test_an_open_stream_is_given_up_last(protocol: Protocol) -> None:
    world = World(protocol, most=10, most_per_principal=2)
    listening, quiet = world.open(ANN), world.open(ANN)
    listening.open_stream()
    world.open(ANN)
    assert world.ended == [quiet.id]
    world.sessions.end_all()


async def test_idle_sessions_end_and_busy_ones_do_not(protocol: Protocol) -> None:
    world = World(protocol)
    idle, busy, listening, used = (world.open(ANN) for _ in range(4))
    _busy(busy)
    listening.open_stream()
    world.now += IDLE_LIMIT - 1
    assert world.knows(used)
    world.now += 5
    world.sessions.end_idle()
    assert world.ended == [idle.id]
    assert len(world.sessions) == 3
    world.sessions.end_all()
    assert len(world.sessions) == 0


@pytest.mark.promise("T6", "Only its principal can use a session.")
async def test_t6_a_session_is_known_to_its_principal_alone(protocol: Protocol) -> None:
    world = World(protocol)
    session = world.open(ANN)
    assert world.knows(session)
    assert world.sessions.find(session.id, BOB, protocol) is None
    assert world.sessions.find("made up", ANN, protocol) is None
    unsubscribed: list[str] = []
    session.client.watching["file:///a"] = lambda: unsubscribed.append("file:///a")
    world.sessions.end(session)
    assert not world.knows(session)
    assert (world.ended, unsubscribed) == ([session.id], ["file:///a"])
    world.sessions.end(session)
    assert world.ended == [session.id], "it ends once"
    world.sessions.end_all()


async def test_news_waits_for_a_stream_once_of_each_kind_and_bounded(protocol: Protocol) -> None:
    session = World(protocol).open(ANN)
    changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    updates = [
        {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": f"x://{number}"}}
        for number in range(MAX_MISSED)
    ]
    for message in (changed, *updates, updates[-1], {"jsonrpc": "2.0", "method": "notifications/progress"}):
        session.post(message)
    assert session.counters.dropped == 1, "the oldest one"
    sent: list[bytes] = []

    async def send(event: Any) -> None:
        sent.append(event.get("body", b""))

    stream = session.open_stream()
    stream.end()
    await stream.run(send)
    text = b"".join(sent).decode()
    assert text.count("notifications/resources/updated") == MAX_MISSED
    assert "x://0" in text
    assert "progress" not in text
    assert "list_changed" not in text
    assert session.missed == {}


async def test_a_session_that_began_elsewhere_or_was_ended_for_room_counts_as_any_other(protocol: Protocol) -> None:
    world = World(protocol, most=10, most_per_principal=3)
    opened = [world.open(ANN) for _ in range(6)]
    for session in opened[:3]:
        world.now += 1
        world.sessions.adopt(session.id, ANN, protocol)
    assert len(world.sessions) == 3
    assert [session.id for session in world.sessions.list()] == [session.id for session in opened[:3]]
    for session in world.sessions.list():
        _busy(session)
    with pytest.raises(Overloaded):
        world.sessions.adopt("from elsewhere", ANN, protocol)
