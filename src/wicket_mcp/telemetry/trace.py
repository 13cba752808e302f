"""OpenTelemetry: a SERVER span for each request of a client, a CLIENT span for each one to a server, and histograms.

Names follow the conventions for MCP (`gen-ai/mcp`); `NAMES` is the table that tests check every span against. Imported
only if an exporter is configured. `Tracing.server` wraps the protocol's answer, `Tracing.client` wraps the last layer,
`Tracing.name` tells the outer span which tool was really called. Context travels in `params._meta`: the parent there
has priority, and that of the HTTP request becomes a link. Whether a trace is kept is decided before any span is
created: a request that is not kept passes neither layer (`wants`) and costs only two durations.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, Literal, Protocol, TypeVar
from urllib.parse import urlsplit

from msgspec.structs import replace

from wicket_mcp.codec import encode
from wicket_mcp.errors import INTERNAL_ERROR, Internal, Refused, WicketError
from wicket_mcp.model import MODERN_VERSION, Caller, JsonObject, as_text
from wicket_mcp.request import Handler, Layer, Request, Result
from wicket_mcp.rpc import SENT, Sent
from wicket_mcp.telemetry.durations import Durations, DurationsExport
from wicket_mcp.telemetry.otlp import Collector
from wicket_mcp.telemetry.redact import mask_strings
from wicket_mcp.telemetry.spans import CLIENT, SERVER, Context, Span, read_context

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
TOOL_ERROR, CANCELLED = "tool_error", "cancelled"
Pairs = tuple[tuple[str, str | int], ...]
_CURRENT: ContextVar["Span | Literal[False] | None"] = ContextVar("current", default=None)
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


Origin = tuple[str, "tuple[str, int] | None", str]
"""Where an HTTP request came from: its `traceparent`, the client's address and port, the version of HTTP."""
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

    @property
    def lost(self) -> int:
        """Spans and durations that could not be sent."""
        return self._spans.lost + self._durations.lost

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

    def answer(self, request: _R, work: Callable[[_R], Awaitable[JsonObject]], transport: str) -> Awaitable[JsonObject]:
        """Do the work: inside a new span if the trace is kept, as the parent decided or else by the share."""
        meta: Any = request.params.get("_meta")
        context = None
        if isinstance(meta, dict) and "traceparent" in meta:
            context = read_context(meta["traceparent"], meta.get("tracestate"), meta.get("baggage"))  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
        if self._keeps() if context is None else context.sampled:
            return self._keep(request, work, transport, context)
        return self._count(request, work, False)

    async def _count(
        self, request: _R, work: Callable[[_R], Awaitable[JsonObject]], span: Span | Literal[False]
    ) -> JsonObject:
        """Do the work and record its duration; with a span, also how it ended."""
        started, error = time.perf_counter(), ""
        token = _CURRENT.set(span)
        try:
            result = await work(request)
            if result.get("isError"):
                error = TOOL_ERROR
            return result
        except WicketError as problem:
            error = str(problem.rpc_code)
            if span:
                span.own["rpc.response.status_code"] = error
            raise
        except asyncio.CancelledError:
            error = CANCELLED
            raise
        except Exception:
            error = str(INTERNAL_ERROR)
            if span:
                span.own["rpc.response.status_code"] = error
            raise
        finally:
            _CURRENT.reset(token)
            if span and error:
                span.own["error.type"] = error
                span.failed = error == TOOL_ERROR or (error != CANCELLED and _is_our_error(int(error)))
            self._served.record(time.perf_counter() - started, request.method, error)

    async def _keep(
        self, request: _R, work: Callable[[_R], Awaitable[JsonObject]], transport: str, context: Context | None
    ) -> JsonObject:
        name = as_text(request.params.get("name"))
        span = Span(SERVER, _title(request.method, name), context)
        span.common = _about(request.method, name)
        own = span.own
        own["jsonrpc.request.id"] = str(request.id)
        if "uri" in request.params:
            own["mcp.resource.uri"] = as_text(request.params["uri"])
        http_version = ""
        if transport == "tcp":
            if not request.modern:
                own["mcp.session.id"] = request.caller.session
            if (origin := _ORIGIN.get()) is not None:
                traceparent, client, http_version = origin
                span.link = read_context(traceparent) if traceparent else None
                if client is not None:
                    own["client.address"], own["client.port"] = client[0], client[1]
        try:
            return await self._count(request, work, span)
        finally:
            version = MODERN_VERSION if request.modern else request.legacy_version
            span.common = (*span.common, *_way(transport, version, http_version))
            self._end(span)

    def _end(self, span: Span) -> None:
        span.ended = time.time_ns()
        self._spans.add(span)

    # Around the request to a server

    def client(self, target: Callable[[str], Target | None], version: Callable[[str], str]) -> Layer:
        """The layer around the last one; `target` returns a server's configuration, `version` its protocol version."""

        def layer(inner: Handler) -> Handler:
            async def keep(request: Request) -> Result:
                outer = _CURRENT.get()
                name, error = request.span.name or request.name, ""
                span = Span(CLIENT, _title(request.method, name), outer.context if outer else None)
                own = span.own
                if request.method.startswith("resources/"):
                    own["mcp.resource.uri"] = name
                if self._content and request.tool is not None:
                    own["gen_ai.tool.call.arguments"] = _cut(request.params.get("arguments"))
                sent: dict[str, Sent] = {}
                token = SENT.set(sent)
                try:
                    result = await inner(replace(request, meta=span.inject(request.meta)))
                    if result.body.get("isError"):
                        error = TOOL_ERROR
                    if self._content:
                        own["gen_ai.tool.call.result"] = _cut(result.body)
                    return result
                except WicketError as problem:
                    error = _error_type(problem)
                    if isinstance(problem, Refused):
                        own["rpc.response.status_code"] = error
                    raise
                except BaseException as problem:
                    error = CANCELLED if isinstance(problem, asyncio.CancelledError) else Internal.code
                    raise
                finally:
                    SENT.reset(token)
                    if error:
                        span.fail(error)
                    own.update(_identify(sent.get(request.method)))
                    config = target(request.server)
                    place = () if config is None else _place(config.transport, config.url, version(request.server))
                    span.common = (*_about(request.method, name), *place)
                    self._end(span)

            return keep

        return layer

    def count(self, method: str, seconds: float, body: JsonObject | None, problem: BaseException | None) -> None:
        """A request to a server has ended, whether its trace is kept or not."""
        error = ""
        if body is None:
            error = _error_type(problem) if isinstance(problem, WicketError) else CANCELLED
        elif body.get("isError"):
            error = TOOL_ERROR
        self._asked.record(seconds, method, error)

    def name(self) -> Layer:
        """The outermost layer: tells the client's span which tool was really called."""

        def layer(inner: Handler) -> Handler:
            async def name_span(request: Request) -> Result:
                try:
                    return await inner(request)
                finally:
                    span = _CURRENT.get()
                    if span and request.span.name and not request.span.run:  # a script has many calls
                        span.name = _title(request.method, request.span.name)
                        span.common = _about(request.method, request.span.name)

            return name_span

        return layer

    def wants(self) -> bool:
        """Whether the request that begins now has spans: it belongs to a trace that is kept, or begins one."""
        current = _CURRENT.get()
        return self._keeps() if current is None else current is not False

    def _keeps(self) -> bool:
        """Whether a trace that begins here is kept."""
        return random.random() < self._share


