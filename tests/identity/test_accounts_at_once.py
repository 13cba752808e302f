"""Listings of a server with user accounts that are under way while another account asks, or a name changes hands."""

import asyncio
from dataclasses import dataclass
from typing import Any, cast

from aiohttp import web

from tests.conftest import OpenGateway
from tests.identity.test_own_accounts import ANN, BOB, OffersByAccount, ask, own, sign_in
from wicket_mcp import Gateway
from wicket_mcp.codec import decode
from wicket_mcp.config.model.config import ServerConfig
from wicket_mcp.identity.accounts import Accounts
from wicket_mcp.model import LOCAL, SCOPES, Principal, as_object
from wicket_mcp.store.base import Store


@dataclass
class ListsWhenAllowed(OffersByAccount):
    """Answers the listing of one account only when it is allowed to."""

    slow: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.asked = asyncio.Event()
        self.allowed = asyncio.Event()

    async def mcp(self, request: web.Request) -> web.Response:
        method = as_object(decode(await request.read())).get("method")
        if method == "tools/list" and f"canary-{self.slow}-" in request.headers.get("Authorization", ""):
            self.asked.set()
            await self.allowed.wait()
        return await super().mcp(request)


def seen(gateway: Gateway, who: Principal) -> list[str]:
    return sorted(tool.name for tool in gateway.catalogue.view(who).tools)


async def test_a_listing_under_way_for_one_account_is_not_taken_for_anothers(open_gateway: OpenGateway) -> None:
    async with ListsWhenAllowed(slow="ann") as remote:
        async with open_gateway({"x": own(remote, changed="accept", added="accept")}) as gateway:
            await sign_in(gateway, remote, ANN)
            anns = asyncio.ensure_future(gateway.catalogue.renew("x", ANN))
            await remote.asked.wait()
            await sign_in(gateway, remote, BOB)
            bobs = asyncio.ensure_future(gateway.catalogue.renew("x", BOB))
            remote.allowed.set()
            await bobs
            assert seen(gateway, BOB) == ["bob_report", "whoami"]
            await anns
            assert seen(gateway, ANN) == ["ann_report", "whoami"]


async def test_a_first_call_waits_for_the_listing_of_its_own_account(open_gateway: OpenGateway) -> None:
    async with ListsWhenAllowed(slow="ann") as remote:
        async with open_gateway({"x": own(remote, changed="accept", added="accept")}) as gateway:
            await sign_in(gateway, remote, ANN)
            await remote.asked.wait()
            await sign_in(gateway, remote, BOB)
            call = asyncio.ensure_future(ask(gateway, BOB, "x.bob_report"))
            search = asyncio.ensure_future(gateway.verbs.tools(BOB))
            remote.allowed.set()
            assert await call == "bob"
            assert sorted(tool.name for tool in await search) == ["bob_report", "whoami"]


async def test_a_user_without_an_account_waits_for_nobody_elses_twice(open_gateway: OpenGateway) -> None:
    async with ListsWhenAllowed(slow="ann") as remote:
        async with open_gateway({"x": own(remote, changed="accept", added="accept")}) as gateway:
            await sign_in(gateway, remote, ANN)
            await remote.asked.wait()
            search = asyncio.ensure_future(gateway.verbs.tools(BOB))
            remote.allowed.set()
            assert [tool.name for tool in await search] == ["ann_report", "whoami"]  # the names alone
            assert {tool.description for tool in await search} == {
                "Each account sees its own description of this tool. Sign in to see it."
            }


