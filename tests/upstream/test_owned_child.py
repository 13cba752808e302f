"""A child that a gateway runs as the owner of its server."""

import asyncio
from pathlib import Path

import pytest
from tests.conftest import peer
from tests.peers.recording_host import RecordingHost
from tests.upstream.test_owner import VOUCH
from tests.upstream.test_ownership import ignore

from wicket_mcp.cluster.pulse import answers
from wicket_mcp.config.model.config import Config
from wicket_mcp.errors import Crashed, Moved
from wicket_mcp.model import LOCAL, JsonObject
from wicket_mcp.rpc import NO_CALLBACKS
from wicket_mcp.upstream.connector import Connector
from wicket_mcp.upstream.ownership import FileOwnership

SLOW: JsonObject = {"name": "slow", "arguments": {}}


async def test_a_child_that_crashed_is_released_once_it_is_gone(tmp_path: Path, host: RecordingHost) -> None:
    """B8: its claim was never released again, and one connection was kept for each crash."""
    [server] = Config.from_dict({"servers": {"d": peer("DiesMidCall")}}).servers
    first, second = (FileOwnership(tmp_path, address, answers) for address in ("unix:/first", "unix:/second"))
    connector = Connector(max_message=2**20)
    connector.share(first, VOUCH)
    for epoch in (1, 3, 5):
        session = await connector.open(server, host, LOCAL)
        assert first.epoch("d") == epoch
        with pytest.raises(Crashed):
            await session.request("tools/call", SLOW, NO_CALLBACKS, {}, {})
        async with asyncio.timeout(30):
            while not (claim := await second.claim("d", ignore)).ours:
                await asyncio.sleep(0)
        assert first.keys == []
        await second.release("d", claim.epoch)
    await connector.close()


async def test_a_child_is_sent_nothing_when_its_claim_is_over(tmp_path: Path, host: RecordingHost) -> None:
    """Defect 5: who stood still may find another owner, and must not act before it has noticed."""
    [server] = Config.from_dict({"servers": {"x": peer("Echo")}}).servers
    ownership = FileOwnership(tmp_path, "unix:/here", answers)
    connector = Connector(max_message=2**20)
    connector.share(ownership, VOUCH)
    session = await connector.open(server, host, LOCAL)
    await ownership.release("x", 1)
    with pytest.raises(Moved, match="Nothing was sent"):
        await session.request("tools/call", SLOW, NO_CALLBACKS, {}, {})
    await session.connection.close()
    await connector.close()
