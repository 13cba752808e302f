"""The Mount that stands for the dashboard until somebody opens it: templates are not loaded for those who never do."""

from collections.abc import Callable

from wicket_mcp.model import Principal
from wicket_mcp.surface.asgi import Mount
from wicket_mcp.surface.guard import Authentication
from wicket_mcp.surface.http import Receive, RequestHeaders, Scope, Send

ROOT = "/ui"


class LazyDashboard:
    """A Mount. `make` loads and makes the real one."""

    authentication: Authentication = "none"  # a browser sends a cookie, which the dashboard itself judges

    def __init__(self, make: Callable[[], Mount]) -> None:
        self._make = make
        self._made: Mount | None = None

    def serves(self, path: str) -> bool:
        return path == ROOT or path.startswith(f"{ROOT}/")

    async def __call__(
        self, scope: Scope, headers: RequestHeaders, receive: Receive, send: Send, principal: Principal
    ) -> None:
        if self._made is None:
            self._made = self._make()
        await self._made(scope, headers, receive, send, principal)
