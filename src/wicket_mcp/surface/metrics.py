"""`GET /metrics` for Prometheus; needs the scope `admin`."""

from dataclasses import dataclass

from wicket_mcp.model import Principal
from wicket_mcp.surface.guard import Authentication
from wicket_mcp.surface.http import Receive, RequestHeaders, Scope, Send, send_json
from wicket_mcp.telemetry.metrics import CONTENT_TYPE, Metrics

PATH = "/metrics"


@dataclass(frozen=True, slots=True)
class MetricsPage:
    """A Mount."""

    metrics: Metrics
    authentication: Authentication = "required"

    def serves(self, path: str) -> bool:
        return path == PATH

    async def __call__(
        self, scope: Scope, headers: RequestHeaders, receive: Receive, send: Send, principal: Principal
    ) -> None:
        if not principal.may("admin"):
            await send_json(send, 403, {"error": "Metrics need the scope 'admin'."})
        elif scope["method"] not in ("GET", "HEAD"):
            await send_json(send, 405, {"error": "Use GET."}, ((b"allow", b"GET, HEAD"),))
        else:
            body = self.metrics.render().encode()
            head = [
                (b"content-type", CONTENT_TYPE.encode()),
                (b"cache-control", b"no-store"),
                (b"content-length", str(len(body)).encode()),
            ]
            await send({"type": "http.response.start", "status": 200, "headers": head})
            await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
