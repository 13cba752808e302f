"""Asking a modern upstream to tell of changes (`subscriptions/listen`).

`Subscription` is for connections whose one stream carries everything (stdio, SSE): the request stays open as long
as it lasts. Streamable HTTP gives it a stream of its own (`listener.py`).
"""

import asyncio
import contextlib
from collections.abc import Sequence

from wicket_mcp.errors import UpstreamError
from wicket_mcp.model import MODERN_VERSION, JsonObject
from wicket_mcp.tasks import Tasks
from wicket_mcp.upstream.connection import Connection, envelope


class Subscription:
    """The one subscription of a connection, replaced when what it covers changes."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._tasks = Tasks()
        self._request: asyncio.Task[None] | None = None

    def renew(self, resources: Sequence[str]) -> None:
        """Ask, instead of what was asked before. A legacy upstream tells of changes without being asked."""
        if self._request is not None:
            self._request.cancel()
        if self._connection.protocol_version == MODERN_VERSION:
            self._request = self._tasks.start(self._ask(resources), f"listen on {self._connection!r}")

    async def close(self) -> None:
        await self._tasks.close()

    async def _ask(self, resources: Sequence[str]) -> None:
        with contextlib.suppress(UpstreamError):  # then it does not tell
            await self._connection.request("subscriptions/listen", subscription_params(resources))


def subscription_params(resources: Sequence[str] = ()) -> JsonObject:
    """Parameters that ask for changes to all lists and to these resources."""
    notifications: JsonObject = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
    if resources:
        notifications["resourceSubscriptions"] = list(resources)
    return {"notifications": notifications, "_meta": envelope()}
