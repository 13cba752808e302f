"""FastMCP's proxy, as its documentation has it.

    python fastmcp_proxy.py stdio|http|mounted PORT TARGET

TARGET is a URL, or a file with `mcpServers`. `mounted` serves HTTP with a proxy for each of many servers, each with a
session that stays open: made of one configuration, it would start all of them anew for every call. Runs in FastMCP's
own environment, hence the late imports.
"""

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from importlib import import_module
from pathlib import Path
from typing import Any


async def serve_mounted(servers: dict[str, Any], port: int) -> None:
    fastmcp: Any = import_module("fastmcp")
    create_proxy: Any = import_module("fastmcp.server").create_proxy
    async with AsyncExitStack() as connected:
        house = fastmcp.FastMCP("proxy")
        for name, server in servers.items():
            client = await connected.enter_async_context(fastmcp.Client({"mcpServers": {name: server}}))
            house.mount(create_proxy(client, name=name), namespace=name)
        options: dict[str, Any] = {"stateless_http": True, "json_response": True, "log_level": "critical"}
        await house.run_http_async(host="127.0.0.1", port=port, show_banner=False, **options)


def main() -> None:
    *front, target = sys.argv[1:]
    create_proxy: Any = import_module("fastmcp.server").create_proxy
    behind: Any = target
    if not target.startswith("http"):
        behind = json.loads(Path(target).read_text("utf-8"))
    if front[0] == "mounted":
        asyncio.run(serve_mounted(behind["mcpServers"], int(front[1])))
        return
    proxy = create_proxy(behind, name="proxy")
    if front[0] == "http":
        proxy.run(transport="http", host="127.0.0.1", port=int(front[1]), show_banner=False, log_level="error")
    else:
        proxy.run(show_banner=False, log_level="error")


if __name__ == "__main__":
    main()
