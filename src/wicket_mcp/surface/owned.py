"""Servers whose process we own, for the gateways that serve beside us: a path for each, plain MCP of the modern era.

A request goes to the last layer and from there to the server: who sent it has done all else. What the server asks on
the way ends the answer with `input_required`, as everywhere in this era. A request under another epoch than that of
our claim is refused before anything is done. Only members come here (`asgi.py`): they vouch for who asks.
"""

from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import NamedTuple
from urllib.parse import unquote

from wicket_mcp.codec import decode
from wicket_mcp.errors import INVALID_PARAMS, METHOD_NOT_FOUND
from wicket_mcp.model import META_SUBSCRIPTION, Caller, JsonObject, Principal, as_list, as_object, as_text
from wicket_mcp.request import Handler, Span
from wicket_mcp.request import Request as Forwarded
from wicket_mcp.surface.exchange import Exchange
from wicket_mcp.surface.guard import Authentication
from wicket_mcp.surface.held_calls import ANSWERS
from wicket_mcp.surface.http import (
    CONNECTION,
    Disconnected,
    Receive,
    RequestHeaders,
    Scope,
    Send,
    read_body,
    send_json,
)
from wicket_mcp.surface.outbox import Counters
from wicket_mcp.surface.problems import RpcProblem
from wicket_mcp.surface.protocol import Protocol, Request, is_modern, modern_caller, read_message

PATH = "/owned/"
_EPOCH = b"wicket-epoch"
_PEER = b"wicket-peer"
_RESUMABLE = frozenset({"tools/call", "prompts/get", "resources/read"})

Event = Callable[[str, JsonObject], None]
"""Hears what a server says unasked: method and parameters."""


class Owned(NamedTuple):
    """What a member may do with our servers."""

    epoch: Callable[[str, Principal], int]
    """That of our claim of a server, for who asks; 0 where we do not own it."""
    discover: Callable[[str, Principal], Awaitable[JsonObject]]
    """What a server said of itself."""
    forward: Handler
    listen: Callable[[str, Event], Callable[[], None]]
    """Have somebody hear a server, until what is returned is called."""
    watch: Callable[[str, str, Principal], Awaitable[Callable[[], None]]]
    """Have a server tell of changes to a resource, until what is returned is called."""


class OwnedServers:
    """See the module's docstring."""

    authentication: Authentication = "required"

    def __init__(self, owned: Owned, protocol: Protocol, max_body: int, counters: Counters) -> None:
        """`protocol` has what all that we serve share: the calls that wait for their client, and when we leave."""
        self._owned = owned
        self._protocol = protocol
        self._max_body = max_body
        self._counters = counters

    def serves(self, path: str) -> bool:
        return path.startswith(PATH)

    async def __call__(
        self, scope: Scope, headers: RequestHeaders, receive: Receive, send: Send, principal: Principal
    ) -> None:
        server = unquote(scope["path"].removeprefix(PATH))
        if headers.get(_PEER) is None or scope["method"] != "POST":
            await send_json(send, 404, {"error": "Nothing is served at this path. MCP is at /mcp."})
            return
        if headers.get(_EPOCH) != str(self._owned.epoch(server, principal)):
            await send_json(send, 409, {"error": "This gateway does not own the server under this epoch."})
            return
        try:
            body = read_message(decode(await read_body(receive, headers, self._max_body), strict=True))
            if "id" not in body or not is_modern(body):
                await send_json(send, 202, None)
                return
        except Disconnected:
            return
        except (RpcProblem, ValueError) as problem:
            await send_json(send, 400, {"error": str(problem)})
            return
        exchange = Exchange(send, self._counters, scope.get(CONNECTION))
        params: JsonObject = body["params"]
        caller = modern_caller(principal, f"owned {principal.name}", exchange.post, as_object(params["_meta"]))
        protocol = _OwnedServer(self._protocol, self._owned, server)
        await exchange.run(protocol, Request(body["id"], body["method"], params, caller, modern=True))


class _OwnedServer(Protocol):
    """The methods of one server."""

    def __init__(self, shared: Protocol, owned: Owned, server: str) -> None:
        super().__init__(shared.serving, shared.names, shared.feed, shared.held, shared.tasks, shared.closing)
        self._owned = owned
        self._server = server

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
        params = {key: value for key, value in request.params.items() if key not in ("_meta", *ANSWERS)}
        forwarded = Forwarded(
            method=request.method,
            caller=caller,
            params=params,
            server=self._server,
            meta=request.meta,
            resume=resume,
            span=Span(self._server),
        )
        return (await self._owned.forward(forwarded)).body

    async def listen(self, request: Request, caller: Caller, resume: JsonObject) -> JsonObject:
        wanted = as_object(request.params.get("notifications"))
        if not wanted:
            raise RpcProblem(INVALID_PARAMS, "subscriptions/listen needs 'notifications' (object).")
        meta: JsonObject = {META_SUBSCRIPTION: request.id}

        def hear(method: str, params: JsonObject) -> None:
            if method.startswith("notifications/"):
                caller.notify(method, {**params, "_meta": {**as_object(params.get("_meta")), **meta}})

        with ExitStack() as undo:
            undo.callback(self._owned.listen(self._server, hear))
            caller.notify("notifications/subscriptions/acknowledged", {"notifications": wanted, "_meta": meta})
            for uri in as_list(wanted.get("resourceSubscriptions")):
                undo.callback(await self._owned.watch(self._server, as_text(uri), caller.principal))
            await self.closing.wait()
        return {"_meta": meta}
