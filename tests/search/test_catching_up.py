"""What is indexed and read although nobody searches at that moment, and what an answer says until then."""

import asyncio
from collections.abc import Callable

import pytest
from tests.conftest import OpenGateway, peer, replay
from tests.dialects.seeds import Speaker
from tests.search.test_encoder import is_learned

from wicket_mcp import app
from wicket_mcp.model import LOCAL, Principal
from wicket_mcp.search import build_segment, finder

MANY = {"git": replay("git-cyanheads"), "notion": replay("notion"), "slack": replay("slack")}


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0)


async def test_a_server_that_comes_up_after_a_search_is_read_without_another_one(
    open_gateway: OpenGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Defect 3."""
    monkeypatch.setattr(finder, "_JOIN_EVERY", 0.0)
    async with open_gateway({"late": peer("SlowStart", env={"SLOW_START": "1"})}) as gateway:
        gateway.catalogue.patience = 0.01
        assert await gateway.search("echo the message") == ()
        assert is_learned(gateway) == {}
        await until(lambda: is_learned(gateway) == {"late": True})


async def test_nothing_is_indexed_for_those_who_never_search(
    open_gateway: OpenGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finder, "_JOIN_EVERY", 0.0)
    async with open_gateway({"git": replay("git")}) as gateway:
        await gateway.tools()
        await gateway.finder.resume()
        await gateway.finder.finish_indexing()
        assert is_learned(gateway) == {"git": False}


async def test_what_an_earlier_process_left_unread_is_read_after_the_start(
    open_gateway: OpenGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Defect 3."""
    async with open_gateway(MANY) as gateway:
        await gateway.tools()
        listings = gateway.catalogue.now.listings
        unread = {name: build_segment(listing, learned=False) for name, listing in listings.items()}
        await gateway.store.save_segments(unread)
    monkeypatch.setattr(app, "AFTER_START", 0.0)
    async with open_gateway(MANY) as gateway:
        gateway.attend()
        await until(lambda: is_learned(gateway) == dict.fromkeys(MANY, True))
        assert all(state == "idle" for state, _ in map(gateway.pool.state, MANY)), "no server is started for it"


async def test_an_answer_says_how_many_of_the_tools_it_may_show_are_not_read_yet(
    open_gateway: OpenGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Defect 2."""
    monkeypatch.setattr(finder, "_JOIN_EVERY", 3600.0)  # only when all of them are read, which takes seconds
    servers = MANY | {name: replay(name) for name in ("github", "gitlab", "atlassian", "hubspot", "mongodb")}
    async with open_gateway(servers, profiles={"office": {"servers": ["notion", "slack"]}}) as gateway:
        everything = len(await gateway.tools())
        office = len(await gateway.tools("notion")) + len(await gateway.tools("slack"))
        some = Principal("some", LOCAL.scopes, profile="office")
        answer = await gateway.verbs.search("list channels", principal=some)
        assert answer.unread == (office, office), "nothing of what it may not see"
        answer = await gateway.verbs.search("list channels")
        assert answer.unread == (everything, everything)
        shown = await Speaker(gateway, "native").text("find_tools", query="list channels")
        assert f"[{everything} of {everything} tools not read yet: found by their words alone.]" in shown
        await gateway.finder.finish_indexing()
        answer = await gateway.verbs.search("list channels")
        assert (answer.unread, answer.gap) == ((0, 0), "")
