"""A legacy server over HTTP that uses an extension; a call is answered with what its session declared at first."""

import asyncio
from typing import Any

from tests.peers.counting_servers import CountingServer
from tests.peers.http_faults import JSON, Received, send

TALLY = "com.example/tally"


class DeclaredServer(CountingServer):
    def __init__(self) -> None:
        super().__init__()
        self.declared: dict[str, Any] = {}
        """The client capabilities of each session."""

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        if request.rpc_method != "initialize" or request.verb != "POST":
            await super().answer(request, writer)
            return
        session = f"session-{len(self.sessions)}"
        self.sessions.add(session)
        self.declared[session] = request.body["params"]["capabilities"]
        result: dict[str, Any] = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}, "extensions": {TALLY: {}}},
            "serverInfo": {"name": "declared", "version": "1"},
        }
        send(writer, 200, JSON, request.answered(result), Mcp_Session_Id=session)

    async def call(self, request: Received, writer: asyncio.StreamWriter) -> None:
        session = request.headers["mcp-session-id"]
        seen = {"session": session, "capabilities": self.declared[session]}
        send(writer, 200, JSON, request.answered({"content": [], "structuredContent": seen}))
