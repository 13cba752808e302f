"""Every request to an owner carries the epoch of its claim: who is not the owner under this epoch refuses it."""

import base64
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import psycopg
import pytest

from tests.cluster.house import VAULT_KEY, replicas
from tests.cluster.load import counting_child
from tests.cluster.test_ownership import call
from tests.peers.postgres import Postgres
from tests.peers.recording_host import RecordingHost
from wicket_mcp.cluster.members import Member
from wicket_mcp.cluster.relay import PEER, Relay
from wicket_mcp.cluster.statements import Statements
from wicket_mcp.errors import Moved
from wicket_mcp.model import LOCAL, Principal
from wicket_mcp.request import GATEWAY
from wicket_mcp.rpc import NO_CALLBACKS
from wicket_mcp.sealing import Ring
from wicket_mcp.upstream.owner import EPOCH, OwnerLink, Vouch
from wicket_mcp.upstream.ownership import Claim


def member_at(database: str, address: str) -> Member:
    with psycopg.connect(database) as connection:
        row = connection.execute("SELECT id FROM wicket_replica WHERE address = %s", (address,)).fetchone()
    assert row is not None
    return Member(row[0], address)


async def believe(_: Claim) -> bool:
    """No owner is doubted here."""
    return False


IS_OWNER, IS_NOT = 400, 409
"""How an empty message under an epoch is answered."""


async def test_a_deposed_owner_and_a_new_one_refuse_requests_under_the_old_epoch(
    postgres: Postgres, tmp_path: Path
) -> None:
    counted = tmp_path / "counted"
    statements = Statements(Ring([base64.b64decode(VAULT_KEY)]), "a member")
    relay = Relay(statements)
    address = postgres.database()
    async with (
        AsyncExitStack() as stack,
        replicas(tmp_path, address, {"x": counting_child(counted)}, count=2) as house,
        aiohttp.ClientSession() as http,
    ):
        stack.push_async_callback(relay.close)
        first, second = (member_at(address, replica.address) for replica in house.replicas)
        assert (await call(http, house.replicas[0], "echo", message="first"))["content"][0]["text"] == "first"

        async def says(member: Member, epoch: int) -> int | None:
            return await relay.ask(member, "/owned/x", GATEWAY, {EPOCH: str(epoch)})

        assert [await says(first, epoch) for epoch in (0, 1, 2)] == [IS_NOT, IS_OWNER, IS_NOT]
        assert [await says(second, epoch) for epoch in (0, 1, 2)] == [IS_NOT] * 3

        ids = {member.address: member.id for member in (first, second)}

        def header(principal: Principal, address: str, path: str) -> dict[str, str]:
            return {PEER.decode(): statements.make(ids[address], principal, "POST", path)}

        async def connect(member: Member, epoch: int) -> OwnerLink:
            claim, host = Claim(epoch, member.address), RecordingHost()
            vouch = Vouch(header, statements.make_for)
            return await OwnerLink.open(
                "x", claim, host, principal=GATEWAY, max_message=2**20, vouch=vouch, doubt=believe
            )

        link = await connect(first, 1)
        echo = {"name": "echo", "arguments": {"message": "over-the-link"}}
        assert (await link.request("tools/call", echo, NO_CALLBACKS))["content"][0]["text"] == "over-the-link"

        def forge(principal: Principal, connection: str) -> str:
            return statements.make_for(principal, "another connection")

        forged = await OwnerLink.open(
            "x",
            Claim(1, first.address),
            RecordingHost(),
            principal=GATEWAY,
            max_message=2**20,
            vouch=Vouch(header, forge),
            doubt=believe,
        )
        with pytest.raises(Moved):  # refused, and nothing is done
            await forged.request("tools/call", {"name": "echo", "arguments": {"message": "forged"}}, NO_CALLBACKS)
        await forged.close()

        assert await relay.ask(first, "/_replica/stop/x", LOCAL, {}) == 200
        while await says(first, 1) == IS_OWNER:  # until it has ended there
            pass
        assert (await call(http, house.replicas[1], "echo", message="second"))["content"][0]["text"] == "second"
        late = {"name": "echo", "arguments": {"message": "too-late"}}
        with pytest.raises(Moved):  # over the connection that was good before
            await link.request("tools/call", late, NO_CALLBACKS)
        assert [await says(first, epoch) for epoch in (1, 2)] == [IS_NOT] * 2
        assert [await says(second, epoch) for epoch in (1, 2)] == [IS_NOT, IS_OWNER]
        for member in (first, second):
            with pytest.raises(Moved):
                await connect(member, 1)
        await link.close()
    assert counted.read_text().split() == ["first", "over-the-link", "second"]
