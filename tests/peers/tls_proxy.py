"""A reverse proxy as people put in front of a gateway: takes https for one host, passes the bytes on as they are."""

import asyncio
import ssl
from contextlib import suppress
from types import TracebackType
from typing import Self

from wicket_mcp.tasks import Tasks


class TlsProxy:
    """Enter it; then `origin` is its public address, and `target` (host and port) is where requests go."""

    def __init__(self, host: str, context: ssl.SSLContext) -> None:
        self.host = host
        self.port = 0
        self.target: tuple[str, int] = ("127.0.0.1", 0)
        self._context = context
        self._server: asyncio.Server | None = None
        self._tasks = Tasks()

    @property
    def origin(self) -> str:
        return f"https://{self.host}:{self.port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._context)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        await self._tasks.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(*self.target)
        self._tasks.start(_pass(reader, back), "to the gateway")
        self._tasks.start(_pass(there, writer), "to the client")


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError, ssl.SSLError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()
