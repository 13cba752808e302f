"""A real MCP client that speaks to a served gateway under a token or an API key."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Literal

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.gateway.serving import TOKEN
from wicket_mcp.codec import decode

PATIENCE = httpx2.Timeout(30, read=300)
"""What the SDK's own HTTP client has: a package may have to be downloaded before a call is answered."""


class Talker:
    """Calls tools and looks at what a model would see."""

    def __init__(self, client: Client, address: str = "") -> None:
        self.client = client
        self.address = address

    async def names(self) -> set[str]:
        return {tool.name for tool in (await self.client.list_tools()).tools}

    async def call(self, tool: str, /, **arguments: Any) -> Any:
        return await self.client.call_tool(tool, arguments)

    async def text(self, tool: str, /, **arguments: Any) -> str:
        """The text of a call that succeeds."""
        result = await self.call(tool, **arguments)
        assert not result.is_error, result.content[0].text
        return result.content[0].text

    async def value(self, tool: str, /, **arguments: Any) -> Any:
        """The JSON in the text of a call that succeeds."""
        return decode(await self.text(tool, **arguments))

    async def problem(self, tool: str, /, **arguments: Any) -> str:
        """The text of a call that fails."""
        result = await self.call(tool, **arguments)
        assert result.is_error, result.content[0].text
        return result.content[0].text


@asynccontextmanager
async def talking(
    address: str, key: str = TOKEN, dialect: str = "bridge", mode: Literal["auto", "legacy"] = "auto"
) -> AsyncGenerator[Talker]:
    url = f"{address}/{dialect}"
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=PATIENCE) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode, cache=None) as client,
    ):
        yield Talker(client, address)
