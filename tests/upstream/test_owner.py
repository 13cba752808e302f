"""The connection to the gateway that runs a server."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.peers.recording_host import RecordingHost
from tests.peers.scripted_owner import ScriptedOwner
from tests.upstream.test_ownership import ignore

from wicket_mcp.cluster.pulse import answers
from wicket_mcp.config.model.config import Config
from wicket_mcp.errors import Refused
from wicket_mcp.model import LOCAL, MODERN_VERSION, Principal
from wicket_mcp.tasks import Tasks
from wicket_mcp.upstream.connector import Connector
from wicket_mcp.upstream.era import Session
from wicket_mcp.upstream.owner import Vouch
from wicket_mcp.upstream.ownership import FileOwnership


def header(principal: Principal, method: str, path: str) -> dict[str, str]:
    return {}


def name(principal: Principal, connection: str) -> str:
    return principal.name


VOUCH = Vouch(header, name)
FOUND: dict[str, Any] = {"supportedVersions": [MODERN_VERSION], "capabilities": {}}


@asynccontextmanager
async def connecting(
    folder: Path, host: RecordingHost
) -> AsyncGenerator[tuple[ScriptedOwner, "asyncio.Task[Session]"]]:
    """A gateway that runs the server `x`, and another one that connects to it."""
    [server] = Config.from_dict({"servers": {"x": {"command": "never-run"}}}).servers
    connector, tasks = Connector(max_message=2**20), Tasks()
    async with ScriptedOwner.listen(folder) as owner, asyncio.timeout(30):
        owning, asking = (
            FileOwnership(folder / "owners", address, answers) for address in (owner.address, "unix:/asking")
        )
        assert (await owning.claim("x", ignore)).ours
        connector.share(asking, VOUCH)
        session = tasks.start(connector.open(server, host, LOCAL), "connect", awaited=True)
        try:
            yield owner, session
        finally:
            if session.done() and session.exception() is None:
                await session.result().connection.close()
            await tasks.close()
            await connector.close()
            await owning.close()


async def test_what_the_owner_refuses_is_not_followed_by_a_handshake_with_its_server(
    tmp_path: Path, host: RecordingHost
) -> None:
    async with connecting(tmp_path, host) as (owner, session):
        asked = await owner.received.get()
        assert asked["method"] == "server/discover"
        error = {"code": -32603, "message": "It speaks no known version.", "data": {"code": "protocol"}}
        owner.send({"id": asked["id"], "error": error})
        with pytest.raises(Refused, match="no known version"):
            await session
        assert owner.received.empty()


async def test_a_resource_counts_as_watched_when_the_owner_has_subscribed(tmp_path: Path, host: RecordingHost) -> None:
    """Before, a change that comes through the owner would not be heard of."""
    async with connecting(tmp_path, host) as (owner, session):
        discover = await owner.received.get()
        owner.send({"id": discover["id"], "result": FOUND})
        connection = (await session).connection
        everything = await owner.received.get()
        acknowledged: dict[str, Any] = {"method": "notifications/subscriptions/acknowledged", "params": {}}
        tasks = Tasks()
        watching = tasks.start(connection.listen(["test://a"]), "watch", awaited=True)
        withdrawn, watched = await owner.received.get(), await owner.received.get()
        assert withdrawn["params"]["requestId"] == everything["id"]
        assert watched["params"]["notifications"]["resourceSubscriptions"] == ["test://a"]
        owner.send({**acknowledged, "for": everything["id"]})
        owner.send({"method": "notifications/resources/updated", "params": {"uri": "test://b"}, "for": watched["id"]})
        assert (await host.heard.get())[1] == {"uri": "test://b"}
        assert not watching.done()
        owner.send({**acknowledged, "for": watched["id"]})
        await watching
        await tasks.close()
