"""OpenTelemetry: a SERVER span for each request of a client, a CLIENT span for each one to a server, and histograms.

Names follow the conventions for MCP (`gen-ai/mcp`); `NAMES` is the table that tests hold every span against. Imported
only where an exporter is configured (extra `otel`): nobody else loads or pays for it. `Tracing.server` goes around the
protocol's answer, `Tracing.client` around the last layer, `Tracing.name` tells the outer span which tool was really
called. Context travels in `params._meta`: the parent there wins over any other.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any, Protocol
from urllib.parse import urlsplit

from msgspec.structs import replace
from opentelemetry import trace
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import ExplicitBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from wicket_mcp import __version__
from wicket_mcp.codec import encode
from wicket_mcp.errors import INTERNAL_ERROR, Refused, WicketError
from wicket_mcp.model import MODERN_VERSION, Caller, JsonObject, as_object, as_text
from wicket_mcp.request import Handler, Layer, Request, Result

BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
SERVER_DURATION, CLIENT_DURATION = "mcp.server.operation.duration", "mcp.client.operation.duration"
NAMES = frozenset(
    {
        *("mcp.method.name", "mcp.protocol.version", "mcp.session.id", "mcp.resource.uri", "jsonrpc.request.id"),
        *("gen_ai.tool.name", "gen_ai.prompt.name", "gen_ai.operation.name", "rpc.response.status_code", "error.type"),
        *("network.transport", "network.protocol.name", "server.address", "server.port"),
        *("gen_ai.tool.call.arguments", "gen_ai.tool.call.result"),
    }
)
"""Every attribute of ours."""
_CARRIED = ("traceparent", "tracestate", "baggage")
_MAX_CONTENT = 8192
_METHODS = {
    name: {"mcp.method.name": name}
    for name in (
        *("initialize", "ping", "server/discover", "tools/list", "tools/call", "prompts/list", "prompts/get"),
        *("resources/list", "resources/templates/list", "resources/read", "resources/subscribe"),
        *("resources/unsubscribe", "completion/complete", "logging/setLevel", "subscriptions/listen"),
    )
}
_SKIPPED: ContextVar[bool] = ContextVar("skipped", default=False)
"""Whether the request under way belongs to a trace that is not kept."""


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
    def caller(self) -> Caller: ...


Answer = Callable[[], Awaitable[JsonObject]]
ServerTrace = Callable[[Incoming, Answer], Awaitable[JsonObject]]


class Target(Protocol):
    """A server's configuration, as far as a span tells of it."""

    @property
    def transport(self) -> str: ...
    @property
    def url(self) -> str | None: ...


