"""Asks a modern upstream to report changes (`subscriptions/listen`).

`Subscription` is for connections whose one stream carries everything (stdio, SSE): the request stays open as long as
the subscription. Streamable HTTP uses a separate stream (`listener.py`).
"""

import asyncio
import contextlib
from collections.abc import Sequence

from wicket_mcp.errors import UpstreamError
from wicket_mcp.model import MODERN_VERSION, JsonObject
from wicket_mcp.tasks import Tasks
from wicket_mcp.upstream.connection import Connection, envelope

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
LISTEN_GRACE = 2.0  # seconds for an upstream to begin a subscription before we continue without it


class Subscription:
    """The only subscription of a connection, replaced when the watched resources change."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._tasks = Tasks()
        self._request: asyncio.Task[None] | None = None
        self._settled = asyncio.Event()

    def renew(self, resources: Sequence[str]) -> None:
        """Subscribe to these resources instead of the earlier ones. A legacy upstream reports changes without this."""
        if self._request is not None:
            self._request.cancel()
        self._settled = asyncio.Event()
        if self._connection.protocol_version == MODERN_VERSION:
            self._request = self._tasks.start(self._ask(resources, self._settled), f"listen on {self._connection!r}")
        else:
            self._settled.set()

    def acknowledge(self) -> None:
        """The upstream says that the subscription is active."""
        self._settled.set()

    async def settle(self) -> None:
        """Wait until the subscription is active or will not be, but not long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LISTEN_GRACE):
                await self._settled.wait()

    async def close(self) -> None:
        await self._tasks.close()

    async def _ask(self, resources: Sequence[str], settled: asyncio.Event) -> None:
        try:
            await self._connection.request(
                "subscriptions/listen", subscription_params(resources, self._connection.relayed)
            )
        except UpstreamError:
            pass  # then it reports no changes
        finally:
            settled.set()


def subscription_params(resources: Sequence[str], relayed: JsonObject | None) -> JsonObject:
    """Parameters that subscribe to changes of all lists and of these resources, and to what these extensions add."""
    notifications: JsonObject = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
    if resources:
        notifications["resourceSubscriptions"] = list(resources)
    return {"notifications": notifications, "_meta": envelope({"extensions": relayed} if relayed else None)}
