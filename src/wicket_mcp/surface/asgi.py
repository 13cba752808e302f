"""The HTTP surface: routes, the guard in front of every one, bounded bodies, and the two eras of Streamable HTTP.

    POST /mcp, /mcp/<dialect>     one message; answered with JSON or an event stream
    GET, DELETE (same)            a legacy session's stream, and its end
    GET /healthz, /readyz         alive; willing to take calls
    /v0.1/…, /openapi.json        the registry's API (`rest.py`)

Decides on the body; the modern era's routing headers must repeat what the body says, or the request is refused.
"""

from collections.abc import Mapping
from typing import Any

from wicket_mcp.codec import decode
from wicket_mcp.dialects.base import Named
from wicket_mcp.errors import HEADER_MISMATCH, INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR
from wicket_mcp.model import META_VERSION, MODERN_VERSION, JsonObject, Principal, as_object, as_text
from wicket_mcp.schema.headers import PREFIX, decoded, disagreement
from wicket_mcp.surface.answers import error_response
from wicket_mcp.surface.caller import modern_caller
from wicket_mcp.surface.exchange import (
    KEEPALIVE,
    STATUS_OF_ERROR,
    STREAM_HEADERS,
    Exchange,
    Receive,
    Send,
    left,
    send_json,
    wait,
)
from wicket_mcp.surface.guard import Guard, RawHeaders, Turned, header
from wicket_mcp.surface.messages import is_modern, read_message
from wicket_mcp.surface.problems import RpcProblem
from wicket_mcp.surface.protocol import Protocol, Request
from wicket_mcp.surface.rest import Rest
from wicket_mcp.surface.sessions import HttpSession, Sessions
from wicket_mcp.tasks import Tasks

Scope = Mapping[str, Any]

_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_ROUTING = (b"mcp-protocol-version", b"mcp-method", b"mcp-name")
_SESSION = b"mcp-session-id"


