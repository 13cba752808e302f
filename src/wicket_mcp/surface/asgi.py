"""The HTTP surface: a list of mounted applications, and the guard in front of every one.

    /mcp, /mcp/<dialect>          MCP (`streamable_http.py`)
    /healthz, /readyz             alive; ready for calls (`Health`)
    /oauth/…                      signing in to servers behind us (`callback.py`)
    /v0.1/…, /openapi.json        the registry's API (`rest.py`)
    /ui/…                         pages for people (`dashboard/`)
    /metrics                      what Prometheus reads (`metrics.py`)
    /.well-known/oauth-…          which authorization servers we accept (`front_door.py`)
    /oauth/…                      our own authorization server (`authorization.py`)

Each mounted application knows its own paths, and the first one that serves a path answers. Knows nothing about MCP.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from wicket_mcp.model import Principal
from wicket_mcp.surface.cors import answer_preflight, is_preflight, readable
from wicket_mcp.surface.guard import Authentication, Guard, Rejected
from wicket_mcp.surface.http import (
    Disconnected,
    Receive,
    RequestHeaders,
    Scope,
    Send,
    read_again,
    read_body,
    send_json,
)


class Vouched(Protocol):
    """What another replica states about the principal of a request."""

    @property
    def principal(self) -> Principal: ...

    def fits(self, body: bytes) -> bool:
        """Whether it was stated for this body."""
        ...


OnRejected = Callable[[str, str], None]
"""Gets the client's address and the reason."""


class Mount(Protocol):
    """An application that serves certain paths."""

    @property
    def authentication(self) -> Authentication:
        """Whether the guard asks for a token before anything here runs."""
        ...

    def serves(self, path: str) -> bool: ...

    async def __call__(
        self, scope: Scope, headers: RequestHeaders, receive: Receive, send: Send, principal: Principal
    ) -> None: ...


class App:
    """The ASGI application."""

    def __init__(
        self,
        mounts: Sequence[Mount],
        guard: Guard,
        on_rejected: OnRejected = lambda client, reason: None,
        *,
        vouched: Callable[[str, str, str], Vouched | None] | None = None,
        max_body: int = 0,
    ) -> None:
        """`on_rejected` is called for every request that the guard rejects. With replicas, `vouched` returns the
        statement of another replica (header, method and path), whose body may have `max_body` bytes.
        """
        self._on_rejected = on_rejected
        self._vouched = vouched
        self._max_body = max_body
        self._mounts = mounts
        self._guard = guard

    async def identify(self, token: str) -> Principal | None:
        """The principal of this token under the current configuration; None if the token is unknown."""
        headers = RequestHeaders([(b"host", b"localhost"), (b"authorization", b"Bearer " + token.encode())])
        principal = await self._guard.identify(headers)
        return None if isinstance(principal, Rejected) else principal

    def reconfigure(self, mounts: Sequence[Mount], guard: Guard) -> None:
        """Serve these mounts with this guard from the next request on."""
        self._mounts, self._guard = mounts, guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        path: str = scope["path"]
        for mount in self._mounts:
            if mount.serves(path):
                break
        else:
            mount = None
        headers = RequestHeaders(scope["headers"])
        client: str = (scope.get("client") or ("",))[0]
        authentication = "required" if mount is None else mount.authentication
        if self._vouched is not None and mount is not None and (peer := headers.get(b"wicket-peer")) is not None:
            body = b""
            if (vouched := self._vouched(peer, scope["method"], path)) is not None and scope["method"] == "POST":
                try:
                    body = await read_body(receive, headers, self._max_body)
                except Disconnected:
                    return
            if vouched is not None and vouched.fits(body):
                await mount(scope, headers, read_again(body, receive), send, vouched.principal)
            else:
                self._on_rejected(client, f"401 {scope['method']} {path[:100]}: not a replica of this gateway")
                await send_json(send, 401, {"error": "This was not sent by a replica of this gateway."})
            return
        if b"origin" in headers:
            if is_preflight(scope["method"], headers):
                await self._allow_page(send, headers, "open" if authentication == "open" else "none")
                return
            if authentication not in ("open", "none") and not isinstance(self._guard.admit(headers, "none"), Rejected):
                send = readable(send, headers)
        principal = await self._guard.identify(headers, authentication, client)
        if isinstance(principal, Rejected):
            self._on_rejected(client, f"{principal.status} {scope['method']} {path[:100]}: {principal.message}")
            challenge = self._guard.challenge(principal, headers, path)
            await send_json(send, principal.status, {"error": principal.message}, challenge)
        elif mount is None:
            await send_json(send, 404, {"error": "Nothing is served at this path. MCP is at /mcp."})
        else:
            await mount(scope, headers, receive, send, principal)

    async def _allow_page(self, send: Send, headers: RequestHeaders, authentication: Authentication) -> None:
        """Answer a browser's preflight request. This needs no token."""
        verdict = self._guard.admit(headers, authentication)
        if isinstance(verdict, Rejected):
            await send_json(send, verdict.status, {"error": verdict.message})
        else:
            await answer_preflight(send, headers, everybody=authentication == "open")


@dataclass(frozen=True, slots=True)
class Health:
    """Health checks. They need no token. `closing` is set when we are about to stop.

    HAProxy ends what is in flight at a server that it marks as down, which is right only for one that does not answer.
    `/readyz?drain` answers 404 instead of 503: send nothing new, and let what is there end.
    """

    closing: asyncio.Event
    problem: Callable[[], str] = lambda: ""
    """Why calls should not come here at the moment; empty when they should."""
    warning: Callable[[], str] = lambda: ""
    """A problem that needs attention although calls still work; empty when there is none."""
    authentication: Authentication = "none"

    def serves(self, path: str) -> bool:
        return path in ("/healthz", "/readyz")

    async def __call__(
        self, scope: Scope, headers: RequestHeaders, receive: Receive, send: Send, principal: Principal
    ) -> None:
        if scope["path"] == "/healthz":
            await send_json(send, 200, {"status": "ok"})
        elif problem := "leaving" if self.closing.is_set() else self.problem():
            await send_json(send, 404 if scope.get("query_string") == b"drain" else 503, {"status": problem})
        elif warning := self.warning():
            await send_json(send, 200, {"status": "ready", "warning": warning})
        else:
            await send_json(send, 200, {"status": "ready"})
