"""A server of the older era, over plain HTTP, that answers every request and remembers it."""

import asyncio

from tests.peers.http_faults import JSON, HttpPeer, Received, send

GREETING = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "greets", "version": "1"}}


class Greets(HttpPeer):
    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        if request.rpc_method == "initialize":
            send(writer, 200, JSON, request.answered(GREETING))
        else:
            await super().answer(request, writer)
