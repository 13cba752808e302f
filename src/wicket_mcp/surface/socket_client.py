"""One client of a shared daemon: the shim's connection, in both directions. Lines are as over stdio (`stdio.py`).

Clients share servers, so we must know the roots of a session before it uses a server. A legacy client with roots is
asked for them when its session begins and when they change, and its calls wait for the answer. A modern client states
its roots only during a call, so it shares no server that could ask for them.
"""

import asyncio
import secrets
import select
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from wicket_mcp.errors import WicketError
from wicket_mcp.model import JsonObject, Principal
from wicket_mcp.surface.outbox import Counters
from wicket_mcp.surface.protocol import Protocol, Request
from wicket_mcp.surface.stdio import DuplexClient

if TYPE_CHECKING:
    from wicket_mcp.surface.under_way import ConnectedClient

LONG_SILENCE = 4.0
"""Seconds, fewer than a shim waits for us, after which a client may have left before we read what it sent."""
ROOTS_WITHIN = 3.0
"""Seconds in which a client must state its roots; after that it shares no server."""
_ASKS_SERVERS = frozenset({"tools/call", "resources/read", "resources/subscribe", "prompts/get", "completion/complete"})
_NEW_ROOTS = ("notifications/initialized", "notifications/roots/list_changed")


class SocketClient(DuplexClient):
    """See the module's docstring."""

    def __init__(
        self,
        protocol: Protocol,
        principal: Principal,
        counters: Counters,
        settle_roots: Callable[[str, JsonObject | None], None],
    ) -> None:
        """`settle_roots` is called with the roots of a session; None if they are unknown."""
        session = secrets.token_hex(8)
        super().__init__(protocol, principal, counters, session, f"wicket-{session}-")
        self._heard = float("-inf")
        self._began = time.monotonic()
        self._settle_roots = settle_roots
        self._asking: asyncio.Task[None] | None = None
        """Asks for the client's roots; requests wait until it has ended."""

    def attach(self, transport: asyncio.Transport) -> None:
        super().attach(transport)
        transport.set_protocol(self)

    def describe(self) -> "ConnectedClient":
        """This client, for the dashboard."""
        from wicket_mcp.surface.under_way import ConnectedClient  # noqa: PLC0415  (for those who open it)

        seconds = time.monotonic() - self._began
        return ConnectedClient(self.principal.id, self._legacy.name, self._legacy.version, "stdio", seconds)

    def order(self, order: str, words: str = "") -> None:
        """Send the shim an order that its client does not see, on one line."""
        transport = cast("asyncio.Transport", self._sink)
        if not transport.is_closing():
            transport.write(f"!{order} {' '.join(words.splitlines())}\n".encode("utf-8", "replace"))

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        if now - self._heard > LONG_SILENCE and self._has_hung_up():
            return  # we were stopped for so long that its shim serves it without us: what it sent must not run twice
        self._heard = now
        super().data_received(data)

    def _has_hung_up(self) -> bool:
        poll = select.poll()
        poll.register(cast("asyncio.Transport", self._source).get_extra_info("socket"), 0)
        return any(events & select.POLLHUP for _, events in poll.poll(0))

    def eof_received(self) -> bool:
        self.on_vanished()
        return super().eof_received()

    def _take(self, line: bytes) -> None:
        if line == b"!done":  # nothing more comes, and what runs is answered
            self.finished.set()
        elif line == b"!ping":
            self.order("pong")
        else:
            super()._take(line)

    def _take_notification(self, body: JsonObject) -> None:
        if body["method"] in _NEW_ROOTS and "roots" in self._legacy.capabilities:
            self._asking = self._tasks.start(self._ask_roots(), "ask for roots")
        super()._take_notification(body)

    async def _ask_roots(self) -> None:
        roots: JsonObject | None = None
        try:
            async with asyncio.timeout(ROOTS_WITHIN):
                roots = await self._legacy.questions.request("roots/list", {}, send=self._send)
        except (WicketError, TimeoutError):
            pass  # then the roots stay unknown
        self._settle_roots(self.session, roots)

    async def _serve(self, request: Request) -> None:
        if request.method in _ASKS_SERVERS:
            await self._wait_for_roots(request)
        await super()._serve(request)

    async def _wait_for_roots(self, request: Request) -> None:
        if request.modern and "roots" in request.caller.capabilities:
            self._settle_roots(self.session, None)
        elif self._asking is not None and not self._asking.done():
            try:
                await asyncio.wait({self._asking})
            except asyncio.CancelledError:
                self._running.pop(request.id, None)
                raise
