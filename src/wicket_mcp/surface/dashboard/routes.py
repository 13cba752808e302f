"""The addresses of the dashboard: which page or form is at which, and the scope that it needs.

`mount.py` finds a route here; `ACTIONS` in `actions.py` has those of the forms. Every address under `/ui` but those of
signing in and out, and of static files, is in one of the two tables.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from msgspec import Struct

from wicket_mcp.errors import Denied, UnknownName
from wicket_mcp.model import JsonObject, Principal
from wicket_mcp.surface.dashboard.pages import Pages
from wicket_mcp.trust.policy import demand


class Route(Struct, frozen=True):
    """An address below `/ui`, in which `*` stands for a name, and who may use it."""

    address: str
    scope: str = ""
    """The scope that it needs beyond being signed in."""
    refusal: str = "This page is for administrators."

    def check(self, principal: Principal) -> None:
        """Raises Denied unless `principal` has the scope."""
        if self.scope == "admin" and not principal.may("admin"):
            raise Denied(self.refusal, hint="Sign in with a key that has the scope 'admin', and no profile.")
        if self.scope:
            demand(principal, self.scope, "this page")


class Page(Route, frozen=True, kw_only=True):
    """A page, and where its values come from. Its template has the name of the address."""

    show: Callable[..., Awaitable[JsonObject]]
    """Gets the pages, the principal, the query, and the names in the address."""


ROUTES: Sequence[Page] = (
    Page("overview", show=Pages.overview),
    Page("servers", show=Pages.servers),
    Page("servers/*", "discover", show=Pages.server),
    Page("search", show=Pages.search),
    Page("tools", show=Pages.tools),
    Page("tools/*", "discover", show=Pages.tool),
    Page("activity", show=Pages.activity),
    Page("tokens", show=Pages.tokens),
    Page("approvals", "admin", show=Pages.approvals),
    Page("access", show=Pages.access),
    Page("settings", "admin", show=Pages.settings),
)

AnyRoute = TypeVar("AnyRoute", bound=Route)


def find_route(routes: Sequence[AnyRoute], parts: Sequence[str]) -> tuple[AnyRoute, Sequence[str]]:
    """The route of an address, and the names in it. Raises UnknownName."""
    for route in routes:
        pattern = route.address.split("/")
        if len(pattern) == len(parts) and all(part in ("*", name) for part, name in zip(pattern, parts, strict=True)):
            return route, [name for part, name in zip(pattern, parts, strict=True) if part == "*"]
    raise UnknownName("page", "/".join(parts)[:100])
