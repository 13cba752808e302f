"""One client of a shared daemon: the shim's connection, which goes both ways. Lines are as over stdio (`stdio.py`)."""

import asyncio
import secrets
from typing import cast

from wicket_mcp.model import Principal
from wicket_mcp.surface.outbox import Counters, StallWatch
from wicket_mcp.surface.protocol import Protocol
from wicket_mcp.surface.stdio import StdioClient


class SocketClient(StdioClient):
    """See the module's docstring."""

    def __init__(self, protocol: Protocol, principal: Principal, counters: Counters) -> None:
        session = secrets.token_hex(8)
        super().__init__(protocol, principal, counters, session, f"wicket-{session}-")

        self._said_goodbye = False

    def attach(self, transport: asyncio.Transport) -> None:
        """Serve over this connection from now on."""
        self._source = self._sink = transport
        self._stall = StallWatch(transport, lambda: self._outbox.full)
        transport.set_protocol(self)

    def order(self, order: str, words: str = "") -> None:
        """Tell the shim something that its client does not see; on one line."""
        transport = cast("asyncio.Transport", self._sink)
        if not transport.is_closing():
            transport.write(f"!{order} {' '.join(words.splitlines())}\n".encode("utf-8", "replace"))

    def eof_received(self) -> bool:
        if not self._said_goodbye:  # who only closes its end says so; everybody else was killed
            self.vanished()
        return super().eof_received()

    def pause_writing(self) -> None:
        self.paused(True)

    def resume_writing(self) -> None:
        self.paused(False)

    def connection_lost(self, exc: Exception | None) -> None:
        self.vanished()

    def _take(self, line: bytes) -> None:
        if line == b"!done":
            self._said_goodbye = True
        else:
            super()._take(line)
