"""Running requests, here and in the other processes of one gateway, for the dashboard.

`GET /_replica/under-way` returns ours to another member, which vouches for the principal; no one else is answered. A
principal without `admin` sees only its own requests, in every process. Mounted when there are replicas or workers.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, ValidationError, convert, to_builtins

from wicket_mcp.calls.audit import Audit
from wicket_mcp.model import Principal
from wicket_mcp.surface.guard import Authentication
from wicket_mcp.surface.http import Receive, RequestHeaders, Scope, Send, send_json

PATH = "/_replica/under-way"
_PEER = b"wicket-peer"


class UnderWay(Struct, frozen=True):
    """One request."""

    method: str
    name: str
    """The server and the requested tool, prompt or resource."""
    principal: str
    ms: float


class Load(Struct, frozen=True):
    """The activity at one server, in one process."""

    calls: int = 0
    waiting: int = 0
    restarts: int = 0

    def __add__(self, other: "Load") -> "Load":
        return Load(self.calls + other.calls, self.waiting + other.waiting, self.restarts + other.restarts)


class Glimpse(Struct, frozen=True):
    """The activity in one process."""

    requests: tuple[UnderWay, ...] = ()
    loads: Mapping[str, Load] = {}


def look(audit: Audit, loads: Mapping[str, Load], principal: Principal) -> Glimpse:
    """The activity here that `principal` may see."""
    clock = time.perf_counter()
    visible = (
        entry
        for entry in list(audit.running.values())
        if principal.may("admin") or entry.request.caller.principal.name == principal.name
    )
    requests = [
        UnderWay(
            entry.request.method,
            ".".join(filter(None, (entry.request.span.server, entry.request.span.name or entry.request.name))),
            entry.request.caller.principal.name,
            (clock - entry.started) * 1000,
        )
        for entry in visible
    ]
    return Glimpse(tuple(requests), loads)


def merge(glimpses: Sequence[Glimpse]) -> Glimpse:
    """The activity of all processes, longest running first."""
    loads: dict[str, Load] = {}
    for glimpse in glimpses:
        for server, load in glimpse.loads.items():
            loads[server] = loads.get(server, Load()) + load
    requests = sorted(
        (request for glimpse in glimpses for request in glimpse.requests), key=lambda request: -request.ms
    )
    return Glimpse(tuple(requests), loads)


def read(answer: Any) -> Glimpse:
    """Parse another member's answer; empty if it is invalid."""
    try:
        return convert(answer, Glimpse)
    except ValidationError:
        return Glimpse()


class UnderWayPage:
    """A Mount, for the other members."""

    authentication: Authentication = "required"

    def __init__(self, look: Callable[[Principal], Glimpse]) -> None:
        self._look = look

    def serves(self, path: str) -> bool:
        return path == PATH

    async def __call__(
        self, scope: Scope, headers: RequestHeaders, receive: Receive, send: Send, principal: Principal
    ) -> None:
        if headers.get(_PEER) is None or scope["method"] != "GET":
            await send_json(send, 404, {"error": "Nothing is served at this path. MCP is at /mcp."})
        else:
            await send_json(send, 200, to_builtins(self._look(principal)))
