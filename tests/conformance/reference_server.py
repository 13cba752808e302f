"""An MCP server of both eras with everything that the conformance suite looks for.

    python -m tests.conformance.reference_server --stdio
    python -m tests.conformance.reference_server --http PORT      0 takes a free one; prints the address

It is what a gateway is measured against: the suite's verdict on it, reached directly, is the standard.
"""

import argparse
import asyncio
import socket
import sys
import warnings
from typing import Any, cast

import mcp_types as types
import uvicorn
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp_types import INVALID_PARAMS
from starlette.requests import Request

from tests.conformance.call import Call, InputNeeded, Params
from tests.conformance.content_fixtures import PROMPTS, RESOURCES, TEMPLATES, read
from tests.conformance.event_store import MemoryEventStore
from tests.conformance.tool_fixtures import TOOLS, bus, changes
from wicket_mcp.errors import RESOURCE_NOT_FOUND_LEGACY
from wicket_mcp.model import LEGACY_VERSIONS

Context = ServerRequestContext[Any, Any]
NAME = "reference"
CACHING = CacheHint(ttl_ms=60_000, scope="public")
RETRY_MS = 100


class Reference(Server[Any]):
    """The SDK's server, which also tells legacy clients that its lists change."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        everything = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
        return super().create_initialization_options(everything, experimental_capabilities, extensions)


class Handlers:
    """The protocol's methods over the fixtures; remembers what each legacy session asked for."""

    def __init__(self) -> None:
        self._levels: dict[str, types.LoggingLevel] = {}
        self._watched: dict[str, set[str]] = {}

    def _call(self, ctx: Context, params: Params) -> Call:
        return Call(ctx, params, self._levels.get(_session(ctx), "debug"))

    async def list_tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        tools = [_renewed(tool, "test_trigger_tool_change", changes["tools"]) for tool, _ in TOOLS.values()]
        return types.ListToolsResult(tools=tools)

    async def call_tool(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        if params.name not in TOOLS:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name}")
        try:
            return await TOOLS[params.name][1](self._call(ctx, params))
        except InputNeeded as needed:
            return needed.result

    async def list_prompts(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
        prompts = [_renewed(prompt, "test_simple_prompt", changes["prompts"]) for prompt, _ in PROMPTS.values()]
        return types.ListPromptsResult(prompts=prompts)

    async def get_prompt(
        self, ctx: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | types.InputRequiredResult:
        if params.name not in PROMPTS:
            raise MCPError(INVALID_PARAMS, f"Unknown prompt: {params.name}")
        try:
            return await PROMPTS[params.name][1](self._call(ctx, params))
        except InputNeeded as needed:
            return needed.result

    async def list_resources(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=RESOURCES)

    async def list_templates(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=TEMPLATES)

    async def read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        contents = read(str(params.uri))
        if contents is None:
            code = RESOURCE_NOT_FOUND_LEGACY if ctx.protocol_version in LEGACY_VERSIONS else INVALID_PARAMS
            raise MCPError(code, "Resource not found", {"uri": str(params.uri)})
        return types.ReadResourceResult(contents=[contents])

    async def subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        self._watched.setdefault(_session(ctx), set()).add(str(params.uri))
        return types.EmptyResult()

    async def unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        self._watched.get(_session(ctx), set()).discard(str(params.uri))
        return types.EmptyResult()

    async def complete(self, ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        words = [word for word in ("paris", "park", "party", "test") if word.startswith(params.argument.value)]
        return types.CompleteResult(completion=types.Completion(values=words, total=len(words), has_more=False))

    async def set_level(self, ctx: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
        self._levels[_session(ctx)] = params.level
        return types.EmptyResult()


def _session(ctx: Context) -> str:
    """The legacy session of a request; over stdio there is only one."""
    return cast("Request", ctx.request).headers.get("mcp-session-id", "") if ctx.request is not None else ""


def _renewed(item: Any, name: str, times: int) -> Any:
    """`item`, whose description tells how often its list changed where it is the one called `name`."""
    if item.name != name or not times:
        return item
    return item.model_copy(update={"description": f"{item.description} Changed {times} times."})


def build() -> Server[Any]:
    handlers = Handlers()
    server = Reference(
        NAME,
        version="1.0.0",
        instructions="A server with every fixture of the conformance suite.",
        cache_hints={
            "server/discover": CACHING,
            "tools/list": CACHING,
            "prompts/list": CACHING,
            "resources/list": CACHING,
            "resources/templates/list": CACHING,
            "resources/read": CACHING,
        },
        get_tool_input_schema=lambda name: TOOLS[name][0].input_schema if name in TOOLS else None,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_prompts=handlers.list_prompts,
        on_get_prompt=handlers.get_prompt,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
        on_subscribe_resource=handlers.subscribe,
        on_unsubscribe_resource=handlers.unsubscribe,
        on_subscriptions_listen=ListenHandler(bus),
        on_completion=handlers.complete,
    )
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, handlers.set_level)
    server.middleware = [RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=NAME)]
    return server


async def serve_stdio() -> None:
    server = build()
    async with stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())


async def serve_http(port: int) -> None:
    app = build().streamable_http_app(event_store=MemoryEventStore(), retry_interval=RETRY_MS)
    listener = socket.create_server(("127.0.0.1", port))
    sys.stdout.write(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp\n")
    sys.stdout.flush()
    await uvicorn.Server(uvicorn.Config(app, http="h11", log_level="error", timeout_graceful_shutdown=1)).serve(
        [listener]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="The reference server of the conformance tests.")
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument("--stdio", action="store_true", help="speak over stdin and stdout")
    way.add_argument("--http", type=int, metavar="PORT", help="listen on this loopback port, 0 for a free one")
    options = parser.parse_args()
    warnings.simplefilter("ignore", MCPDeprecationWarning)  # the suite tests deprecated features too
    asyncio.run(serve_stdio() if options.stdio else serve_http(options.http))


if __name__ == "__main__":
    main()
