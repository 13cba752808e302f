"""The published example sessions: their servers, and a client in front of a gateway over them, on either transport."""

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

from tests.conftest import PEERS, OpenGateway, Server
from tests.dialects.talking import Talker
from tests.gateway.serving import serve_http, toml_of
from wicket_mcp.app import Gateway
from wicket_mcp.dialects.base import ToolCall
from wicket_mcp.model import LOCAL, JsonObject, Principal, Silent

TRANSPORTS = ("stdio", "http")


def seed_server(name: str, **options: Any) -> Server:
    """A server of the published examples (see tests/peers/seed_servers.py)."""
    return {"command": sys.executable, "args": [str(PEERS / "seed_servers.py"), name], "connect_timeout": 30, **options}


@asynccontextmanager
async def speaking(
    dialect: str, transport: str, servers: dict[str, Server], folder: Path, open_gateway: OpenGateway
) -> AsyncGenerator[Talker]:
    """The SDK's client, connected to a gateway that speaks `dialect`."""
    if transport == "http":
        async with open_gateway(servers) as gateway, serve_http(gateway, token=None) as address:
            async with Client(f"{address}/{dialect}", cache=None) as client:
                yield Talker(client)
        return
    config = folder / "wicket.toml"
    config.write_text(toml_of(servers))
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "WICKET_LOG": "error"}
    arguments = ["-m", "wicket_mcp", "serve", "--config", str(config), "--dialect", dialect]
    command = StdioServerParameters(command=sys.executable, args=arguments, env=environment)
    async with Client(command, cache=None) as client:
        yield Talker(client)


@asynccontextmanager
async def gateway_over(servers: dict[str, Server], folder: Path, **options: Any) -> AsyncGenerator[Gateway]:
    """A gateway for all tests of a class: the SDK's servers take a second to start."""
    async with Gateway.open({"servers": servers, "state_dir": str(folder), **options}) as gateway:
        yield gateway


class Speaker:
    """Calls tools of one dialect inside the test's own process."""

    def __init__(self, gateway: Gateway, *dialects: str, principal: Principal = LOCAL, session: str = "local") -> None:
        self.gateway = gateway
        self._protocol = gateway.protocol(*dialects)
        self._caller = Silent(principal, session)

    async def call(self, tool: str, /, **arguments: Any) -> JsonObject:
        return await self._protocol.menu.call(self.gateway.verbs, tool, ToolCall(arguments, self._caller))

    async def text(self, tool: str, /, **arguments: Any) -> str:
        """The text of a call that succeeds."""
        result = await self.call(tool, **arguments)
        assert not result.get("isError"), result
        return result["content"][0]["text"]

    async def problem(self, tool: str, /, **arguments: Any) -> str:
        """The text of a call that fails."""
        result = await self.call(tool, **arguments)
        assert result["isError"], result
        return result["content"][0]["text"]

    async def names(self) -> list[str]:
        return [tool["name"] for tool in await self._protocol.menu.list(self.gateway.verbs)]
