"""Stored results for the other gateways of a cluster: one of them may have a result only in memory.

`GET /_replica/results/ID` returns a result to another member, which vouches for the principal; no one else is answered,
and no other principal's result is found. Mounted when there are replicas or workers; `replicas.py` asks.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import ValidationError, convert, to_builtins

from wicket_mcp.model import Principal
from wicket_mcp.store.model import StoredResult
from wicket_mcp.surface.guard import Authentication
from wicket_mcp.surface.http import Receive, RequestHeaders, Scope, Send, send_json

PATH = "/_replica/results/"
_PEER = b"wicket-peer"


def read(answer: Any) -> StoredResult | None:
    """Another member's answer; None if it has no such result."""
    try:
        return None if answer is None else convert(answer, StoredResult)
    except ValidationError:
        return None


class ResultPage:
    """A Mount, for the other members."""

    authentication: Authentication = "required"

    def __init__(self, load: Callable[[str, Principal], Awaitable[StoredResult | None]]) -> None:
        self._load = load

    def serves(self, path: str) -> bool:
        return path.startswith(PATH)

    async def __call__(
        self, scope: Scope, headers: RequestHeaders, receive: Receive, send: Send, principal: Principal
    ) -> None:
        if headers.get(_PEER) is None or scope["method"] != "GET":
            await send_json(send, 404, {"error": "Nothing is served at this path. MCP is at /mcp."})
            return
        stored = await self._load(scope["path"].removeprefix(PATH), principal)
        if stored is None:
            await send_json(send, 404, {"error": "There is no such result here."})
        else:
            await send_json(send, 200, to_builtins(stored))
