"""OpenTelemetry: a SERVER span for each request of a client, a CLIENT span for each one to a server, and histograms.

Names follow the conventions for MCP (`gen-ai/mcp`); `NAMES` is the table that tests check every span against. Imported
only if an exporter is configured. `Tracing.server` wraps the protocol's answer, `Tracing.client` wraps the last layer,
`Tracing.name` tells the outer span which tool was really called. Context travels in `params._meta`: the parent there
has priority, and that of the HTTP request becomes a link. Whether a trace is kept is decided before any span is
created: a trace that is not kept costs only a histogram entry.
"""

import random
import re
import struct
import time
from collections.abc import Awaitable, Callable, Hashable
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, Literal, NamedTuple, Protocol, TypeVar
from urllib.parse import urlsplit

from msgspec.structs import replace

from wicket_mcp.codec import encode
from wicket_mcp.errors import INTERNAL_ERROR, Refused, WicketError
from wicket_mcp.model import MODERN_VERSION, Caller, JsonObject, as_object, as_text
from wicket_mcp.request import Handler, Layer, Request, Result
from wicket_mcp.telemetry.durations import Durations, DurationsExport
from wicket_mcp.telemetry.otlp import Collector, attributes, field, number_field

SERVER_DURATION, CLIENT_DURATION = "mcp.server.operation.duration", "mcp.client.operation.duration"
SERVER_SESSION, CLIENT_SESSION = "mcp.server.session.duration", "mcp.client.session.duration"
NAMES = frozenset(
    {
        *("mcp.method.name", "mcp.protocol.version", "mcp.session.id", "mcp.resource.uri", "jsonrpc.request.id"),
        *("gen_ai.tool.name", "gen_ai.prompt.name", "gen_ai.operation.name", "rpc.response.status_code", "error.type"),
        *("network.transport", "network.protocol.name", "network.protocol.version", "server.address", "server.port"),
        *("client.address", "client.port"),
        *("gen_ai.tool.call.arguments", "gen_ai.tool.call.result"),
    }
)
"""Every attribute of ours."""
_MAX_CONTENT = 8192
TOOL_ERROR = "tool_error"
_METHODS = frozenset(
    {
        *("initialize", "ping", "server/discover", "tools/list", "tools/call", "prompts/list", "prompts/get"),
        *("resources/list", "resources/templates/list", "resources/read", "resources/subscribe"),
        *("resources/unsubscribe", "completion/complete", "logging/setLevel", "subscriptions/listen"),
    }
)
"""The attributes of durations; others can be made up by callers."""
_SERVER, _CLIENT = 2, 3
_TRACE, _SPAN = b"\x0a\x10", b"\x12\x08"
"""The fixed-length fields of a span, up to their content: what `field` would write each time."""
_KIND, _STARTED, _ENDED = 6 << 3, 7 << 3 | 1, 8 << 3 | 1
_TIMES = struct.Struct("<BBBQBQ")
_ERROR = 2
_SAMPLED = 1


class Kept:
    """A span in progress."""

    __slots__ = ("attributes", "failed", "id", "kind", "link", "name", "parent", "started", "state", "trace")

    def __init__(self, name: str, kind: int, values: dict[str, Any], context: "Context | None") -> None:
        self.name, self.kind, self.attributes = name, kind, values
        self.id = random.randbytes(8)
        self.trace = context.trace if context else random.randbytes(16)
        self.parent = context.span if context else b""
        self.state = context.state if context else ""
        self.link: Context | None = None
        self.failed = False
        self.started = time.time_ns()

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace.hex()}-{self.id.hex()}-01"

    def fail(self, kind: str) -> None:
        self.attributes["error.type"] = kind
        self.failed = True

    def encode(self) -> bytes:
        """Encode it; it ends now."""
        parts = [
            _TRACE,
            self.trace,
            _SPAN,
            self.id,
            _name(self.name),
            _TIMES.pack(_KIND, self.kind, _STARTED, self.started, _ENDED, time.time_ns()),
            attributes(9, self.attributes),
        ]
        if self.parent:
            parts.append(field(4, self.parent))
        if self.state:
            parts.append(field(3, self.state.encode("utf-8", "replace")))
        if self.link is not None:
            parts.append(field(13, field(1, self.link.trace) + field(2, self.link.span)))
        if self.failed:
            parts.append(field(15, number_field(3, _ERROR)))
        return b"".join(parts)


@lru_cache(1024)
def _name(name: str) -> bytes:
    return field(5, name.encode("utf-8", "replace"))


class Context(NamedTuple):
    """The content of a `traceparent`: the parent span."""

    trace: bytes
    span: bytes
    sampled: bool
    state: str = ""


def read_context(traceparent: Any, state: Any = "") -> Context | None:
    """None if it is malformed."""
    if not isinstance(traceparent, str) or (match := _TRACEPARENT.fullmatch(traceparent.strip())) is None:
        return None
    trace, span, flags = bytes.fromhex(match[1]), bytes.fromhex(match[2]), int(match[3], 16)
    if not any(trace) or not any(span):
        return None
    return Context(trace, span, bool(flags & _SAMPLED), state if isinstance(state, str) else "")


