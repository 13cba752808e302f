"""Calls that would become tasks where there is no room for another one."""

import asyncio

from tests.conftest import OpenGateway, peer
from tests.gateway.test_tasks import house
from wicket_mcp.model import JsonObject
from wicket_mcp.surface.local_tasks import MAX_PER_PRINCIPAL, LocalTask


async def test_a_call_for_whose_task_there_is_no_room_goes_on_and_is_answered(open_gateway: OpenGateway) -> None:
    async def never_end(task: LocalTask) -> JsonObject:
        await asyncio.Event().wait()
        return {}

    async with (
        house(open_gateway, {"echo": peer("Echo")}, "flat", promote_after=0.0) as at,
        asyncio.TaskGroup() as group,
    ):
        for _ in range(MAX_PER_PRINCIPAL):
            await at.gateway.local_tasks.start(at.gateway.principal, never_end)
        slow = group.create_task(at.call("echo__slow"))
        while (await at.gateway.call("echo.calls"))["structuredContent"]["waiting"] == 0:
            assert not slow.done(), slow.result()
        await at.gateway.call("echo.release")
        assert (await slow)["content"][0]["text"] == "released"
        assert (await at.gateway.call("echo.calls"))["structuredContent"]["cancelled"] == 0
