"""A task that one worker keeps is listed, followed and cancelled at the other."""

import asyncio
from dataclasses import dataclass
from typing import Any

from tests.conftest import peer
from tests.gateway.extensions_document import shows
from tests.gateway.serving import Raw
from tests.workers.conftest import Start
from tests.workers.test_subscriptions import a_client_at_each
from tests.workers.test_workers import HELLO


@dataclass
class Session:
    """A legacy client's session at the worker that its connection leads to."""

    client: Raw
    headers: dict[str, str]

    @classmethod
    async def begin(cls, client: Raw) -> "Session":
        _, headers, _ = await client.post(HELLO, token=None)
        return cls(client, {"Mcp-Session-Id": headers["Mcp-Session-Id"]})

    async def ask(self, method: str, params: dict[str, Any]) -> Any:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        _, _, body = await self.client.post(message, self.headers, token=None)
        return body["result"]

    async def statuses(self) -> dict[str, str]:
        return {task["taskId"]: task["status"] for task in (await self.ask("tasks/list", {}))["tasks"]}


@shows("tasks", "list of all workers' tasks, cancel", clients="legacy", servers="legacy without tasks")
async def test_every_worker_lists_the_tasks_of_all_and_cancels_them(start: Start) -> None:
    async with (
        start({"x": peer("Echo")}, workers=2) as served,
        a_client_at_each(served) as clients,
        asyncio.timeout(60),
    ):
        first, second = [await Session.begin(client) for client in clients]
        made: list[str] = []
        for session in (first, second):
            created = await session.ask("tools/call", {"name": "x__slow", "arguments": {}, "task": {}})
            made.append(created["task"]["taskId"])
        for session in (first, second):
            assert await session.statuses() == dict.fromkeys(made, "working")
        assert (await second.ask("tasks/cancel", {"taskId": made[0]}))["status"] == "cancelled"
        while await second.statuses() != {made[0]: "cancelled", made[1]: "working"}:
            pass  # the test's own time limit is the deadline
