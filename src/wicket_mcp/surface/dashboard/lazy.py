"""A Mount that stands in for the dashboard until a user opens it, so that templates are loaded only when needed."""

from collections.abc import Callable

from wicket_mcp.model import Principal
from wicket_mcp.surface.asgi import Mount
from wicket_mcp.surface.dashboard.sessions import ROOT
from wicket_mcp.surface.guard import Authentication
from wicket_mcp.surface.http import Receive, RequestHeaders, Scope, Send


class LazyDashboard:
    """A Mount. `make` loads and creates the real one."""

    authentication: Authentication = "none"  # a browser sends a cookie, which the dashboard checks itself

    def __init__(self, make: Callable[[], Mount]) -> None:
        self._make = make
        self._dashboard: Mount | None = None

    def serves(self, path: str) -> bool:
        return path == ROOT or path.startswith(f"{ROOT}/")

    async def __call__(
        self, scope: Scope, headers: RequestHeaders, receive: Receive, send: Send, principal: Principal
    ) -> None:
        if self._dashboard is None:
            self._dashboard = self._make()
        await self._dashboard(scope, headers, receive, send, principal)
