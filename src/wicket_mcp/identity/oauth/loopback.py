"""An address on this machine (RFC 8252), open during a sign-in: for the link and for the way back.

Reads one small GET after another and does not interpret them; its opener answers with a page.
"""

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from urllib.parse import urlsplit

from wicket_mcp.identity.pages import PATH, START, Reply, headers_of, page

_PATIENCE = 10.0  # seconds for a browser to send its request
_LONGEST = 16 * 1024

OnVisit = Callable[[str, str, str], Awaitable[Reply]]
"""Called with the path, query and cookies of a browser."""


class Loopback:
    """Serves the pages of a sign-in on a port of the loopback interface."""

    def __init__(self, on_visit: OnVisit) -> None:
        self._on_visit = on_visit
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
            writer.write(render(await self._answer(head)))
            await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    async def _answer(self, head: bytes) -> Reply:
        request, _, fields = head.decode("latin-1").partition("\r\n")
        verb, _, tail = request.partition(" ")
        split = urlsplit(tail.partition(" ")[0])
        if verb != "GET" or not (split.path == PATH or split.path.startswith(START)):
            return Reply(404, "Nothing is served here.")
        named = (line.partition(":") for line in fields.split("\r\n"))
        cookies = "; ".join(value for name, _, value in named if name.lower() == "cookie")
        return await self._on_visit(split.path, split.query, cookies)


def render(reply: Reply) -> bytes:
    body = page(reply)
    headers = "".join(f"{name}: {value}\r\n" for name, value in headers_of(reply, body))
    status = f"{reply.status} {HTTPStatus(reply.status).phrase}"
    return f"HTTP/1.1 {status}\r\n{headers}Connection: close\r\n\r\n".encode() + body
