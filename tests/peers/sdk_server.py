"""A real server on the SDK, over loopback HTTP: streams of events, plain JSON, and the older HTTP+SSE transport.

Run as a script; prints the three addresses as one JSON line and serves until its stdin ends.
"""

import asyncio
import socket
import sys
from typing import Any

import anyio
import mcp_types as types
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.sse import SseServerTransport
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from wicket_mcp.codec import encode

bus = InMemorySubscriptionBus()
cancelled = asyncio.Event()
SCHEMA: dict[str, Any] = {"type": "object"}


def text(content: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=content)])


async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
    names = ("echo", "progress", "ask", "hang", "was_cancelled", "change", "né")
    return types.ListToolsResult(tools=[types.Tool(name=name, input_schema=SCHEMA) for name in names])


async def call_tool(ctx: Any, params: Any) -> types.CallToolResult:
    match params.name:
        case "progress":
            await ctx.session.report_progress(1, 2, "half way")
        case "ask":
            answer = await ctx.session.elicit_form(
                "Name?", SCHEMA | {"properties": {}}, related_request_id=ctx.request_id
            )
            return text(str(answer.content))
        case "hang":
            await ctx.session.report_progress(1, 2, "hanging")
            try:
                await anyio.sleep_forever()
            finally:
                cancelled.set()
        case "was_cancelled":
            await cancelled.wait()
            cancelled.clear()
        case "change":
            await ctx.session.send_tool_list_changed()
            await bus.publish(ToolsListChanged())
        case _:
            pass
    return text(params.arguments.get("message", "") if params.arguments else "")


def server() -> Server[Any]:
    return Server(
        "sdk",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_subscriptions_listen=ListenHandler(bus),
        get_tool_input_schema=lambda name: SCHEMA,
    )


def sse_app() -> Starlette:
    transport = SseServerTransport("/messages/")
    speaker = server()

    async def connect(request: Request) -> Response:
        async with transport.connect_sse(request.scope, request.receive, request._send) as (reader, writer):  # pyright: ignore[reportPrivateUsage]
            await speaker.run(reader, writer, speaker.create_initialization_options())
        return Response()

    return Starlette(routes=[Route("/sse", connect), Mount("/messages/", app=transport.handle_post_message)])


async def main() -> None:
    apps = {
        "events": (server().streamable_http_app(), "/mcp"),
        "json": (server().streamable_http_app(json_response=True), "/mcp"),
        "sse": (sse_app(), "/sse"),
    }
    addresses: dict[str, str] = {}
    running: list[uvicorn.Server] = []
    async with anyio.create_task_group() as group:
        for name, (app, path) in apps.items():
            sock = socket.create_server(("127.0.0.1", 0))
            addresses[name] = f"http://127.0.0.1:{sock.getsockname()[1]}{path}"
            served = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1))
            running.append(served)
            group.start_soon(served.serve, [sock])
        sys.stdout.write(f"{encode(addresses).decode()}\n")
        sys.stdout.flush()
        await anyio.to_thread.run_sync(sys.stdin.read)
        for served in running:
            served.should_exit = True


if __name__ == "__main__":
    asyncio.run(main())
