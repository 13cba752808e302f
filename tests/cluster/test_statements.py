"""What one member states to another about a principal is good for that member, that request and one use."""

from collections.abc import MutableMapping
from typing import Any

import pytest
from aiohttp import web

from tests.peers.ports import free_port
from wicket_mcp.cluster.members import Member
from wicket_mcp.cluster.relay import Relay
from wicket_mcp.cluster.statements import LIFETIME, Statements
from wicket_mcp.model import LOCAL, Principal
from wicket_mcp.sealing import Ring

KEY = b"k" * 32
BODY = b'{"jsonrpc":"2.0"}'
ANN = Principal("ann", frozenset({"invoke"}))


def member(name: str, now: list[float] | None = None) -> Statements:
    return Statements(Ring([KEY], (lambda: now[0]) if now else lambda: 0.0), name)


def test_a_statement_is_good_for_its_receiver_request_and_body() -> None:
    """W25: it was good for any receiver and any body."""
    sealed = member("a").make("b", ANN, "POST", "/mcp", BODY)
    receiver = member("b")
    assert receiver.admit(sealed, "POST", "/other") is None
    assert receiver.admit(sealed, "GET", "/mcp") is None
    assert member("c").admit(sealed, "POST", "/mcp") is None
    statement = receiver.admit(sealed, "POST", "/mcp")
    assert statement is not None
    assert statement.principal == ANN
    assert statement.fits(BODY)
    assert not statement.fits(b"")
    assert not statement.fits(BODY + b" ")


def test_a_statement_is_used_once_and_for_half_a_minute() -> None:
    """W25: it could be sent again for a minute."""
    now = [0.0]
    sender, receiver = member("a", now), member("b", now)
    sealed = sender.make("b", ANN, "POST", "/mcp", BODY)
    assert receiver.admit(sealed, "POST", "/mcp") is not None
    assert receiver.admit(sealed, "POST", "/mcp") is None
    same_again, late = (sender.make("b", ANN, "POST", "/mcp", BODY) for _ in range(2))
    assert receiver.admit(same_again, "POST", "/mcp") is not None
    now[0] = LIFETIME + 1
    assert receiver.admit(late, "POST", "/mcp") is None


def test_a_statement_on_a_connection_is_good_for_this_connection_alone() -> None:
    """W25: it was good on every connection to every member."""
    sender, receiver = member("a"), member("b")
    opened = sender.make("b", ANN, "POST", "/owned/x")
    sealed = sender.make_for(ANN, opened)
    assert sender.make_for(ANN, opened) == sealed
    assert receiver.admit_on(opened, sealed) == receiver.admit_on(opened, sealed) == ANN
    assert receiver.admit_on(sender.make("b", ANN, "POST", "/owned/x"), sealed) is None
    assert receiver.admit(sealed, "POST", "/owned/x") is None


@pytest.mark.parametrize("header", ["Authorization", "Cookie", "Proxy-Authorization"])
async def test_a_forwarded_request_leaves_its_clients_credentials_behind(header: str) -> None:
    """W25: who forged a member's address in the database got the bearer tokens of its clients."""
    received: list[dict[str, str]] = []

    async def answer(request: web.Request) -> web.Response:
        received.append({key.lower(): value for key, value in request.headers.items()})
        return web.json_response({})

    app = web.Application()
    app.router.add_post("/mcp", answer)
    runner, port = web.AppRunner(app), free_port()
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    relay = Relay(member("a"))
    sent: list[MutableMapping[str, Any]] = []

    async def send(event: MutableMapping[str, Any]) -> None:
        sent.append(event)

    headers = [(header.lower().encode(), b"secret"), (b"mcp-session-id", b"kept")]
    there = Member("b", f"http://127.0.0.1:{port}")
    assert await relay.relay(there, "POST", "/mcp", headers, BODY, send, LOCAL)
    await relay.close()
    await runner.cleanup()
    assert header.lower() not in received[0]
    assert received[0]["mcp-session-id"] == "kept"
    assert member("b").admit(received[0]["wicket-peer"], "POST", "/mcp") is not None
