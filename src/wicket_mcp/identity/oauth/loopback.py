"""A callback address on this machine (RFC 8252), open during a sign-in.

Reads one small GET after another and does not interpret them; its opener answers with a page.
"""

import asyncio
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from wicket_mcp.identity.pages import PAGE_HEADERS, PATH, page, read_query

_PATIENCE = 10.0  # seconds for a browser to send its request
_LONGEST = 16 * 1024

OnQuery = Callable[[dict[str, str]], Awaitable[str]]
"""Called with the query of a redirect; returns the sentence that the browser shows."""


class Loopback:
    """Serves one path on a port of the loopback interface."""

    def __init__(self, on_query: OnQuery) -> None:
        self._on_query = on_query
        self._server: asyncio.Server | None = None

    async def open(self, preferred: int = 0) -> str:
        """The redirect address; on the port `preferred` if it is free."""
        if self._server is None:
            try:
                self._server = await asyncio.start_server(self._serve, "127.0.0.1", preferred, limit=_LONGEST)
            except OSError:
                self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_LONGEST)
        port: int = self._server.sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}{PATH}"

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_PATIENCE):
                head = await reader.readuntil(b"\r\n\r\n")
            status, text = await self._answer(head)
            writer.write(render(status, text))
            await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    async def _answer(self, head: bytes) -> tuple[str, str]:
        verb, _, tail = head.decode("latin-1").partition(" ")
        split = urlsplit(tail.partition(" ")[0])
        if verb != "GET" or split.path != PATH:
            return "404 Not Found", "Nothing is served here."
        return "200 OK", await self._on_query(read_query(split.query))


def render(status: str, text: str) -> bytes:
    body = page(text)
    headers = "".join(f"{name}: {value}\r\n" for name, value in PAGE_HEADERS)
    return f"HTTP/1.1 {status}\r\n{headers}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body
