"""A mail server on the SDK, over loopback HTTP, that lets in who knows its token.

Run as a script; prints its address as one JSON line and serves until its stdin ends.
"""

import asyncio
import socket
import sys
from typing import Any

import anyio
import uvicorn
from mcp.server import MCPServer

from wicket_mcp.codec import encode

TOKEN = "mail-token"
server = MCPServer("Gmail")


@server.tool(description="Send an email.")
def send_email(to: str, subject: str, body: str = "") -> str:
    return f"Sent '{subject}' to {to}: {body or 'nothing'}"


def guarded(app: Any) -> Any:
    async def asked(scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers", ()))
        if scope["type"] != "http" or headers.get(b"authorization") == f"Bearer {TOKEN}".encode():
            await app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 401, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    return asked


async def main() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    app = guarded(server.streamable_http_app())
    served = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1))
    async with anyio.create_task_group() as group:
        group.start_soon(served.serve, [listening])
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        sys.stdout.write(f"{encode({'mail': address}).decode()}\n")
        sys.stdout.flush()
        await anyio.to_thread.run_sync(sys.stdin.read)
        served.should_exit = True


if __name__ == "__main__":
    asyncio.run(main())
