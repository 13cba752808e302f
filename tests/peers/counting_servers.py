"""HTTP servers that count what they execute, each with one way to turn a call away before it runs.

They speak the legacy era with sessions; `executed` has the message of every call of their tool `echo` that ran.
"""

import asyncio
import itertools
from typing import Any

from tests.peers.http_faults import JSON, HttpPeer, Received, send

ECHO = {
    "name": "echo",
    "inputSchema": {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]},
}


class CountingServer(HttpPeer):
    """A healthy one."""

    def __init__(self) -> None:
        super().__init__()
        self.executed: list[str] = []
        self.sessions: set[str] = set()
        self._numbers = itertools.count(1)

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        method = request.rpc_method
        if request.verb != "POST":
            send(writer, 405, "", b"")
        elif method == "server/discover":
            send(writer, 404, "", b"")
        elif method == "initialize":
            session = f"session-{next(self._numbers)}"
            self.sessions.add(session)
            result: dict[str, Any] = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": type(self).__name__, "version": "1"},
            }
            send(writer, 200, JSON, request.answered(result), Mcp_Session_Id=session)
        elif request.headers.get("mcp-session-id") not in self.sessions:
            send(writer, 404, "", b"")
        elif "id" not in request.body:
            send(writer, 202, "", b"")
        elif method == "tools/list":
            send(writer, 200, JSON, request.answered({"tools": [ECHO]}))
        else:
            await self.call(request, writer)

    async def call(self, request: Received, writer: asyncio.StreamWriter) -> None:
        message = request.body["params"]["arguments"]["message"]
        self.executed.append(message)
        send(writer, 200, JSON, request.answered({"content": [{"type": "text", "text": message}]}))


class ForgetsSessions(CountingServer):
    """Forgets every session once a call has run in it, as a server does that restarts behind a load balancer."""

    async def call(self, request: Received, writer: asyncio.StreamWriter) -> None:
        await super().call(request, writer)
        self.sessions.clear()


class KnowsNoSession(CountingServer):
    """Lists its tools in any session and then knows none: calls are never taken."""

    async def call(self, request: Received, writer: asyncio.StreamWriter) -> None:
        send(writer, 404, "", b"")


class AsksToWait(CountingServer):
    """Turns the first `times` calls away, and says when to come back."""

    def __init__(self, status: int, seconds: str, times: int) -> None:
        super().__init__()
        self._status, self._seconds, self._times = status, seconds, times
        self.turned_away = 0

    async def call(self, request: Received, writer: asyncio.StreamWriter) -> None:
        if self.turned_away < self._times:
            self.turned_away += 1
            send(writer, self._status, "", b"", Retry_After=self._seconds)
            return
        await super().call(request, writer)