_TRACEPARENT = re.compile("(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")
_CURRENT: ContextVar["Kept | Literal[False] | None"] = ContextVar("current", default=None)
"""The current span; False if the request belongs to a trace that is not kept, None outside a request."""


class Incoming(Protocol):
    """A client's request, as the protocol knows it."""

    @property
    def id(self) -> Any: ...
    @property
    def method(self) -> str: ...
    @property
    def params(self) -> JsonObject: ...
    @property
    def modern(self) -> bool: ...
    @property
    def legacy_version(self) -> str: ...
    @property
    def caller(self) -> Caller: ...


_R = TypeVar("_R", bound=Incoming)


class Origin(NamedTuple):
    """The origin of an HTTP request."""

    traceparent: str = ""
    address: str = ""
    port: int = 0
    http_version: str = ""


_ORIGIN: ContextVar[Origin | None] = ContextVar("origin", default=None)


class Target(Protocol):
    """A server's configuration, as far as spans need it."""

    @property
    def transport(self) -> str: ...
    @property
    def url(self) -> str | None: ...


class Tracing:
    """Exports to one collector until it is closed."""

    def __init__(self, endpoint: str, *, percent: int = 100, content: bool = False) -> None:
        """`percent` of the traces that begin here are kept; with `content`, spans include arguments and results."""
        self._share = percent / 100
        self._spans = Collector(endpoint, "traces")
        self._served = Durations(SERVER_DURATION, "Requests of clients.")
        self._asked = Durations(CLIENT_DURATION, "Requests to servers.")
        self._client_sessions = Durations(SERVER_SESSION, "Sessions of clients.")
        self._server_sessions = Durations(CLIENT_SESSION, "Connections to servers.")
        histograms = (self._served, self._asked, self._client_sessions, self._server_sessions)
        self._durations = DurationsExport(endpoint, histograms)
        self._connected: dict[Hashable, float] = {}
        self._content = content

    async def close(self) -> None:
        """Send the waiting spans; waits at most until the deadline for an unreachable collector."""
        await self._spans.close()
        await self._durations.close()

    def end_session(self, seconds: float) -> None:
        """A client's session has ended after this time."""
        self._client_sessions.record(seconds)

    def hear(self, event: str, connection: Hashable) -> None:
        """A connection to a server was opened or has ended."""
        if event == "connected":
            self._connected[connection] = time.monotonic()
        elif event == "disconnected" and (began := self._connected.pop(connection, None)) is not None:
            self._server_sessions.record(time.monotonic() - began)

    # Around the answer to a client

    def server(self, transport: str) -> "ServerTrace":
        """The wrapper for every answer; `transport` is `pipe` or `tcp`."""
        return ServerTrace(self, transport)

    async def answer(self, request: _R, work: Callable[[_R], Awaitable[JsonObject]], transport: str) -> JsonObject:
        """Do the work inside a new span, if the trace is kept."""
        started = time.perf_counter()
        error = ""
        meta = as_object(request.params.get("_meta"))
        context = read_context(meta["traceparent"], meta.get("tracestate")) if "traceparent" in meta else None
        span = self._begin(request, transport, context) if self._keeps(context) else False
        token = _CURRENT.set(span)
        try:
            result = await work(request)
            if result.get("isError"):
                error = TOOL_ERROR
            return result
        except WicketError as problem:
            error = str(problem.rpc_code)
            if span:
                span.attributes |= {"rpc.response.status_code": error, "error.type": error}
                span.failed = problem.rpc_code == INTERNAL_ERROR or -32099 <= problem.rpc_code <= -32000
            raise
        except Exception:
            error = str(INTERNAL_ERROR)
            if span:
                span.fail(error)
            raise
        finally:
            _CURRENT.reset(token)
            if span:
                if error == TOOL_ERROR:
                    span.fail(error)
                self._spans.add(span.encode())
            self._served.record(time.perf_counter() - started, _method(request.method), error)

    def _begin(self, request: Incoming, transport: str, context: Context | None) -> Kept:
        name = as_text(request.params.get("name"))
        values: dict[str, Any] = {
            "mcp.method.name": request.method,
            "jsonrpc.request.id": str(request.id),
            "network.transport": transport,
            **_about(request.method, name, as_text(request.params.get("uri"))),
        }
        if version := MODERN_VERSION if request.modern else request.legacy_version:
            values["mcp.protocol.version"] = version
        span = Kept(_title(request.method, name), _SERVER, values, context)
        if transport == "tcp":
            if not request.modern:
                values["mcp.session.id"] = request.caller.session
            if (origin := _ORIGIN.get()) is not None:
                values |= _describe_origin(origin)
                span.link = read_context(origin.traceparent)
        return span

    # Around the request to a server

    def client(self, target: Callable[[str], Target | None], version: Callable[[str], str]) -> Layer:
        """The layer around the last one; `target` returns a server's configuration, `version` its protocol version."""

        def layer(inner: Handler) -> Handler:
            async def keep(request: Request, outer: Kept | None) -> Result:
                name, error = request.span.name or request.name, ""
                context = Context(outer.trace, outer.id, sampled=True, state=outer.state) if outer else None
                values = self._describe(request, name, target(request.server))
                span = Kept(_title(request.method, name), _CLIENT, values, context)
                try:
                    result = await inner(replace(request, meta={**request.meta, "traceparent": span.traceparent}))
                    if result.body.get("isError"):
                        error = TOOL_ERROR
                    if self._content:
                        values["gen_ai.tool.call.result"] = encode(result.body).decode()[:_MAX_CONTENT]
                    return result
                except WicketError as problem:
                    error = _error_type(problem)
                    if isinstance(problem, Refused):
                        values["rpc.response.status_code"] = error
                    raise
                finally:
                    if error:
                        span.fail(error)
                    if spoken := version(request.server):  # known once it is connected
                        values["mcp.protocol.version"] = spoken
                    self._spans.add(span.encode())

            def handle(request: Request) -> Awaitable[Result]:
                outer = _CURRENT.get()
                if outer or (outer is None and self._keeps(None)):
                    return keep(request, outer or None)
                return inner(request)

            return handle

        return layer

    def count(self, method: str, seconds: float, body: JsonObject | None, problem: BaseException | None) -> None:
        """A request to a server has ended, whether its trace is kept or not."""
        error = ""
        if body is None:
            error = _error_type(problem) if isinstance(problem, WicketError) else "cancelled"
        elif body.get("isError"):
            error = TOOL_ERROR
        self._asked.record(seconds, _method(method), error)

    def name(self) -> Layer:
        """The outermost layer: tells the client's span which tool was really called."""

        def layer(inner: Handler) -> Handler:
            async def name_span(request: Request, span: Kept) -> Result:
                try:
                    return await inner(request)
                finally:
                    if request.span.name and not request.span.run:  # a script has many calls
                        span.name = _title(request.method, request.span.name)
                        span.attributes |= _about(request.method, request.span.name, "")

            def handle(request: Request) -> Awaitable[Result]:
                span = _CURRENT.get()
                return name_span(request, span) if span else inner(request)

            return handle

        return layer

    def _keeps(self, context: Context | None) -> bool:
        """Whether a trace is kept: as its parent decided, otherwise by the configured share."""
        if context is not None:
            return context.sampled
        return self._share >= 1 or random.random() < self._share

    def _describe(self, request: Request, name: str, target: Target | None) -> JsonObject:
        attributes: JsonObject = {
            "mcp.method.name": request.method,
            **_about(request.method, name, name if request.method.startswith("resources/") else ""),
        }
        if target is not None:
            attributes["network.transport"] = "pipe" if target.transport == "stdio" else "tcp"
            if target.url:
                split = urlsplit(target.url)
                attributes |= {"network.protocol.name": "http", "network.protocol.version": "1.1"}
                attributes["server.address"] = split.hostname or ""
                attributes["server.port"] = split.port or (443 if split.scheme == "https" else 80)
        if self._content and request.tool is not None:
            attributes["gen_ai.tool.call.arguments"] = encode(request.params.get("arguments")).decode()[:_MAX_CONTENT]
        return attributes


