"""Serves the servers whose process we own to the other gateways of the cluster: plain modern MCP, line by line.

A member requests a server at its path, with the epoch of our claim. If the epoch matches, HTTP hands the connection to
a `PeerLink`, over which requests then come (`upstream/owner.py` is the other end). A request goes only through the last
layer to the server: the sender has done everything else. A question from the server ends the answer with
`input_required`, as everywhere in this era. A request with another epoch, or one that comes while we shut down, is
rejected before anything is done. Only members may connect here (`asgi.py`), and we trust them about the principal.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, NamedTuple, cast
from urllib.parse import unquote

from wicket_mcp.errors import INVALID_PARAMS, METHOD_NOT_FOUND, WicketError
from wicket_mcp.framing import LineFramer
from wicket_mcp.model import META_SUBSCRIPTION, Caller, JsonObject, Principal, as_list, as_object, as_text
from wicket_mcp.request import GATEWAY, Handler, Span
from wicket_mcp.request import Request as Forwarded
from wicket_mcp.surface.guard import Authentication
from wicket_mcp.surface.held_calls import ANSWERS
from wicket_mcp.surface.http import CONNECTION, Connection, Receive, RequestHeaders, Scope, Send, send_json
from wicket_mcp.surface.outbox import Counters
from wicket_mcp.surface.problems import RpcProblem
from wicket_mcp.surface.protocol import Protocol, Request, modern_caller
from wicket_mcp.surface.stdio import DRAIN, DuplexClient
from wicket_mcp.tasks import Tasks

PATH = "/owned/"
UPGRADE = "wicket-owned"
MOVED = "moved"
LEAVING = "notifications/wicket/leaving"
ENVELOPE = 1024 * 1024
_EPOCH = b"wicket-epoch"
_PEER = b"wicket-peer"
_RESUMABLE = frozenset({"tools/call", "prompts/get", "resources/read"})
_SWITCH = f"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: {UPGRADE}\r\n\r\n".encode()
_NOT_OURS = "This gateway does not run the server under this epoch, or is leaving."

Event = Callable[[str, JsonObject], None]
"""Receives the unsolicited notifications of a server: method and parameters."""


class Owned(NamedTuple):
    """What a member may do with our servers."""

    epoch: Callable[[str, Principal], int]
    """The epoch of our claim on a server for this principal; 0 if we do not own it."""
    locate: Callable[[str, Principal], Awaitable[JsonObject]]
    """Which process runs a server, with the epoch; starts the server if needed. For a member that cannot find out by
    itself.
    """
    discover: Callable[[str, Principal], Awaitable[JsonObject]]
    """The server's `server/discover` result."""
    forward: Handler
    listen: Callable[[str, Principal, Event], Callable[[], None]]
    """Subscribe to a server's notifications until the returned function is called."""
    watch: Callable[[str, str, Principal], Awaitable[Callable[[], None]]]
    """Subscribe to changes of a server's resource until the returned function is called."""


class PeerLinks:
    """The connections over which other members use our servers."""

    def __init__(self, admit: Callable[[str, str], Principal | None], counters: Counters) -> None:
        """`admit` returns the principal of a member's statement on the connection that it opened with another one."""
        self.admit = admit
        self.counters = counters
        self.leaving = False
        self._links: set[PeerLink] = set()
        self._tasks = Tasks()

    def __len__(self) -> int:
        return len(self._links)

    def begin(self, link: "PeerLink") -> None:
        self._links.add(link)
        self._tasks.start(self._serve(link), "serve a member")

    async def _serve(self, link: "PeerLink") -> None:
        try:
            await link.finished.wait()
        finally:
            self._links.discard(link)
            await link.close()

    async def leave(self) -> None:
        """Accept nothing more and finish what was accepted; then members know that they must look for another owner."""
        self.leaving = True
        for link in self._links:
            link.leave()
        await asyncio.gather(*(link.answer_all(DRAIN) for link in self._links))
        await self._tasks.close()


class OwnedServers:
    """See the module's docstring."""

    authentication: Authentication = "required"

    def __init__(self, owned: Owned, protocol: Protocol, max_message: int, links: PeerLinks) -> None:
        """`protocol` has what all our surfaces share: the held calls and the shutdown state."""
        self._owned = owned
        self._protocol = protocol
        self._max_message = max_message
        self._links = links

    def serves(self, path: str) -> bool:
        return path.startswith(PATH)

    async def __call__(
        self, scope: Scope, headers: RequestHeaders, receive: Receive, send: Send, principal: Principal
    ) -> None:
        server = unquote(scope["path"].removeprefix(PATH))
        if headers.get(_PEER) is None or scope["method"] not in ("POST", "GET"):
            await send_json(send, 404, {"error": "Nothing is served at this path. MCP is at /mcp."})
            return
        if scope["method"] == "GET":
            try:
                await send_json(send, 200, await self._owned.locate(server, principal))
            except WicketError as problem:
                await send_json(send, 503, {"error": str(problem)})
            return
        epoch = self._owned.epoch(server, principal)
        if self._links.leaving or not epoch or headers.get(_EPOCH) != str(epoch):
            await send_json(send, 409, {"error": _NOT_OURS})
            return
        connection: Connection | None = scope.get(CONNECTION)
        if headers.get(b"upgrade") != UPGRADE or connection is None:
            await send_json(send, 400, {"error": f"Upgrade to {UPGRADE}."})
            return
        owned_server = _OwnedServer(self._protocol, self._owned, server)
        link = PeerLink(owned_server, self._max_message, self._links, headers.get(_PEER) or "")
        link.attach(connection.switch(link, _SWITCH))
        self._links.begin(link)


