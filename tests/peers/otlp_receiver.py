"""An OTLP collector that keeps what it is sent: spans, metrics and log records."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass
class Received:
    """What came, as the protocol has it."""

    address: str = ""
    spans: list[Any] = field(default_factory=list[Any])
    logs: list[Any] = field(default_factory=list[Any])
    metrics: dict[str, Any] = field(default_factory=dict[str, Any])
    senders: list[Any] = field(default_factory=list[Any])
    """The resources that sent spans."""

    def named(self, name: str) -> list[Any]:
        return [span for span in self.spans if span.name == name]


def attributes(span: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}


@contextmanager
def collector() -> Generator[Received]:
    received = Received()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/v1/traces":
                for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                    received.spans += [span for scope in resource.scope_spans for span in scope.spans]
                    received.senders.append(resource.resource)
            elif self.path == "/v1/logs":
                for resource in ExportLogsServiceRequest.FromString(body).resource_logs:
                    received.logs += [entry for scope in resource.scope_logs for entry in scope.log_records]
            elif self.path == "/v1/metrics":
                for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                    received.metrics |= {m.name: m for scope in resource.scope_metrics for m in scope.metrics}
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002  (its name there)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    received.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield received
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
