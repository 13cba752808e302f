"""Requests by an upstream: answered in the background, and never more of them at once than can be borne."""

import asyncio

from tests.peers.recording_host import RecordingHost

from wicket_mcp.model import JsonObject
from wicket_mcp.tasks import Tasks
from wicket_mcp.upstream.inbound import ASKED_AT_ONCE, Inbound


class Ponders(RecordingHost):
    """Thinks about every request until it is told to answer."""

    def __init__(self) -> None:
        super().__init__()
        self.enough = asyncio.Event()

    async def request(self, method: str, params: JsonObject) -> JsonObject:
        self.asked.append(method)
        await self.enough.wait()
        return {}


async def test_a_flood_of_requests_is_answered_in_part_and_then_again() -> None:
    host, tasks, replies = Ponders(), Tasks(), list[JsonObject]()

    async def reply(message: JsonObject) -> None:
        replies.append(message)

    inbound = Inbound("x", host, reply, tasks)
    for number in range(1000):
        inbound.hear({"id": number, "method": "ping"})
    host.enough.set()
    await tasks.wait()
    assert [message["id"] for message in replies] == list(range(ASKED_AT_ONCE))
    inbound.hear({"id": "late", "method": "ping"})
    await tasks.wait()
    assert replies[-1] == {"jsonrpc": "2.0", "id": "late", "result": {}}