class ServerTrace:
    """The protocol's part of a trace: wraps every answer."""

    __slots__ = ("_tracing", "_transport")

    def __init__(self, tracing: Tracing, transport: str) -> None:
        self._tracing = tracing
        self._transport = transport

    def arrive(self, traceparent: str, client: tuple[str, int] | None, http_version: str) -> None:
        """The request that is answered next in this task came over HTTP from this client."""
        _ORIGIN.set((traceparent, client, http_version))

    def __call__(self, request: _R, work: Callable[[_R], Awaitable[JsonObject]]) -> Awaitable[JsonObject]:
        return self._tracing.answer(request, work, self._transport)


def _identify(sent: Sent | None) -> Mapping[str, str]:
    """How the server knows the request; nothing if it was never sent."""
    if sent is None:
        return {}
    number = {"jsonrpc.request.id": str(sent.number)}
    return {**number, "mcp.session.id": sent.session} if sent.session else number


def _error_type(problem: WicketError) -> str:
    return str(problem.rpc_code) if isinstance(problem, Refused) else problem.code


def _is_our_error(code: int) -> bool:
    """Whether an error code is the server's fault, so that its SERVER span failed."""
    return code == INTERNAL_ERROR or -32099 <= code <= -32000


def _cut(content: Any) -> str:
    """Content as text: without known secrets, masked before it is cut."""
    return encode(mask_strings(content)).decode()[:_MAX_CONTENT]


def _title(method: str, name: str) -> str:
    """A span's name; never the address of a resource."""
    return f"{method} {name}" if name and method in ("tools/call", "prompts/get") else method


@lru_cache(1024)
def _about(method: str, name: str) -> Pairs:
    match method:
        case "tools/call":
            about: Pairs = (("gen_ai.operation.name", "execute_tool"), ("gen_ai.tool.name", name))
        case "prompts/get":
            about = (("gen_ai.prompt.name", name),)
        case _:
            about = ()
    return ("mcp.method.name", method), *about


@lru_cache(64)
def _way(transport: str, version: str, http_version: str) -> Pairs:
    """How a client's request came."""
    pairs: list[tuple[str, str | int]] = [("network.transport", transport)]
    if version:
        pairs.append(("mcp.protocol.version", version))
    if http_version:
        pairs += (("network.protocol.name", "http"), ("network.protocol.version", http_version))
    return tuple(pairs)


@lru_cache(1024)
def _place(transport: str, url: str | None, version: str) -> Pairs:
    """Where a server is, and the protocol version it speaks once it is connected."""
    pairs = _way("pipe" if transport == "stdio" else "tcp", version, "1.1" if url else "")
    if not url:
        return pairs
    split = urlsplit(url)
    port = split.port or (443 if split.scheme == "https" else 80)
    return (*pairs, ("server.address", split.hostname or ""), ("server.port", port))
