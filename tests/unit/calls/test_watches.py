"""Who is told of a changed resource, and as whom it is subscribed to and unsubscribed from, over scripted servers."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace

from tests.unit.upstream.scripted import ScriptedServer, turns
from wicket_mcp.calls.watches import Watches
from wicket_mcp.catalog.addresses import Addresses
from wicket_mcp.catalog.catalogue import Catalogue
from wicket_mcp.config.model.config import Config
from wicket_mcp.model import JsonObject, Principal, Silent
from wicket_mcp.request import Request, Result
from wicket_mcp.upstream.events import UpstreamEvent
from wicket_mcp.upstream.pool import Pool

WATCHED = "file:///a"
ANN, BOB = Principal("ann"), Principal("bob")
SUBSCRIBED, UNSUBSCRIBED = ("resources/subscribe", WATCHED), ("resources/unsubscribe", WATCHED)


class House:
    """The watches of one server `x`, and what each watcher was told."""

    def __init__(self, server: ScriptedServer, **options: Any) -> None:
        config = Config.from_dict({"servers": {"x": {"command": "scripted", **options}}})
        self.pool = Pool(config.servers, on_event=self._hear, opener=server.open, max_message=2**20, max_call=30.0)
        self.watches = Watches(self.pool)
        self.told: list[str] = []
        catalogue: Any = object.__new__(Catalogue)
        self._addresses = Addresses(catalogue, unprefixed=True)

    async def watch(self, principal: Principal) -> Callable[[], None]:
        def changed(uri: str, notice: JsonObject) -> None:
            self.told.append(principal.name)

        caller = Silent(principal, session=f"{principal.name}'s")
        return await self.watches.watch(WATCHED, caller, changed, self._resolve, self._addresses)

    async def _resolve(self, request: Request) -> Result:
        return await self.watches.subscribe(replace(request, server="x", params={"uri": request.name}))

    def _hear(self, event: UpstreamEvent) -> None:
        self.watches.hear(event)


@asynccontextmanager
async def house_of(server: ScriptedServer, **options: Any) -> AsyncGenerator[House]:
    house = House(server, **options)
    try:
        yield house
    finally:
        await house.pool.close()


def change(server: ScriptedServer, connection: int) -> None:
    server.connections[connection].host.notification("notifications/resources/updated", {"uri": WATCHED})


async def test_each_user_watches_over_their_own_connection_and_hears_of_their_own_changes() -> None:
    server = ScriptedServer()
    async with house_of(server, credentials="user") as house:
        leave = [await house.watch(ANN), await house.watch(BOB)]
        assert [connection.log for connection in server.connections] == [[SUBSCRIBED], [SUBSCRIBED]]
        change(server, 0)
        assert house.told == ["ann"]
        change(server, 1)
        assert house.told == ["ann", "bob"]
        leave[0]()
        await turns()
        assert [connection.log[1:] for connection in server.connections] == [[UNSUBSCRIBED], []]


async def test_each_session_hears_of_its_own_changes_where_the_server_is_isolated() -> None:
    server = ScriptedServer()
    async with house_of(server, isolation="session") as house:
        await house.watch(ANN)
        await house.watch(BOB)
        change(server, 1)
        assert house.told == ["bob"]


async def test_a_shared_subscription_ends_with_the_last_watcher_whoever_began_it() -> None:
    server = ScriptedServer()
    async with house_of(server) as house:
        leave_ann, leave_bob = await house.watch(ANN), await house.watch(BOB)
        [shared] = server.connections
        change(server, 0)
        assert house.told == ["ann", "bob"]
        leave_ann()
        await turns()
        assert shared.log == [SUBSCRIBED], "bob still watches"
        leave_bob()
        await turns()
        assert shared.log == [SUBSCRIBED, UNSUBSCRIBED]
        await house.watch(BOB)
        assert shared.log == [SUBSCRIBED, UNSUBSCRIBED, SUBSCRIBED]
