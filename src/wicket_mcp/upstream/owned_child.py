"""A child that we run as the owner of its server: used only while our claim holds, and released once it has ended.

A claim can end at any moment, and a process that stood still does not know it yet: so every request asks first. However
the child ends (stopped, crashed, left), its claim is released when its process is gone. Created by `connector.py`.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from wicket_mcp.errors import Moved, UpstreamError
from wicket_mcp.model import JsonObject
from wicket_mcp.rpc import NO_CALLBACKS, Callbacks
from wicket_mcp.upstream.connection import Connection, Host


class OwnedChild:
    """The Connection to our child."""

    def __init__(
        self, server: str, child: Connection, is_ours: Callable[[], bool], release: Callable[[], Awaitable[None]]
    ) -> None:
        self._server = server
        self._child = child
        self._is_ours = is_ours
        self._release = release

    def __getattr__(self, name: str) -> Any:
        return getattr(self._child, name)

    def __repr__(self) -> str:
        return f"<OwnedChild {self._child!r}>"

    def request(
        self, method: str, params: JsonObject, callbacks: Callbacks = NO_CALLBACKS, headers: Any = None
    ) -> Awaitable[JsonObject]:
        if not self._is_ours():
            text = f"Server '{self._server}' now has another owner. Nothing was sent."
            raise Moved(self._server, text, hint="Try again; its owner is looked up again.")
        return self._child.request(method, params, callbacks, headers)

    async def close(self) -> None:
        await self._child.close()
        await self._release()


class ChildHost:
    """The Host of such a child: learns as well when it has ended by itself."""

    def __init__(self, host: Host, on_ended: Callable[[], None]) -> None:
        self._host = host
        self._on_ended = on_ended

    @property
    def fails_often(self) -> bool:
        return self._host.fails_often

    @property
    def is_called(self) -> bool:
        return self._host.is_called

    def notification(self, method: str, params: JsonObject) -> None:
        self._host.notification(method, params)

    async def request(self, method: str, params: JsonObject) -> JsonObject:
        return await self._host.request(method, params)

    def on_closed(self, reason: UpstreamError) -> None:
        self._on_ended()
        self._host.on_closed(reason)