async def test_whoever_gets_a_revoked_keys_name_reads_nothing_of_its_holders_listing(open_gateway: OpenGateway) -> None:
    def told(who: Principal) -> str:
        return " ".join(tool.description for tool in gateway.catalogue.view(who).tools)

    async with OffersByAccount() as remote:
        servers = {"x": own(remote, changed="accept", added="accept")}
        async with open_gateway(servers) as gateway:
            keys = gateway.registry.keys
            holder = await keys.principal((await keys.create("ann", SCOPES))[0])
            assert holder is not None
            await sign_in(gateway, remote, holder)
            await gateway.catalogue.renew("x", holder)
            assert "only ann reads" in told(holder)
            await keys.revoke("ann")
            text, _ = await keys.create("ann", SCOPES)
            successor = await keys.principal(text)
            assert successor is not None
            for who in (successor, BOB):  # the listing of the only account is nobody's now
                assert "report" not in told(who)
                assert seen(gateway, who) == []


async def test_a_restart_gives_a_revoked_keys_listing_to_nobody(open_gateway: OpenGateway) -> None:
    async with OffersByAccount() as remote:
        servers = {"x": own(remote, changed="accept", added="accept")}
        async with open_gateway(servers) as gateway:
            keys = gateway.registry.keys
            holder = await keys.principal((await keys.create("ann", SCOPES))[0])
            assert holder is not None
            for who in (holder, BOB):
                await sign_in(gateway, remote, who)
                await gateway.catalogue.renew("x", who)
            await keys.revoke("ann")
            text, _ = await keys.create("ann", SCOPES)
        async with open_gateway(servers) as gateway:  # which has never met the first key
            await gateway.catalogue.load()
            successor = await gateway.registry.keys.principal(text)
            assert successor is not None
            assert "ann_report" not in seen(gateway, successor)
            assert seen(gateway, BOB) == ["bob_report", "whoami"]


async def test_a_listing_under_way_for_a_revoked_key_is_not_its_successors(open_gateway: OpenGateway) -> None:
    async with ListsWhenAllowed(slow="ann") as remote:
        async with open_gateway({"x": own(remote, changed="accept", added="accept")}) as gateway:
            keys = gateway.registry.keys
            holder = await keys.principal((await keys.create("ann", SCOPES))[0])
            assert holder is not None
            await sign_in(gateway, remote, holder)
            await remote.asked.wait()
            await keys.revoke("ann")
            successor = await keys.principal((await keys.create("ann", SCOPES))[0])
            assert successor is not None
            renewal = asyncio.ensure_future(gateway.catalogue.renew("x", successor))
            remote.allowed.set()
            await renewal
            assert seen(gateway, successor) == []


async def test_the_shared_accounts_listing_is_no_users_once_users_have_accounts_of_their_own(
    open_gateway: OpenGateway,
) -> None:
    async with OffersByAccount() as remote:
        async with open_gateway({"x": {"url": remote.url, "changed": "accept", "added": "accept"}}) as gateway:
            await sign_in(gateway, remote, LOCAL)
            await gateway.catalogue.renew("x")
            assert seen(gateway, BOB) == [f"{LOCAL.name}_report", "whoami"]
        async with open_gateway({"x": own(remote, changed="accept", added="accept")}) as gateway:
            await gateway.catalogue.load()
            assert seen(gateway, BOB) == []


class AnswersTogether:
    """A store that answers no question about a note before as many are asked as it waits for."""

    def __init__(self, store: Store, together: int) -> None:
        self._store = store
        self._barrier = asyncio.Barrier(together)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def load_note(self, key: str) -> str | None:
        await self._barrier.wait()
        return await self._store.load_note(key)


async def test_a_search_asks_of_all_servers_at_once_whether_a_sign_in_is_missing(open_gateway: OpenGateway) -> None:
    """B17: it read one note after the other."""
    async with open_gateway({}) as gateway, asyncio.timeout(30):
        servers = [ServerConfig(name=f"s{number}", url="http://localhost:1") for number in range(3)]
        notes = cast("Any", AnswersTogether(gateway.store, 3))
        accounts = Accounts(gateway.vault, notes, gateway.config.base_dir, gateway.config.oauth)
        assert await accounts.missing([*servers, ServerConfig(name="own", command="x")], LOCAL) == frozenset()
