"""`${keyring:NAME}` where the system's keyring waits for its user: nobody else waits, and it is asked once."""

import asyncio
from collections.abc import Iterator

import pytest
from tests.conftest import OpenGateway, peer

from wicket_mcp.config.model.server import ServerConfig
from wicket_mcp.config.read.secrets import fill_in
from wicket_mcp.errors import WicketError
from wicket_mcp.model import LOCAL
from wicket_mcp.tasks import Tasks

keyring = pytest.importorskip("keyring", reason="the package keyring is not installed")

from tests.peers.file_keyring import AsksItsUser  # noqa: E402  (needs the package)


@pytest.fixture
def locked() -> Iterator[AsksItsUser]:
    """The keyring of this process."""
    before, backend = keyring.get_keyring(), AsksItsUser(unlocks="a-secret-of-the-keyring", **{"for-two": "two"})
    keyring.set_keyring(backend)
    try:
        yield backend
    finally:
        backend.unlocked.set()
        keyring.set_keyring(before)


async def test_nobody_else_waits_while_a_keyring_asks_its_user(open_gateway: OpenGateway, locked: AsksItsUser) -> None:
    """B16."""
    servers = {"locked": peer("Echo", env={"KEY": "${keyring:unlocks}"}, connect_timeout=60), "free": peer("Echo")}
    async with open_gateway(servers) as gateway:
        calling, again = [gateway.tasks.start(gateway.call("locked.pid"), "call", awaited=True) for _ in range(2)]
        await asyncio.to_thread(locked.asked.wait, 20)
        assert not (await gateway.call("free.pid")).get("isError")
        assert not calling.done()
        locked.unlocked.set()
        assert await calling == await again
    assert (locked.gave_up, locked.asked_for) == (False, ["unlocks"])


async def test_a_search_asks_no_keyring(open_gateway: OpenGateway, locked: AsksItsUser) -> None:
    """B16: it would ask again and again where there is no such entry."""
    locked.unlocked.set()
    async with open_gateway({"s": peer("Echo", env={"KEY": "${keyring:not-there}"})}) as gateway:
        with pytest.raises(WicketError, match="which the keyring does not have"):
            await gateway.call("s.pid")
        asked = len(locked.asked_for)
        for _ in range(3):
            await gateway.search("a process id")
            assert gateway.verbs.required_keys("s", LOCAL) == {"keyring:not-there": False}
        assert len(locked.asked_for) == asked == 1


async def test_those_who_wait_for_one_entry_ask_once_and_a_waiter_may_leave(locked: AsksItsUser) -> None:
    """B16."""
    server = ServerConfig(
        name="x", command="x", env={"A": "${keyring:for-two}", "B": "${keyring:gone:-${keyring:for-two}}"}
    )
    tasks = Tasks()
    first, second = [tasks.start(fill_in(server), "fill in", awaited=True) for _ in range(2)]
    await asyncio.to_thread(locked.asked.wait, 20)
    first.cancel()
    locked.unlocked.set()
    assert (await second).env == {"A": "two", "B": "two"}
    assert locked.asked_for == ["for-two", "gone"]
    await tasks.close()
