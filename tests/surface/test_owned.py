"""The servers whose process we own, as another member uses them over a real connection."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest

from tests.conftest import OpenGateway, peer
from tests.peers.recording_host import RecordingHost, text_of
from tests.surface.test_http_connection import serve
from wicket_mcp.app import Gateway
from wicket_mcp.errors import Moved
from wicket_mcp.model import LOCAL, JsonObject, Principal
from wicket_mcp.request import GATEWAY
from wicket_mcp.rpc import NO_CALLBACKS
from wicket_mcp.surface.http import Receive, RequestHeaders, Scope, Send
from wicket_mcp.surface.owned import Event, Owned, OwnedServers, PeerLinks
from wicket_mcp.surface.server import address_of
from wicket_mcp.upstream.owner import OwnerLink, Vouch
from wicket_mcp.upstream.ownership import Claim

EPOCH = 1


def header(principal: Principal, address: str, path: str) -> dict[str, str]:
    return {"Wicket-Peer": "a member"}


def name(principal: Principal, connection: str) -> str:
    return principal.name


async def believe(_: Claim) -> bool:
    """No owner is doubted here."""
    return False


async def connect(address: str, host: RecordingHost) -> OwnerLink:
    return await OwnerLink.open(
        "x",
        Claim(EPOCH, address),
        host,
        principal=GATEWAY,
        max_message=2**20,
        vouch=Vouch(header, name),
        doubt=believe,
    )


@asynccontextmanager
async def serve_owned(gateway: Gateway) -> AsyncGenerator[tuple[PeerLinks, str]]:
    """Serve the servers of a gateway to a member that it trusts, at an address."""
    links = PeerLinks(lambda opened_with, sealed: LOCAL, gateway.outbox_counters)

    def epoch(server: str, principal: Principal) -> int:
        return EPOCH

    async def answer(server: str, principal: Principal) -> JsonObject:
        return {}

    def listen(server: str, principal: Principal, event: Event) -> Callable[[], None]:
        return lambda: None

    async def watch(server: str, uri: str, principal: Principal) -> Callable[[], None]:
        return lambda: None

    owned = Owned(epoch, answer, answer, gateway.forward, listen, watch)
    mount = OwnedServers(owned, gateway.protocol(), 2**20, links)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await mount(scope, RequestHeaders(scope["headers"]), receive, send, GATEWAY)

    async with serve(app) as (_, sock):
        yield links, address_of(sock)


async def test_an_owner_that_leaves_takes_no_new_connection_and_answers_what_it_has_accepted(
    open_gateway: OpenGateway,
) -> None:
    host = RecordingHost()
    async with (
        asyncio.timeout(30),
        open_gateway({"x": peer("Echo")}) as gateway,
        serve_owned(gateway) as (links, address),
    ):
        early = await connect(address, host)

        async def call(tool: str) -> JsonObject:
            return await early.request("tools/call", {"name": tool, "arguments": {}}, NO_CALLBACKS)

        number = int(text_of(await call("pid")))
        slow = asyncio.ensure_future(call("slow"))
        while not (await call("calls"))["structuredContent"]["waiting"]:
            pass
        leaving = asyncio.ensure_future(links.leave())
        await host.ended_event.wait()  # the member has been told
        with pytest.raises(Moved, match="another owner"):
            await connect(address, RecordingHost())
        os.kill(number, signal.SIGUSR1)
        assert text_of(await slow) == "released"
        await leaving
        await early.close()
