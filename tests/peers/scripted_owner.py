"""A gateway that runs a server for others, over a Unix socket: it answers only what a test tells it to."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from wicket_mcp.codec import decode, encode


class ScriptedOwner:
    """Open it with `ScriptedOwner.listen`."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.received: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._writer: asyncio.StreamWriter | None = None

    @classmethod
    @asynccontextmanager
    async def listen(cls, folder: Path) -> "AsyncGenerator[ScriptedOwner]":
        path = folder / "owner.socket"
        owner = cls(f"unix:{path}")
        server = await asyncio.start_unix_server(owner._serve, path)
        try:
            yield owner
        finally:
            server.close()
            if owner._writer is not None:
                owner._writer.close()
            await server.wait_closed()

    def send(self, message: dict[str, Any]) -> None:
        assert self._writer is not None
        self._writer.write(encode({"jsonrpc": "2.0", **message}) + b"\n")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        self._writer = writer
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
        while line := await reader.readline():
            self.received.put_nowait(decode(line))
