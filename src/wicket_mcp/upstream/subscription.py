"""Asks a modern upstream to report changes (`subscriptions/listen`).

`Subscription` is for connections whose one stream carries everything (stdio, SSE): the request stays open as long as
the subscription. Streamable HTTP uses a separate stream (`listener.py`).
"""

import asyncio
from collections.abc import Sequence
from typing import TypeGuard

from wicket_mcp.errors import METHOD_NOT_FOUND, Refused, UpstreamError
from wicket_mcp.model import MODERN_VERSION, JsonObject
from wicket_mcp.rpc import OnNotification
from wicket_mcp.tasks import Tasks
from wicket_mcp.upstream.connection import Connection, envelope

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
LISTEN_GRACE = 2.0  # seconds for an upstream to begin a subscription before we continue without it


class _Attempt:
    """One request to subscribe, until it is active or refused."""

    def __init__(self) -> None:
        self.settled = asyncio.Event()
        self.refusal: Refused | None = None
        self.awaited = True
        """Whether somebody who asked for it learns of a refusal."""


class Subscription:
    """The only subscription of a connection, replaced when the watched resources change."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._tasks = Tasks()
        self._request: asyncio.Task[None] | None = None
        self._attempt = _Attempt()
        self._is_silent = False
        """Whether the upstream acknowledged nothing so far: then nobody waits for it again."""

    async def listen(self, resources: Sequence[str]) -> None:
        """As `Connection.listen`: a change may come, perhaps another way, as soon as we have said yes."""
        self._renew(resources)
        if resources:
            await self._settle()

    def _renew(self, resources: Sequence[str]) -> None:
        """Subscribe to these resources instead of the earlier ones. A legacy upstream reports changes without this."""
        if self._request is not None:
            self._request.cancel()
        self._attempt = _Attempt()
        if self._connection.protocol_version == MODERN_VERSION:
            self._request = self._tasks.start(self._ask(resources, self._attempt), f"listen on {self._connection!r}")
        else:
            self._attempt.settled.set()

    def acknowledge(self) -> None:
        """The upstream says that the subscription is active."""
        self._is_silent = False
        self._attempt.settled.set()

    async def _settle(self) -> None:
        """Wait until the subscription is active or will not be, but not long. Raises Refused."""
        attempt = self._attempt
        try:
            async with asyncio.timeout(0 if self._is_silent else LISTEN_GRACE):
                await attempt.settled.wait()
        except TimeoutError:
            self._is_silent, attempt.awaited = True, False
        if attempt.refusal is not None:
            raise attempt.refusal

    def noting(self, notification: OnNotification) -> OnNotification:
        """The same, for the unsolicited notifications of a connection, among which the acknowledgment comes."""

        def note(method: str, params: JsonObject) -> None:
            if method == ACKNOWLEDGED:
                self.acknowledge()
            notification(method, params)

        return note

    async def close(self) -> None:
        await self._tasks.close()

    async def _ask(self, resources: Sequence[str], attempt: _Attempt) -> None:
        try:
            await self._connection.request(
                "subscriptions/listen", subscription_params(resources, self._connection.relayed)
            )
        except UpstreamError as problem:  # then it reports no changes
            if resources and is_refusal(problem):
                attempt.refusal = problem
                if not attempt.awaited:  # at least those of its lists
                    self._request = None
                    self._renew(())
        finally:
            attempt.settled.set()


def is_refusal(problem: UpstreamError) -> TypeGuard[Refused]:
    """Whether an upstream refused what it was to report; one that knows no subscriptions reports nothing anyway."""
    return isinstance(problem, Refused) and problem.rpc_code != METHOD_NOT_FOUND


def subscription_params(resources: Sequence[str], relayed: JsonObject | None) -> JsonObject:
    """Parameters that subscribe to changes of all lists and of these resources, and to what these extensions add."""
    notifications: JsonObject = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
    if resources:
        notifications["resourceSubscriptions"] = list(resources)
    return {"notifications": notifications, "_meta": envelope({"extensions": relayed} if relayed else None)}
