"""MCP over HTTP, for both eras: one message for each POST, answered with JSON or an event stream.

    POST         one message
    GET, DELETE  a legacy session's stream, and its end

The body decides. In the modern era the routing headers must repeat what the body says, else the request is rejected.
The guard has authenticated the request before anything here runs.
"""

import asyncio
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from wicket_mcp.budget import MAX_VALUES
from wicket_mcp.codec import LARGE, decode
from wicket_mcp.dialects.base import Named
from wicket_mcp.errors import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    Denied,
    Internal,
    Overloaded,
)
from wicket_mcp.lanes import Lane
from wicket_mcp.large_json import THREADS, decode_off_loop
from wicket_mcp.model import (
    META_VERSION,
    MODERN_VERSION,
    JsonObject,
    Principal,
    Silent,
    as_object,
    as_text,
)
from wicket_mcp.schema.headers import PREFIX, decode_header, disagreement
from wicket_mcp.surface.admission import Admission
from wicket_mcp.surface.exchange import STATUS_OF_ERROR, Exchange
from wicket_mcp.surface.front_door import OFFERED, FrontDoor
from wicket_mcp.surface.guard import Authentication
from wicket_mcp.surface.http import (
    CONNECTION,
    BodyTooLarge,
    Connection,
    Disconnected,
    Headers,
    Receive,
    RequestHeaders,
    Scope,
    Send,
    read_body,
    send_json,
    wait_until_left,
)
from wicket_mcp.surface.notifications import concerns_server, pass_on
from wicket_mcp.surface.problems import RpcProblem
from wicket_mcp.surface.protocol import Protocol, Request, error_response, is_modern, modern_caller, read_message
from wicket_mcp.surface.sessions import HttpSession, Sessions
from wicket_mcp.tasks import Tasks

if TYPE_CHECKING:
    from wicket_mcp.surface.replica_router import ReplicaRouter

_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"} | dict.fromkeys(
    ("tasks/get", "tasks/update", "tasks/cancel"), "taskId"
)
_ROUTING = frozenset({b"mcp-protocol-version", b"mcp-method", b"mcp-name"})
_PARAMETER = PREFIX.encode()
_SESSION = b"mcp-session-id"
MAX_LISTENING = 1000
"""Subscriptions that one principal may have open."""
_BUSY: JsonObject = {"error": "The gateway is overloaded. Try again after Retry-After seconds."}


