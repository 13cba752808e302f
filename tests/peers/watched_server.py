"""A legacy server over HTTP with one resource: every session that subscribed to it hears when anybody changes it.

Changes are made with its tool `echo`. Notifications go to the streams that clients hold open with GET, as in real
servers with sessions; a session that did not subscribe hears nothing.
"""

import asyncio
from typing import Any

from tests.peers.counting_servers import CountingServer
from tests.peers.http_faults import EVENTS, JSON, Received, event, head, send
from wicket_mcp.codec import encode

URI = "test://watched"


class WatchedServer(CountingServer):
    """See the module's docstring."""

    def __init__(self) -> None:
        super().__init__()
        self.subscribed: set[str] = set()
        self._streams: dict[str, asyncio.StreamWriter] = {}

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        session = request.headers.get("mcp-session-id", "")
        if request.verb == "GET" and session in self.sessions:
            self._streams[session] = writer
            head(writer, 200, EVENTS)
            await asyncio.Event().wait()
        elif request.rpc_method == "initialize":
            number = f"session-{len(self.sessions) + 1}"
            self.sessions.add(number)
            result: dict[str, Any] = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}, "resources": {"subscribe": True}},
                "serverInfo": {"name": "watched", "version": "1"},
            }
            send(writer, 200, JSON, request.answered(result), Mcp_Session_Id=number)
        elif request.rpc_method == "resources/list":
            send(writer, 200, JSON, request.answered({"resources": [{"uri": URI, "name": "watched"}]}))
        elif request.rpc_method == "resources/templates/list":
            send(writer, 200, JSON, request.answered({"resourceTemplates": []}))
        elif request.rpc_method == "resources/subscribe":
            self.subscribed.add(session)
            send(writer, 200, JSON, request.answered({"_meta": {}}))
        else:
            await super().answer(request, writer)

    async def call(self, request: Received, writer: asyncio.StreamWriter) -> None:
        await super().call(request, writer)
        message = {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": URI}}
        for session in self.subscribed & self._streams.keys():
            self._streams[session].write(event(encode(message)))