class ServerTrace:
    """The protocol's part of a trace: wraps every answer."""

    __slots__ = ("_tracing", "_transport")

    def __init__(self, tracing: Tracing, transport: str) -> None:
        self._tracing = tracing
        self._transport = transport

    def arrive(self, traceparent: str, client: tuple[str, int] | None, http_version: str) -> None:
        """The request that is answered next in this task came over HTTP from this client."""
        _ORIGIN.set(Origin(traceparent, *(client or ("", 0)), http_version))

    def __call__(self, request: _R, work: Callable[[_R], Awaitable[JsonObject]]) -> Awaitable[JsonObject]:
        return self._tracing.answer(request, work, self._transport)


def _error_type(problem: WicketError) -> str:
    return str(problem.rpc_code) if isinstance(problem, Refused) else problem.code


def _method(name: str) -> str:
    return name if name in _METHODS else "other"


def _describe_origin(origin: Origin) -> JsonObject:
    about: JsonObject = {"network.protocol.name": "http", "network.protocol.version": origin.http_version}
    if origin.address:
        about |= {"client.address": origin.address, "client.port": origin.port}
    return about


def _title(method: str, name: str) -> str:
    """A span's name; never the address of a resource."""
    return f"{method} {name}" if name and method in ("tools/call", "prompts/get") else method


def _about(method: str, name: str, uri: str) -> JsonObject:
    match method:
        case "tools/call":
            return {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
        case "prompts/get":
            return {"gen_ai.prompt.name": name}
        case _:
            return {"mcp.resource.uri": uri} if uri else {}
