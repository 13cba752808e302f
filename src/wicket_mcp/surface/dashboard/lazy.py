"""A Mount that stands in for the dashboard until it is loaded, in a thread: other requests need not wait for it."""

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import Protocol

from wicket_mcp.model import Principal
from wicket_mcp.surface.asgi import Mount
from wicket_mcp.surface.dashboard.sessions import ROOT
from wicket_mcp.surface.guard import Authentication
from wicket_mcp.surface.http import Receive, RequestHeaders, Scope, Send
from wicket_mcp.tasks import Tasks

MODULE = "wicket_mcp.surface.dashboard.mount"


class Preparable(Mount, Protocol):
    """The real dashboard."""

    async def prepare(self) -> None: ...


class LazyDashboard:
    """A Mount. `make` creates the real one; its modules are loaded by then."""

    authentication: Authentication = "none"  # a browser sends a cookie, which the dashboard checks itself

    def __init__(self, make: Callable[[], Preparable], tasks: Tasks) -> None:
        self._make = make
        self._tasks = tasks
        self._loading: asyncio.Task[Preparable] | None = None

    def serves(self, path: str) -> bool:
        return path == ROOT or path.startswith(f"{ROOT}/")

    async def load(self) -> Preparable:
        """The dashboard, loaded once for all who ask; what its pages need is prepared from then on."""
        if self._loading is None:
            self._loading = self._tasks.start(self._load(), "load the dashboard", awaited=True)
        return await asyncio.shield(self._loading)  # for the others, if this visitor leaves

    async def __call__(
        self, scope: Scope, headers: RequestHeaders, receive: Receive, send: Send, principal: Principal
    ) -> None:
        await (await self.load())(scope, headers, receive, send, principal)

    async def _load(self) -> Preparable:
        await asyncio.to_thread(import_module, MODULE)
        dashboard = self._make()
        self._tasks.start(dashboard.prepare(), "prepare the dashboard")
        return dashboard