class PeerLink(DuplexClient):
    """One member's connection to one of our servers. Lines are as over stdio (`stdio.py`)."""

    def __init__(self, protocol: "_OwnedServer", max_message: int, links: PeerLinks, opened_with: str) -> None:
        """`opened_with` is the statement with which the member opened it."""
        super().__init__(protocol, GATEWAY, links.counters, "owned")
        self._framer = LineFramer(max_message + ENVELOPE)
        self._server = protocol
        self._links = links
        self._opened_with = opened_with

    def leave(self) -> None:
        self._send({"jsonrpc": "2.0", "method": LEAVING})

    async def answer_all(self, within: float) -> None:
        """Wait until the member hangs up, which it does when all is answered, or until the time is over."""
        tasks = Tasks()
        await asyncio.wait({tasks.start(self.finished.wait(), "member leaves")}, timeout=within)
        await tasks.close()

    # Called by the event loop

    def eof_received(self) -> bool:
        self.on_vanished()
        return False

    # Our own methods

    def _handle(self, message: Any) -> None:
        """Begin a member's request. The member has checked the message; the principal and the epoch are checked
        here.
        """
        body = cast("JsonObject", message)
        method: str = body["method"]
        number = body.get("id")
        if method == "notifications/cancelled":
            self._take_notification(body)
            return
        principal = self._links.admit(self._opened_with, body["as"])
        if principal is None or self._links.leaving or not self._server.is_owned(principal, body["epoch"]):
            if number is not None:
                error = {"code": INVALID_PARAMS, "message": _NOT_OURS, "data": {"code": MOVED}}
                self._send({"jsonrpc": "2.0", "id": number, "error": error})
            return
        params: JsonObject = body["params"]
        meta = as_object(params.get("_meta"))
        caller = modern_caller(principal, f"owned {principal.id}", partial(self._tell, number), meta)
        request = Request(number, method, params, caller, modern=True)
        if number is None:
            self._tasks.start(self._server.notify(request), method)
        else:
            self._running[number] = self._tasks.start(self._serve(request), method)

    def _tell(self, number: Any, message: JsonObject) -> None:
        """Send a message that belongs to a request, before its answer."""
        self._send({**message, "for": number})


class _OwnedServer(Protocol):
    """The methods of one server."""

    def __init__(self, shared: Protocol, owned: Owned, server: str) -> None:
        super().__init__(shared.serving, shared.names, shared.feed, shared.held, shared.tasks, shared.closing)
        self._owned = owned
        self._server = server

    def is_owned(self, principal: Principal, epoch: int) -> bool:
        return bool(epoch) and epoch == self._owned.epoch(self._server, principal)

    async def notify(self, request: Request) -> None:
        """Forward a notification; its sender gets no answer."""
        with suppress(WicketError):
            await self._owned.forward(self._build_request(request, request.caller, {}, notification=True))

    async def _answer(self, request: Request) -> JsonObject:
        if request.method == "server/discover":
            return await self._owned.discover(self._server, request.caller.principal)
        if request.method == "subscriptions/listen":
            return await self.listen(request, request.caller, {})

        async def forward(_: Protocol, request: Request, caller: Caller, resume: JsonObject) -> JsonObject:
            return await self._forward(request, caller, resume)

        if request.method in _RESUMABLE and (request.caller.capabilities or "requestState" in request.params):
            return await self._resumable(forward, request)
        return await self._forward(request, request.caller, {})

    async def _forward(self, request: Request, caller: Caller, resume: JsonObject) -> JsonObject:
        if request.method.startswith("notifications/"):
            raise RpcProblem(METHOD_NOT_FOUND, f"Method not found: {request.method}")
        return (await self._owned.forward(self._build_request(request, caller, resume))).body

    def _build_request(
        self, request: Request, caller: Caller, resume: JsonObject, *, notification: bool = False
    ) -> Forwarded:
        return Forwarded(
            method=request.method,
            caller=caller,
            params={key: value for key, value in request.params.items() if key not in ("_meta", *ANSWERS)},
            server=self._server,
            meta=request.meta,
            resume=resume,
            notification=notification,
            span=Span(self._server),
        )

    async def listen(self, request: Request, caller: Caller, resume: JsonObject) -> JsonObject:
        requested = as_object(request.params.get("notifications"))
        if not requested:
            raise RpcProblem(INVALID_PARAMS, "subscriptions/listen needs 'notifications' (object).")
        meta: JsonObject = {META_SUBSCRIPTION: request.id}

        def hear(method: str, params: JsonObject) -> None:
            caller.notify(method, {**params, "_meta": {**as_object(params.get("_meta")), **meta}})

        with ExitStack() as undo:
            for uri in as_list(requested.get("resourceSubscriptions")):
                undo.callback(await self._owned.watch(self._server, as_text(uri), caller.principal))
            undo.callback(self._owned.listen(self._server, caller.principal, hear))
            caller.notify("notifications/subscriptions/acknowledged", {"notifications": requested, "_meta": meta})
            await self.closing.wait()
        return {"_meta": meta}
