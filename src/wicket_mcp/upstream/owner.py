"""A server whose process another gateway owns: reached through that one, by plain MCP of the modern era.

`OwnerConnection` sends every request to the owner, with the epoch of its claim and a word of ours about who asks. What
the owner refuses, or does not get, was not sent: the supervisor connects anew, which asks again who owns the server.
`OwnedChild` is the other side of it, a child of our own that is released once it is gone. Made by `connector.py`.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any
from urllib.parse import quote, urlsplit

from wicket_mcp.config.model.config import ServerConfig
from wicket_mcp.errors import Crashed, NotSent, Overloaded, Refused, TimedOut, Unavailable, UpstreamError, WicketError
from wicket_mcp.model import JsonObject, Principal, as_object, as_text
from wicket_mcp.request import GATEWAY
from wicket_mcp.rpc import NO_CALLBACKS, Callbacks
from wicket_mcp.upstream.connection import Connection, Host
from wicket_mcp.upstream.egress import Answer, Endpoint, HttpClient
from wicket_mcp.upstream.http import HttpConnection
from wicket_mcp.upstream.http_errors import http_status
from wicket_mcp.upstream.ownership import Claim

PATH = "/owned/"
EPOCH = "Wicket-Epoch"
NOT_THE_OWNER = 409

ASKING: ContextVar[Principal] = ContextVar("asking", default=GATEWAY)
"""For whom the request is that is being sent; set by the pool."""

Vouch = Callable[[Principal, str, str], Mapping[str, str]]
"""The headers by which an owner believes us who asks: principal, HTTP method, path."""


class OwnerConnection(HttpConnection):
    """A Connection to the owner of a server."""

    def __init__(
        self, server: str, claim: Claim, client: HttpClient, host: Host, *, max_message: int, vouch: Vouch
    ) -> None:
        self._vouch = vouch
        headers = {EPOCH: str(claim.epoch)}
        super().__init__(
            server, f"{claim.address}{PATH}{quote(server)}", headers, client, host, max_message=max_message
        )

    async def request(
        self,
        method: str,
        params: JsonObject,
        callbacks: Callbacks = NO_CALLBACKS,
        headers: Mapping[str, str] | None = None,
    ) -> JsonObject:
        try:
            return await super().request(method, params, callbacks, headers)
        except Refused as refusal:
            raise _rebuild(self._server, refusal) from None
        except Unavailable as problem:
            if http_status(problem) not in (None, NOT_THE_OWNER):
                raise
            text = f"Server '{self._server}' has another owner than before; nothing was sent."
            moved = NotSent(self._server, text, hint="Try again; it is found anew.")
            self._cut(moved)
            raise moved from None

    async def _send(
        self, verb: str, endpoint: Endpoint, headers: Mapping[str, str], body: bytes | None = None
    ) -> Answer:
        word = self._vouch(ASKING.get(), verb, urlsplit(endpoint.url).path)
        return await super()._send(verb, endpoint, {**headers, **word}, body)


class OwnedChild:
    """A Connection to a child of ours that is released once it is gone."""

    def __init__(self, child: Connection, release: Callable[[], Awaitable[None]]) -> None:
        self._child = child
        self._release = release

    def __getattr__(self, name: str) -> Any:
        return getattr(self._child, name)

    def __repr__(self) -> str:
        return f"<OwnedChild {self._child!r}>"

    async def request(
        self,
        method: str,
        params: JsonObject,
        callbacks: Callbacks = NO_CALLBACKS,
        headers: Mapping[str, str] | None = None,
    ) -> JsonObject:
        return await self._child.request(method, params, callbacks, headers)

    async def listen(self, resources: Sequence[str] = ()) -> None:
        await self._child.listen(resources)

    async def close(self) -> None:
        await self._child.close()
        await self._release()


def ownership_key(server: ServerConfig, principal: Principal) -> str:
    """What is claimed for a server's process: one for all, or one for each user."""
    return f"{server.name} for {principal.name}" if server.credentials == "user" else server.name


def _rebuild(server: str, refusal: Refused) -> WicketError:
    """What went wrong at the owner, as it was there; a server's own error stays one."""
    code = as_text(as_object(refusal.error.get("data")).get("code"))
    kinds: dict[str, type[UpstreamError]] = {"unavailable": Unavailable, "crashed": Crashed, "timed_out": TimedOut}
    if code in kinds:
        return kinds[code](server, refusal.message)
    return Overloaded(refusal.message) if code == "overloaded" else refusal