class StreamableHttp:
    """MCP over HTTP, at a path for each protocol."""

    authentication: Authentication = "required"

    def __init__(
        self,
        protocols: Mapping[str, Protocol],
        sessions: Sessions,
        max_body: int,
        admission: Admission,
        door: FrontDoor | None = None,
        router: "ReplicaRouter | None" = None,
    ) -> None:
        """`router` forwards to other replicas, if there are any."""
        self._protocols = protocols
        self._sessions = sessions
        self._max_body = max_body
        self._admission = admission
        self._door = door
        self._large = Lane("large requests", width=THREADS, share=1, waiting=16)
        self._router = router
        self._listening: Counter[str] = Counter()
        """Open subscriptions, by principal."""

    def serves(self, path: str) -> bool:
        return path.rstrip("/") in self._protocols

    async def __call__(
        self, scope: Scope, headers: RequestHeaders, receive: Receive, send: Send, principal: Principal
    ) -> None:
        method: str = scope["method"]
        protocol = self._protocols[scope["path"].rstrip("/")]
        principal = protocol.served.admit(principal, "")
        try:
            if self._router is not None:
                body_receiver = await self._router.take_session(scope, headers, receive, send, principal, protocol)
                if body_receiver is None:
                    return
                receive = body_receiver
            if method == "POST":
                connection: Connection | None = scope.get(CONNECTION)
                if _listens(headers):  # it may stay open for hours and costs nothing: it counts by itself
                    with self._count_subscription(principal.id):
                        await self._post(scope, protocol, principal, headers, receive, send, connection)
                elif wait := self._admission.enter(principal.id):
                    await send_json(send, 503, _BUSY, ((b"retry-after", str(wait).encode()),))
                else:
                    try:
                        await self._post(scope, protocol, principal, headers, receive, send, connection)
                    finally:
                        self._admission.leave(principal.id)
            elif method == "GET":
                await self._get(self._session(protocol, principal, headers), headers, receive, send)
            elif method == "DELETE":
                await self._end(self._session(protocol, principal, headers))
                await send_json(send, 200, None)
            else:
                await send_json(send, 405, {"error": "Use POST."}, ((b"allow", b"POST, GET, DELETE"),))
        except InsufficientScope as problem:
            challenge: Headers = ()
            if self._door is not None:
                challenge = self._door.challenge(headers, scope["path"], "insufficient_scope", problem.scopes)
            await send_json(send, 403, error_response(problem.number, problem), challenge)
        except HttpProblem as problem:
            await send_json(send, problem.status, error_response(problem.number, problem))
        except BodyTooLarge as problem:
            await send_json(send, 413, error_response(None, RpcProblem(INVALID_REQUEST, problem.message)))
        except Overloaded as problem:
            await send_json(send, 429, error_response(None, RpcProblem(INVALID_REQUEST, str(problem))))
        except Disconnected:
            return

    @contextmanager
    def _count_subscription(self, principal: str) -> Generator[None]:
        """Raises Overloaded if there are too many."""
        if self._listening[principal] >= MAX_LISTENING:
            raise Overloaded(f"{MAX_LISTENING} subscriptions of yours are open.", hint="Close some of them.")
        self._listening[principal] += 1
        try:
            yield
        finally:
            self._listening[principal] -= 1
            if not self._listening[principal]:
                del self._listening[principal]

    async def _post(
        self,
        scope: Scope,
        protocol: Protocol,
        principal: Principal,
        headers: RequestHeaders,
        receive: Receive,
        send: Send,
        connection: Connection | None,
    ) -> None:
        _check_page(headers)
        body = await self._read(headers, receive, principal)
        modern = self._era(body, headers)
        if (
            self._router is not None
            and not modern
            and await self._router.take_moved(scope, headers, body, receive, send, principal, protocol)
        ):
            return
        if "method" not in body:  # a legacy client's answer to a question of ours
            self._session(protocol, principal, headers).client.questions.receive(body)
            await send_json(send, 202, None)
            return
        if "id" not in body:
            await self._take_notification(protocol, principal, headers, body, modern=modern)
            await send_json(send, 202, None)
            return
        _check_accept(headers)
        if protocol.trace is not None:
            came_with = headers.get(b"traceparent") or ""
            protocol.trace.arrive(came_with, scope.get("client"), scope.get("http_version", ""))
        if principal.issuer:
            _check_scopes(protocol, principal, body)
        exchange = Exchange(send, self._sessions.counters, connection)
        params: JsonObject = body.get("params", {})
        if modern:
            if self._router is not None and await self._router.take_state(
                scope, headers, body, receive, send, principal
            ):
                return
            caller = modern_caller(principal, f"modern {principal.id}", exchange.post, params["_meta"])
            protocol.settle_profile(caller, params)
            principal = caller.principal
            named = None
            if body["method"] == "tools/call" and protocol.menu_for(principal).names_tools:
                named = await self._check_parameters(protocol, principal, body, headers)
            await exchange.run(protocol, Request(body["id"], body["method"], params, caller, modern=True, named=named))
            return
        extra: Headers = ()
        if body["method"] == "initialize":
            session = self._sessions.open(principal, protocol, scope["path"].rstrip("/"), params)
            extra = ((_SESSION, session.id.encode()),)
        else:
            session = self._session(protocol, principal, headers)
        caller = session.client.caller(principal, session.id, exchange.post)
        protocol.settle_profile(caller, params)
        request = Request(body["id"], body["method"], params, caller, modern=False, client=session.client)
        session.running[request.id] = exchange
        try:
            await exchange.run(protocol, request, extra)
        finally:
            if session.running.get(request.id) is exchange:
                del session.running[request.id]

    async def _take_notification(
        self, protocol: Protocol, principal: Principal, headers: RequestHeaders, body: JsonObject, *, modern: bool
    ) -> None:
        if modern:
            meta = as_object(as_object(body.get("params")).get("_meta"))
            caller = modern_caller(principal, f"modern {principal.id}", _hear_nothing, meta)
        else:
            session = self._session(protocol, principal, headers)
            if body["method"] == "notifications/cancelled":
                _cancel(session, body)
            caller = session.client.caller(principal, session.id, _hear_nothing)
        protocol.settle_profile(caller, {})
        if concerns_server(body["method"]):
            await pass_on(protocol, body, caller)

    async def _check_parameters(
        self, protocol: Protocol, principal: Principal, body: JsonObject, headers: RequestHeaders
    ) -> Named | None:
        """The upstream tool that is called by its own name. Headers that repeat its arguments must match the body.

        Raises HttpProblem.
        """
        if not principal.may("invoke"):  # without the right to call, learn nothing about a name and start no server
            return None
        parameters: dict[str, list[str]] = {}
        for key, value in headers.raw:
            if key.startswith(_PARAMETER):
                parameters.setdefault(key.decode("latin-1"), []).append(value.decode("latin-1").strip(" \t"))
        params = as_object(body.get("params"))
        named = await protocol.menu_for(principal).find(protocol.verbs, as_text(params.get("name")), principal)
        if named and (problem := disagreement(named.tool, as_object(params.get("arguments")), parameters)):
            raise HttpProblem(400, HEADER_MISMATCH, problem, None, body["id"])
        return named

    async def _read(self, headers: RequestHeaders, receive: Receive, principal: Principal) -> JsonObject:
        try:
            data = await read_body(receive, headers, self._max_body)
            if len(data) < LARGE:
                message = decode(data, strict=True)
            else:
                async with self._large.enter(principal.id):
                    message = await decode_off_loop(data, strict=True, most=MAX_VALUES)
        except Overloaded as problem:
            raise HttpProblem(429, INVALID_REQUEST, str(problem)) from None
        except ValueError as problem:
            raise HttpProblem(400, PARSE_ERROR, f"Not JSON: {problem}") from None
        try:
            return read_message(message)
        except RpcProblem as problem:
            raise HttpProblem(400, problem.rpc_code, problem.message) from None

    def _era(self, body: JsonObject, headers: RequestHeaders) -> bool:
        """Whether the message is modern; checks the required headers of a modern one. Raises HttpProblem."""
        number: Any = body.get("id")
        version = headers.get(b"mcp-protocol-version")
        try:
            modern = is_modern(body)
        except RpcProblem as problem:
            if version is not None and version != body["params"]["_meta"].get(META_VERSION):
                raise _mismatch(number, "MCP-Protocol-Version", META_VERSION) from None
            raise HttpProblem(
                STATUS_OF_ERROR[problem.rpc_code], problem.rpc_code, problem.message, problem.data, number
            ) from None
        if not modern:
            if version == MODERN_VERSION and "id" in body:
                raise HttpProblem(
                    400,
                    INVALID_PARAMS,
                    f"A {MODERN_VERSION} request carries {META_VERSION} in params._meta.",
                    None,
                    number,
                )
            return version == MODERN_VERSION
        for name in headers.repeated & _ROUTING:
            raise HttpProblem(400, HEADER_MISMATCH, f"{name.decode()} appears more than once.", None, number)
        if version != MODERN_VERSION:
            raise _mismatch(number, "MCP-Protocol-Version", META_VERSION)
        if "id" in body and headers.get(b"mcp-method") != body["method"]:
            raise _mismatch(number, "Mcp-Method", "method")
        key = _NAMED.get(body["method"])
        named: Any = body.get("params", {}).get(key) if key else None
        header = headers.get(b"mcp-name")
        if named is not None and header != named and decode_header(header) != named:
            raise _mismatch(number, "Mcp-Name", f"params.{key}")
        return True

    def _session(self, protocol: Protocol, principal: Principal, headers: RequestHeaders) -> HttpSession:
        session_id = headers.get(_SESSION)
        if session_id is None:
            raise HttpProblem(400, INVALID_REQUEST, "Mcp-Session-Id is missing: begin with initialize.")
        session = self._sessions.find(session_id, principal, protocol)
        if session is None:
            raise HttpProblem(404, INVALID_REQUEST, "This session has ended: begin again with initialize.")
        return session

    async def _end(self, session: HttpSession) -> None:
        """End a session for its client, at all replicas. Raises HttpProblem."""
        try:
            if self._router is not None:
                await self._router.end_session(session.id)
        except Internal as problem:
            message = f"The session has ended here, but other replicas may continue it. {problem} Then try again."
            raise HttpProblem(503, INTERNAL_ERROR, message) from None
        finally:
            self._sessions.end(session)

    async def _get(self, session: HttpSession, headers: RequestHeaders, receive: Receive, send: Send) -> None:
        if "text/event-stream" not in (headers.get(b"accept") or ""):
            raise HttpProblem(406, INVALID_REQUEST, "The stream needs Accept: text/event-stream.")
        if session.stream is not None:
            raise HttpProblem(409, INVALID_REQUEST, "This session already has its stream open.")
        stream = session.open_stream()
        tasks = Tasks()
        try:
            running = tasks.start(stream.run(send, greeting=b": open\n\n"), "session stream")
            departure = tasks.start(wait_until_left(receive), "watch client")
            await asyncio.wait({running, departure}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            session.close_stream()
            await tasks.close()


def _listens(headers: RequestHeaders) -> bool:
    """Whether this is a subscription, if the body agrees with the headers, as it must in the modern era."""
    is_modern_request = headers.get(b"mcp-protocol-version") == MODERN_VERSION
    return is_modern_request and headers.get(b"mcp-method") == "subscriptions/listen"


class HttpProblem(RpcProblem):
    """An error with its own HTTP status."""

    def __init__(
        self, status: int, code: int, message: str, data: JsonObject | None = None, number: Any = None
    ) -> None:
        super().__init__(code, message, data)
        self.status = status
        self.number = number


class InsufficientScope(HttpProblem):
    """The access token does not allow the request; the client may get one that does."""

    code = Denied.code

    def __init__(self, scopes: Sequence[str], number: Any) -> None:
        needed = " ".join(scopes)
        super().__init__(403, INVALID_REQUEST, f"The access token lacks a scope: this needs {needed}.", None, number)
        self.scopes = scopes


def _check_scopes(protocol: Protocol, principal: Principal, body: JsonObject) -> None:
    """Check all scopes that the request needs, and name them at once. Raises InsufficientScope."""
    method, name = body["method"], as_text(as_object(body.get("params")).get("name"))
    needs = protocol.menu_for(principal).needs(name) if method == "tools/call" else ()
    missing = [scope for scope in needs if not principal.may(scope)]
    if missing or not principal.scopes:
        problem = InsufficientScope(sorted({*needs, *principal.scopes}) if principal.scopes else OFFERED, body["id"])
        problem.rule = f"scope {' '.join(missing or OFFERED)}"
        protocol.verbs.record_refusal(Silent(principal), method, name or method, problem)
        raise problem


def _mismatch(number: Any, name: str, place: str) -> HttpProblem:
    return HttpProblem(400, HEADER_MISMATCH, f"The header {name} does not match {place} in the body.", None, number)


def _cancel(session: HttpSession, body: JsonObject) -> None:
    number: Any = body.get("params", {}).get("requestId")
    exchange = session.running.get(number) if isinstance(number, str | int) else None
    if exchange is not None:
        exchange.cancel()


def _hear_nothing(message: JsonObject) -> None:
    """The sender of a notification has no stream for messages."""


def _check_page(headers: RequestHeaders) -> None:
    """Require JSON: a browser sends JSON across origins only after a preflight, which only allowed origins pass."""
    if b"origin" in headers:
        kind = (headers.get(b"content-type") or "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise HttpProblem(415, INVALID_REQUEST, "A web page must send application/json.")


def _check_accept(headers: RequestHeaders) -> None:
    if not _accepts_both(headers.find(b"accept") or b"*/*"):
        raise HttpProblem(406, INVALID_REQUEST, "Accept must name application/json and text/event-stream.")


@lru_cache(64)
def _accepts_both(accept: bytes) -> bool:
    return b"*/*" in accept or all(
        kind in accept or kind.split(b"/")[0] + b"/*" in accept for kind in (b"application/json", b"text/event-stream")
    )
