"""An address on this machine (RFC 8252), open during a sign-in: for the link and for the way back.

Reads one small request after another and does not interpret them; its opener answers with a page.
"""

import asyncio
from http import HTTPStatus
from typing import Protocol
from urllib.parse import urlsplit

from wicket_mcp.identity.pages import OTHER_PAGE, PATH, START, Reply, headers_of, page

_PATIENCE = 10.0  # seconds for a browser to send its request
_LONGEST = 16 * 1024
_LONGEST_FORM = 4096


class Answers(Protocol):
    """Answers a browser, by path, query or form, and cookies (`visits.py`)."""

    async def answer(self, path: str, query: str, cookies: str) -> Reply: ...

    async def press(self, path: str, form: str, cookies: str) -> Reply: ...


class Loopback:
    """Serves the pages of a sign-in on a port of the loopback interface."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._address = ""
        self._server: asyncio.Server | None = None

    async def open(self, preferred: int = 0) -> str:
        """The redirect address; on the port `preferred` if it is free."""
        if self._server is None:
            try:
                self._server = await asyncio.start_server(self._serve, "127.0.0.1", preferred, limit=_LONGEST)
            except OSError:
                self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_LONGEST)
        port: int = self._server.sockets[0].getsockname()[1]
        self._address = f"http://127.0.0.1:{port}"
        return f"{self._address}{PATH}"

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_PATIENCE):
                head = await reader.readuntil(b"\r\n\r\n")
                request, _, lines = head.decode("latin-1").partition("\r\n")
                fields = _read_fields(lines)
                size = fields.get("content-length", "")
                form = await reader.readexactly(min(int(size), _LONGEST_FORM)) if size.isdecimal() else b""
            writer.write(render(await self._answer(request, fields, form.decode("latin-1"))))
            await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    async def _answer(self, request: str, fields: dict[str, str], form: str) -> Reply:
        verb, _, tail = request.partition(" ")
        split, cookies = urlsplit(tail.partition(" ")[0]), fields.get("cookie", "")
        if verb == "POST" and split.path.startswith(START):
            if fields.get("origin") != self._address:
                return Reply(403, OTHER_PAGE)
            return await self._answers.press(split.path, form, cookies)
        if verb == "GET" and (split.path == PATH or split.path.startswith(START)):
            return await self._answers.answer(split.path, split.query, cookies)
        return Reply(404, "Nothing is served here.")


def _read_fields(lines: str) -> dict[str, str]:
    """Header fields by their names in lower case; cookies may come in several lines."""
    fields: dict[str, str] = {}
    for line in lines.split("\r\n"):
        name, _, value = line.partition(":")
        name = name.lower()
        fields[name] = f"{fields[name]}; {value.strip()}" if name in fields else value.strip()
    return fields


def render(reply: Reply) -> bytes:
    body = page(reply)
    headers = "".join(f"{name}: {value}\r\n" for name, value in headers_of(reply, body))
    status = f"{reply.status} {HTTPStatus(reply.status).phrase}"
    return f"HTTP/1.1 {status}\r\n{headers}Connection: close\r\n\r\n".encode() + body