class Tracing:
    """Exports to one collector until it is closed."""

    def __init__(self, endpoint: str, *, percent: int = 100, content: bool = False) -> None:
        """`percent` of the traces that begin here are kept; with `content`, arguments and results are part of spans."""
        root = endpoint.rstrip("/")
        resource = Resource.create({"service.name": "wicket", "service.version": __version__})
        self._share = percent / 100
        self._spans = TracerProvider(resource=resource)  # which traces are kept is decided here, before a span is made
        self._spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{root}/v1/traces")))
        views = [
            View(instrument_name=name, aggregation=ExplicitBucketHistogramAggregation(BUCKETS))
            for name in (SERVER_DURATION, CLIENT_DURATION)
        ]
        reader = PeriodicExportingMetricReader(OTLPMetricExporter(f"{root}/v1/metrics"))
        self._metrics = MeterProvider([reader], resource=resource, views=views)
        meter = self._metrics.get_meter("wicket", __version__)
        self._served = meter.create_histogram(SERVER_DURATION, "s", "Requests of clients.")
        self._asked = meter.create_histogram(CLIENT_DURATION, "s", "Requests to servers.")
        self._tracer = self._spans.get_tracer("wicket", __version__)
        self._context = CompositePropagator([TraceContextTextMapPropagator(), W3CBaggagePropagator()])
        self._content = content

    async def close(self) -> None:
        """Send what waits; a collector that is away is not waited for beyond its own deadline."""
        await asyncio.to_thread(self._spans.shutdown)
        await asyncio.to_thread(self._metrics.shutdown)

    # Around the answer to a client

    def server(self, transport: str) -> ServerTrace:
        """What goes around every answer; `transport` is `pipe` or `tcp`."""

        async def answer(request: Incoming, work: Answer) -> JsonObject:
            started = time.perf_counter()
            meta = as_object(request.params.get("_meta"))
            if not self._keeps(meta.get("traceparent")):
                skipped = _SKIPPED.set(True)
                try:
                    return await work()
                finally:
                    _SKIPPED.reset(skipped)
                    self._served.record(time.perf_counter() - started, _method(request.method))
            name = as_text(request.params.get("name"))
            attributes: JsonObject = {
                "mcp.method.name": request.method,
                "jsonrpc.request.id": str(request.id),
                "network.transport": transport,
                **_about(request.method, name, as_text(request.params.get("uri"))),
                **({"mcp.protocol.version": MODERN_VERSION} if request.modern else {}),
                **({"mcp.session.id": request.caller.session} if not request.modern and transport == "tcp" else {}),
            }
            kind, parent = SpanKind.SERVER, self._parent(meta)
            with self._tracer.start_as_current_span(
                _title(request.method, name), parent, kind, attributes, record_exception=False
            ) as span:
                try:
                    result = await work()
                    _note_result(span, result)
                    return result
                except WicketError as problem:
                    span.set_attribute("rpc.response.status_code", str(problem.rpc_code))
                    if problem.rpc_code == INTERNAL_ERROR or -32099 <= problem.rpc_code <= -32000:
                        _fail(span, str(problem.rpc_code))
                    else:
                        span.set_attribute("error.type", str(problem.rpc_code))
                    raise
                finally:
                    self._served.record(time.perf_counter() - started, _method(request.method))

        return answer

    # Around the request to a server

    def client(self, target: Callable[[str], Target | None]) -> Layer:
        """The layer around the last one; `target` knows the servers."""

        def layer(inner: Handler) -> Handler:
            async def handle(request: Request) -> Result:
                started = time.perf_counter()
                if _SKIPPED.get() or not (trace.get_current_span().is_recording() or self._keeps(None)):
                    try:
                        return await inner(request)
                    finally:
                        self._asked.record(time.perf_counter() - started, _method(request.method))
                name = request.span.name or request.name
                attributes = self._describe(request, name, target(request.server))
                with self._tracer.start_as_current_span(
                    _title(request.method, name), None, SpanKind.CLIENT, attributes, record_exception=False
                ) as span:
                    carried: dict[str, str] = {}
                    self._context.inject(carried)
                    try:
                        result = await inner(replace(request, meta={**request.meta, **carried}))
                    except WicketError as problem:
                        if isinstance(problem, Refused):
                            span.set_attribute("rpc.response.status_code", str(problem.rpc_code))
                        _fail(span, str(problem.rpc_code) if isinstance(problem, Refused) else problem.code)
                        raise
                    finally:
                        self._asked.record(time.perf_counter() - started, _method(request.method))
                    _note_result(span, result.body)
                    if self._content:
                        span.set_attribute("gen_ai.tool.call.result", encode(result.body).decode()[:_MAX_CONTENT])
                    return result

            return handle

        return layer

    def name(self) -> Layer:
        """The outermost layer: the client's span learns which tool was really called."""

        def layer(inner: Handler) -> Handler:
            async def handle(request: Request) -> Result:
                try:
                    return await inner(request)
                finally:
                    span = trace.get_current_span()
                    if span.is_recording() and request.span.name and not request.span.run:  # a script has many calls
                        span.update_name(_title(request.method, request.span.name))
                        span.set_attributes(_about(request.method, request.span.name, ""))

            return handle

        return layer

    def _keeps(self, parent: Any) -> bool:
        """Whether a trace is kept: as its parent says, and else by the share that is to be kept."""
        if isinstance(parent, str):
            return parent.rstrip().endswith("1")
        return self._share >= 1 or random.random() < self._share

    def _parent(self, meta: Mapping[str, Any]) -> Context | None:
        carrier = {key: value for key in _CARRIED if isinstance(value := meta.get(key), str)}
        return self._context.extract(carrier) if carrier else None

    def _describe(self, request: Request, name: str, target: Target | None) -> JsonObject:
        attributes: JsonObject = {
            "mcp.method.name": request.method,
            **_about(request.method, name, name if request.method.startswith("resources/") else ""),
        }
        if target is not None:
            attributes["network.transport"] = "pipe" if target.transport == "stdio" else "tcp"
            if target.url:
                split = urlsplit(target.url)
                attributes |= {"network.protocol.name": "http", "server.address": split.hostname or ""}
                attributes["server.port"] = split.port or (443 if split.scheme == "https" else 80)
        if self._content and request.tool is not None:
            attributes["gen_ai.tool.call.arguments"] = encode(request.params.get("arguments")).decode()[:_MAX_CONTENT]
        return attributes


def _method(name: str) -> Mapping[str, str]:
    """The attributes of a duration; made once for each method there is."""
    return _METHODS.get(name) or {"mcp.method.name": "other"}


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


def _note_result(span: Span, body: JsonObject) -> None:
    if body.get("isError"):
        _fail(span, "tool_error")


def _fail(span: Span, kind: str) -> None:
    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR))
