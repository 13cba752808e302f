"""Whether another member answers at all: a process that stands still keeps its connections, and the kernel accepts new
ones for it, so only an answer tells.

Asked by whoever waits longer than `PATIENCE` for a member that owes something; decides nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

PATIENCE = 3.0
"""Seconds of silence after which a member that owes something is asked whether it is still there."""
ANSWERS_WITHIN = 2.0
_QUESTION = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

Answers = Callable[[str], Awaitable[bool]]
"""Whether the gateway at an address (`http://host:port` or `unix:/path`) answers."""


async def answers(address: str) -> bool:
    try:
        async with asyncio.timeout(ANSWERS_WITHIN):
            reader, writer = await _connect(address)
            try:
                writer.write(_QUESTION)
                return bool(await reader.readline())
            finally:
                writer.transport.abort()
    except (OSError, ValueError):  # including TimeoutError, and a line without end
        return False


async def _connect(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if address.startswith("unix:"):
        return await asyncio.open_unix_connection(address.removeprefix("unix:"))
    parts = urlsplit(address)
    secure = parts.scheme == "https"
    return await asyncio.open_connection(parts.hostname, parts.port or (443 if secure else 80), ssl=secure or None)
