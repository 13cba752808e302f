"""Records of sessions at servers, over a real store: who continues one, and who ends it."""

from pathlib import Path

from wicket_mcp.config.model.config import ServerConfig
from wicket_mcp.sealing import Ring
from wicket_mcp.store.base import Store
from wicket_mcp.store.open import open_store
from wicket_mcp.upstream.era import Greeting
from wicket_mcp.upstream.kept_sessions import KeptSession, KeptSessions
from wicket_mcp.upstream.key import Key

URL = "https://example.org/mcp"
CONFIG = ServerConfig(name="web", url=URL, isolation="session")
GREETING = Greeting("2025-11-25", {"tools": {}}, {"name": "server"}, "Be kind.")


class World:
    """What replicas know of each other."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.running = {"first", "second"}
        self.ended: set[str] = set()

    def replica(self, name: str, key: bytes = bytes(32)) -> KeptSessions:
        def is_elsewhere(other: str) -> bool:
            return other != name and other in self.running

        async def has_ended(session: str) -> bool:
            return session in self.ended

        return KeptSessions(self.store, Ring([key]), name, is_elsewhere, has_ended)


def at(replica: KeptSessions, session: str = "first~s") -> KeptSession:
    kept = replica.of(Key("web", session), CONFIG)
    assert kept is not None
    return kept


async def test_a_session_is_continued_by_who_has_the_key_and_ended_by_one_replica(tmp_path: Path) -> None:
    store = await open_store(tmp_path / "wicket.db")
    try:
        world = World(store)
        first, second = world.replica("first"), world.replica("second")
        assert first.of(Key("web", "a session that no replica can continue"), CONFIG) is None
        begun = at(first)
        assert await begun.find(URL) is None
        await begun.keep("at the server", URL, GREETING)
        continued = at(second)
        record = await continued.find(URL)
        assert record is not None
        assert (record.session, record.greeting) == ("at the server", GREETING)
        assert await continued.find(URL) is None, "who connects again has lost it"
        assert await at(second).find("https://example.org/moved") is None
        assert await at(second, "first~another").find(URL) is None
        assert await at(world.replica("third", b"x" * 32)).find(URL) is None
        assert not await continued.end(), "the client's own replica is there after all, and goes on with it"
        world.ended.add("first~s")
        assert await continued.end()
        assert not await begun.end(), "it was ended already"
        assert await at(second).find(URL) is None
    finally:
        await store.close()


async def test_a_session_that_was_ended_can_be_followed_by_another(tmp_path: Path) -> None:
    store = await open_store(tmp_path / "wicket.db")
    try:
        world = World(store)
        first = world.replica("first")
        for session in ("one", "two"):  # the server was stopped for idleness in between
            begun = at(first)
            await begun.keep(session, URL, GREETING)
            record = await at(world.replica("second")).find(URL)
            assert record is not None
            assert record.session == session
            assert await begun.end()
        last = at(first)
        await last.keep("three", URL, GREETING)
        first.leave()
        assert not await last.end(), "the next replica goes on with it"
        world.running = {"second"}
        continued = at(world.replica("second"))
        assert await continued.find(URL) is not None
        assert await continued.end()
    finally:
        await store.close()
