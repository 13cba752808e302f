"""An address that a server does not report on costs the client that asked for it, and nobody else."""

import asyncio
import sys

import pytest
from tests.conftest import PEERS, OpenGateway, Server

from wicket_mcp.app import Gateway
from wicket_mcp.errors import Refused
from wicket_mcp.model import LOCAL, JsonObject, Principal, Silent

URI, WRONG = "test://watched", "test://wrong"
SOMEBODY = Principal("somebody", frozenset({"discover", "invoke"}))


def picky(era: str) -> Server:
    return {"command": sys.executable, "args": [str(PEERS / "picky_watched.py"), era]}


class Watcher:
    """A client that watches resources of `x`."""

    def __init__(self, gateway: Gateway, principal: Principal) -> None:
        self._verbs = gateway.verbs
        self._principal = principal
        self.updated = asyncio.Event()

    async def watch(self, uri: str) -> None:
        await self._verbs.watch(self._verbs.addresses.address("x", uri), Silent(self._principal), self._on_changed)

    def _on_changed(self, uri: str, notice: JsonObject) -> None:
        self.updated.set()


async def change(gateway: Gateway, watcher: Watcher) -> None:
    """The server gets a tool more and changes its resource: both are heard of."""
    grown = asyncio.Event()
    gateway.catalogue.watch(lambda _, now: grown.set() if "x.grown" in (t.own_key for t in now.tools) else None)
    await gateway.call("x.release")
    await grown.wait()
    await watcher.updated.wait()


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("order", ["first", "last", "at once"])
async def test_only_the_client_that_asked_for_it_is_told(open_gateway: OpenGateway, era: str, order: str) -> None:
    async with open_gateway({"x": picky(era)}) as gateway:
        await gateway.tools()
        watcher, other = Watcher(gateway, LOCAL), Watcher(gateway, SOMEBODY)
        if order == "at once":
            _, refusal = await asyncio.gather(watcher.watch(URI), other.watch(WRONG), return_exceptions=True)
            assert isinstance(refusal, Refused)
        else:
            if order == "last":
                await watcher.watch(URI)
            with pytest.raises(Refused, match="no such resource"):
                await other.watch(WRONG)
            if order == "first":
                await watcher.watch(URI)
        await change(gateway, watcher)


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_it_is_not_asked_for_again(open_gateway: OpenGateway, era: str) -> None:
    async with open_gateway({"x": picky(era)}) as gateway:
        await gateway.tools()
        watcher, other = Watcher(gateway, LOCAL), Watcher(gateway, SOMEBODY)
        await watcher.watch(URI)
        for _ in range(3):
            with pytest.raises(Refused):
                await other.watch(WRONG)
        await gateway.pool.stop("x")
        while not watcher.updated.is_set():  # until the next process knows what is watched
            await gateway.call("x.release")
        requests: list[str] = (await gateway.call("x.calls"))["structuredContent"]["requests"]
        assert requests.count("resources/subscribe" if era == "legacy" else "subscriptions/listen") <= 2
