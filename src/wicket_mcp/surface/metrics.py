"""`GET /metrics` for Prometheus, which needs the scope `admin`; and the metrics of all workers as those of one.

A scrape reaches any of the workers, so it asks the others (`GET /_replica/metrics`) and adds up. A counter must never
go back, or Prometheus would take the whole of it for new: what a worker has reported is kept in the workers' folder and
still counts when the worker has ended or does not answer.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import ValidationError, convert

from wicket_mcp.codec import decode, encode
from wicket_mcp.model import Principal
from wicket_mcp.surface.guard import Authentication
from wicket_mcp.surface.http import Receive, RequestHeaders, Scope, Send, send_json
from wicket_mcp.telemetry.metrics import CONTENT_TYPE, Values, add_up, render

PATH = "/metrics"
PEER_PATH = "/_replica/metrics"
_PEER = b"wicket-peer"
_ENDING = ".metrics"


@dataclass(frozen=True, slots=True)
class MetricsPage:
    """A Mount; `read` returns the values to show."""

    read: Callable[[], Awaitable[Values]]
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
            body = render(await self.read()).encode()
            head = [
                (b"content-type", CONTENT_TYPE.encode()),
                (b"cache-control", b"no-store"),
                (b"content-length", str(len(body)).encode()),
            ]
            await send({"type": "http.response.start", "status": 200, "headers": head})
            await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


@dataclass(frozen=True, slots=True)
class PeerMetricsPage:
    """A Mount, for the other workers."""

    read: Callable[[], Values]
    authentication: Authentication = "required"

    def serves(self, path: str) -> bool:
        return path == PEER_PATH

    async def __call__(
        self, scope: Scope, headers: RequestHeaders, receive: Receive, send: Send, principal: Principal
    ) -> None:
        if headers.get(_PEER) is None or scope["method"] != "GET":
            await send_json(send, 404, {"error": "Nothing is served at this path. MCP is at /mcp."})
        else:
            values = self.read()
            await send_json(send, 200, {"readings": values.readings, "histograms": values.histograms})


class WorkerMetrics:
    """The metrics of all workers. `ask` returns the answers of the others by their ids, None for one that is silent."""

    def __init__(
        self, folder: Path, me: str, own: Callable[[], Values], ask: Callable[[], Awaitable[Mapping[str, Any]]]
    ) -> None:
        self._folder = folder
        self._me = me
        self._own = own
        self._ask = ask

    async def read(self) -> Values:
        answers = await self._ask()
        heard = {number: values for number, answer in answers.items() if (values := _parse(answer)) is not None}
        return await asyncio.to_thread(self._add_up, {**heard, self._me: self._own()}, frozenset(answers))

    def leave(self) -> None:
        """Our last values; they count as long as the master runs."""
        self._keep(self._me, self._own())

    def _add_up(self, heard: Mapping[str, Values], alive: frozenset[str]) -> Values:
        for number, values in heard.items():
            self._keep(number, values)
        silent: list[Values] = []
        ended: list[Values] = []
        for path in self._folder.glob(f"*{_ENDING}"):
            if path.stem not in heard and (values := _parse(decode(path.read_bytes()))) is not None:
                (silent if path.stem in alive else ended).append(values)
        return add_up([*heard.values(), *silent], ended)

    def _keep(self, number: str, values: Values) -> None:
        new = self._folder / f"{number}.{self._me}.new"  # two of us may write about the same worker
        new.write_bytes(encode({"readings": values.readings, "histograms": values.histograms}))
        new.replace(self._folder / f"{number}{_ENDING}")


def _parse(answer: Any) -> Values | None:
    try:
        return None if answer is None else convert(answer, Values)
    except ValidationError:
        return None