class App:
    """The ASGI application."""

    def __init__(
        self,
        protocols: Mapping[str, Protocol],
        guard: Guard,
        sessions: Sessions,
        max_body: int,
        rest: Rest | None = None,
    ) -> None:
        self.ready = True
        """Turned off when we are about to leave, so that whoever balances the load looks elsewhere."""
        self._protocols = protocols
        self._guard = guard
        self._sessions = sessions
        self._max_body = max_body
        self._rest = rest

    def use(self, guard: Guard, max_body: int) -> None:
        """Other rules, for the requests from now on."""
        self._guard, self._max_body = guard, max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        path: str = scope["path"]
        headers: RawHeaders = scope["headers"]
        principal = await self._guard.identify(path, headers, (scope.get("client") or ("",))[0])
        if isinstance(principal, Turned):
            challenge = ((b"www-authenticate", b"Bearer"),) if principal.status == 401 else ()
            await send_json(send, principal.status, {"error": principal.message}, challenge)
        elif path == "/healthz":
            await send_json(send, 200, {"status": "ok"})
        elif path == "/readyz":
            await send_json(send, 200 if self.ready else 503, {"status": "ready" if self.ready else "leaving"})
        elif self._rest is not None and self._rest.serves(path):
            await self._rest(scope, principal, receive, send)
        elif (protocol := self._protocols.get(path.rstrip("/"))) is None:
            known = ", ".join(sorted(self._protocols))
            await send_json(send, 404, {"error": f"Nothing is served at this path. Served are {known}."})
        else:
            await self._serve(scope["method"], protocol, principal, headers, receive, send)

    async def _serve(
        self,
        method: str,
        protocol: Protocol,
        principal: Principal,
        headers: RawHeaders,
        receive: Receive,
        send: Send,
    ) -> None:
        try:
            if method == "POST":
                await self._post(protocol, principal, headers, receive, send)
            elif method == "GET":
                await self._get(self._session(protocol, principal, headers), receive, send, headers)
            elif method == "DELETE":
                self._sessions.end(self._session(protocol, principal, headers))
                await send_json(send, 200, None)
            else:
                await send_json(send, 405, {"error": "Use POST."}, ((b"allow", b"POST, GET, DELETE"),))
        except HttpProblem as problem:
            await send_json(send, problem.status, error_response(problem.number, problem))
        except Disconnected:
            return

    async def _post(
        self, protocol: Protocol, principal: Principal, headers: RawHeaders, receive: Receive, send: Send
    ) -> None:
        body = await self._read(headers, receive)
        modern = self._era(body, headers)
        if "method" not in body:  # what a legacy client answers to a question of ours
            self._session(protocol, principal, headers).client.questions.receive(body)
            await send_json(send, 202, None)
            return
        if "id" not in body:
            if not modern:
                _hear(self._session(protocol, principal, headers), body)
            await send_json(send, 202, None)
            return
        _check_accept(headers)
        exchange = Exchange(receive, send)
        params: JsonObject = body.get("params", {})
        if modern:
            caller = modern_caller(principal, f"modern {principal.name}", exchange.post, as_object(params["_meta"]))
            named = None
            if principal.may("invoke"):  # others learn nothing of a name, and start no server with it
                named = await self._check_parameters(protocol, principal, body, headers)
            await exchange.run(protocol, Request(body["id"], body["method"], params, caller, modern=True, named=named))
            return
        extra: tuple[tuple[bytes, bytes], ...] = ()
        if body["method"] == "initialize":
            session = self._sessions.open(principal, protocol)
            extra = ((_SESSION, session.id.encode()),)
        else:
            session = self._session(protocol, principal, headers)
        caller = session.client.caller(principal, session.id, exchange.post)
        request = Request(body["id"], body["method"], params, caller, modern=False, client=session.client)
        session.running[request.id] = exchange
        try:
            await exchange.run(protocol, request, extra)
        finally:
            session.running.pop(request.id, None)

    async def _check_parameters(
        self, protocol: Protocol, principal: Principal, body: JsonObject, headers: RawHeaders
    ) -> Named | None:
        """The upstream tool that is called by its own name; headers that repeat its arguments must agree with the body.

        Raises HttpProblem.
        """
        if body["method"] != "tools/call":
            return None
        given: dict[str, list[str]] = {}
        for key, value in headers:
            if key.startswith(PREFIX.encode()):
                given.setdefault(key.decode("latin-1"), []).append(value.decode("latin-1").strip(" \t"))
        params = as_object(body.get("params"))
        named = await protocol.menu.find(protocol.verbs, as_text(params.get("name")), principal)
        if named and (problem := disagreement(named.tool, as_object(params.get("arguments")), given)):
            raise HttpProblem(400, HEADER_MISMATCH, problem, None, body["id"])
        return named

    async def _read(self, headers: RawHeaders, receive: Receive) -> JsonObject:
        declared = header(headers, b"content-length")
        if declared is not None and declared.isdigit() and int(declared) > self._max_body:
            raise HttpProblem(413, INVALID_REQUEST, f"A body may have {self._max_body} bytes at most.")
        parts: list[bytes] = []
        size = 0
        while True:
            event = await receive()
            if event["type"] == "http.disconnect":
                raise Disconnected
            part: bytes = event.get("body", b"")
            size += len(part)
            if size > self._max_body:
                raise HttpProblem(413, INVALID_REQUEST, f"A body may have {self._max_body} bytes at most.")
            parts.append(part)
            if not event.get("more_body"):
                break
        try:
            message = decode(b"".join(parts))
        except ValueError as problem:
            raise HttpProblem(400, PARSE_ERROR, f"Not JSON: {problem}") from None
        try:
            return read_message(message)
        except RpcProblem as problem:
            raise HttpProblem(400, problem.rpc_code, problem.message) from None

    def _era(self, body: JsonObject, headers: RawHeaders) -> bool:
        """Whether the message is modern; checks what a modern one must carry. Raises HttpProblem."""
        number: Any = body.get("id")
        version = header(headers, b"mcp-protocol-version")
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
        for name in _ROUTING:
            if sum(key == name for key, _ in headers) > 1:
                raise HttpProblem(400, HEADER_MISMATCH, f"{name.decode()} appears more than once.", None, number)
        if version != MODERN_VERSION:
            raise _mismatch(number, "MCP-Protocol-Version", META_VERSION)
        if "id" in body and header(headers, b"mcp-method") != body["method"]:
            raise _mismatch(number, "Mcp-Method", "method")
        key = _NAMED.get(body["method"])
        named: Any = body.get("params", {}).get(key) if key else None
        if named is not None and decoded(header(headers, b"mcp-name")) != named:
            raise _mismatch(number, "Mcp-Name", f"params.{key}")
        return True

    def _session(self, protocol: Protocol, principal: Principal, headers: RawHeaders) -> HttpSession:
        session_id = header(headers, _SESSION)
        if session_id is None:
            raise HttpProblem(400, INVALID_REQUEST, "Mcp-Session-Id is missing: begin with initialize.")
        session = self._sessions.find(session_id, principal, protocol)
        if session is None:
            raise HttpProblem(404, INVALID_REQUEST, "This session has ended: begin again with initialize.")
        return session

    async def _get(self, session: HttpSession, receive: Receive, send: Send, headers: RawHeaders) -> None:
        if "text/event-stream" not in (header(headers, b"accept") or ""):
            raise HttpProblem(406, INVALID_REQUEST, "The stream needs Accept: text/event-stream.")
        if session.streaming:
            raise HttpProblem(409, INVALID_REQUEST, "This session already has its stream open.")
        session.streaming = True
        tasks = Tasks()
        gone = tasks.start(left(receive), "watch client")
        gone.add_done_callback(lambda _: session.wake.set())
        try:
            await send({"type": "http.response.start", "status": 200, "headers": [*STREAM_HEADERS]})
            await send({"type": "http.response.body", "body": b": open\n\n", "more_body": True})
            while not session.closed and not gone.done():
                await wait(session.wake, KEEPALIVE)
                session.wake.clear()
                frames, session.frames = session.frames or [b": still here\n\n"], []
                await send({"type": "http.response.body", "body": b"".join(frames), "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            session.streaming = False
            await tasks.close()


class Disconnected(Exception):
    """The client left before its message was complete."""


class HttpProblem(RpcProblem):
    """A refusal that has an HTTP status of its own."""

    def __init__(
        self, status: int, code: int, message: str, data: JsonObject | None = None, number: Any = None
    ) -> None:
        super().__init__(code, message, data)
        self.status = status
        self.number = number


def _mismatch(number: Any, name: str, place: str) -> HttpProblem:
    return HttpProblem(400, HEADER_MISMATCH, f"The header {name} does not match {place} in the body.", None, number)


def _hear(session: HttpSession, body: JsonObject) -> None:
    if body["method"] == "notifications/cancelled":
        number: Any = body.get("params", {}).get("requestId")
        exchange = session.running.get(number) if isinstance(number, str | int) else None
        if exchange is not None:
            exchange.cancel()


def _check_accept(headers: RawHeaders) -> None:
    accept = header(headers, b"accept") or "*/*"
    for needed in ("application/json", "text/event-stream"):
        if needed not in accept and "*/*" not in accept and f"{needed.split('/')[0]}/*" not in accept:
            raise HttpProblem(406, INVALID_REQUEST, "Accept must name application/json and text/event-stream.")
