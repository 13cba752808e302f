"""A real server of one era only, on the SDK, with what the matrix needs.

    python -m tests.eras.upstream legacy|modern                 over stdin and stdout
    python -m tests.eras.upstream legacy|modern --http          over loopback HTTP; prints its address

Its lists come in pages of three, so that whoever reads only the first page misses most of them.
"""

import argparse
import asyncio
import socket
import sys
import warnings
from collections.abc import Sequence
from typing import Any, Literal, TypeVar, cast

import mcp_types as types
import uvicorn
from mcp.server.caching import CacheHint
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.runner import serve_loop
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.conformance.call import Call, InputNeeded, elicitation
from tests.conformance.reference_server import Context, Reference
from tests.eras.upstream_tools import ADDED, NAME, TOOLS, WATCHED, bus, given_back
from wicket_mcp.errors import RESOURCE_NOT_FOUND_LEGACY
from wicket_mcp.model import LEGACY_VERSIONS, MODERN_VERSION

Era = Literal["legacy", "modern"]
T = TypeVar("T")
PAGE = 3
READ = CacheHint(ttl_ms=45_000, scope="public")
LISTED = CacheHint(ttl_ms=50_000, scope="public")
LISTS = ("tools/list", "resources/list", "resources/templates/list", "prompts/list")
TEXTS = {f"era://{name}": f"the text of {name}" for name in ("static", "inside", "third", "fourth")}
"""The resources that are there from the start."""
WORDS = ("lisbon", "lima", "london", "oslo")


def page(entries: Sequence[T], params: types.PaginatedRequestParams | None) -> tuple[list[T], str | None]:
    start = int(params.cursor) if params is not None and params.cursor else 0
    rest = start + PAGE
    return list(entries[start:rest]), str(rest) if rest < len(entries) else None


class Handlers:
    """The protocol's methods; remembers the log level of each legacy session."""

    def __init__(self) -> None:
        self._levels: dict[str, types.LoggingLevel] = {}

    async def list_tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        schema = {"type": "object"}
        added = [types.Tool(name=name, input_schema=schema) for name in ADDED["tools"]]
        tools, more = page([*(tool for tool, _ in TOOLS.values()), *added], params)
        return types.ListToolsResult(tools=tools, next_cursor=more)

    async def call_tool(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        if params.name not in TOOLS:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
        try:
            return await TOOLS[params.name][1](Call(ctx, params, self._level(ctx)))
        except InputNeeded as needed:
            return needed.result

    async def list_resources(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        addresses = [*TEXTS, *(f"era://{name}" for name in ADDED["resources"])]
        resources, more = page([types.Resource(name=uri.removeprefix("era://"), uri=uri) for uri in addresses], params)
        return types.ListResourcesResult(resources=resources, next_cursor=more)

    async def list_templates(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        every = [
            types.ResourceTemplate(name=name, uri_template=f"era://{name}/{{city}}") for name in ("a", "b", "c", "d")
        ]
        templates, more = page(every, params)
        return types.ListResourceTemplatesResult(resource_templates=templates, next_cursor=more)

    async def read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        uri = str(params.uri)
        text = TEXTS.get(uri) or (f"all about {uri.rpartition('/')[2]}" if uri.startswith("era://a/") else None)
        if text is None:
            code = RESOURCE_NOT_FOUND_LEGACY if ctx.protocol_version in LEGACY_VERSIONS else types.INVALID_PARAMS
            raise MCPError(code, "Resource not found", {"uri": uri})
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, text=text)])

    async def subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        WATCHED.add(str(params.uri))
        return types.EmptyResult()

    async def unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        WATCHED.discard(str(params.uri))
        given_back.set()
        return types.EmptyResult()

    async def list_prompts(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
        wanted = [types.PromptArgument(name="city", required=True)]
        first = types.Prompt(name="visit", description="Plans a visit.", arguments=wanted)
        names = ("greet", "second", "third", *ADDED["prompts"])
        prompts, more = page([first, *(types.Prompt(name=name) for name in names)], params)
        return types.ListPromptsResult(prompts=prompts, next_cursor=more)

    async def get_prompt(
        self, ctx: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | types.InputRequiredResult:
        if params.name == "visit":
            text = f"Plan a visit to {(params.arguments or {})['city']}."
        else:
            try:
                request = elicitation("Whom to greet?", NAME, "name")
                answer = await Call(ctx, params).ask("name", request, types.ElicitResult)
            except InputNeeded as needed:
                return needed.result
            text = f"Greet {(answer.content or {}).get('name')}."
        content = types.TextContent(type="text", text=text)
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content)])

    async def complete(self, ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        words = [word for word in WORDS if word.startswith(params.argument.value)]
        return types.CompleteResult(completion=types.Completion(values=words, total=len(words), has_more=False))

    async def set_level(self, ctx: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
        self._levels[_session(ctx)] = params.level
        return types.EmptyResult()

    def _level(self, ctx: Context) -> types.LoggingLevel:
        """The least that a client hears of: a legacy one must say so first, a modern one says it in each request."""
        return self._levels.get(_session(ctx), "warning") if ctx.protocol_version in LEGACY_VERSIONS else "debug"


def _session(ctx: Context) -> str:
    """The legacy session of a request; over stdio there is only one."""
    return cast("Request", ctx.request).headers.get("mcp-session-id", "") if ctx.request is not None else ""


def build() -> Server[Any]:
    handlers = Handlers()
    server = Reference(
        "upstream",
        version="1.0.0",
        cache_hints={"resources/read": READ, **dict.fromkeys(LISTS, LISTED)},
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
    server.middleware = [RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience="upstream")]
    return server


class OneEra:
    """Turns away HTTP requests of the other era, as a server that never heard of it does."""

    def __init__(self, app: ASGIApp, era: Era) -> None:
        self._app = app
        self._modern = era == "modern"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope.get("headers", ()))
        modern = headers.get(b"mcp-protocol-version") == MODERN_VERSION.encode()
        if scope["type"] == "http" and modern != self._modern:
            error = {"code": types.INVALID_REQUEST, "message": "Bad Request: Unsupported protocol version"}
            answer = JSONResponse({"jsonrpc": "2.0", "id": "server-error", "error": error}, 400)
            await answer(scope, receive, send)
            return
        await self._app(scope, receive, send)


async def serve_stdio(era: Era) -> None:
    server = build()
    async with stdio_server() as (reader, writer):
        options = server.create_initialization_options()
        if era == "legacy":
            await serve_loop(server, reader, writer, lifespan_state={}, init_options=options)
        else:  # the first request decides, and then the other era is refused
            await server.run(reader, writer, options)


async def serve_http(era: Era) -> None:
    app = OneEra(build().streamable_http_app(), era)
    listener = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp\n")
    sys.stdout.flush()
    config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1)
    await uvicorn.Server(config).serve([listener])


def main() -> None:
    parser = argparse.ArgumentParser(description="The upstream of the matrix of eras.")
    parser.add_argument("era", choices=["legacy", "modern"])
    parser.add_argument("--http", action="store_true", help="serve over loopback HTTP")
    options = parser.parse_args()
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    asyncio.run(serve_http(options.era) if options.http else serve_stdio(options.era))


if __name__ == "__main__":
    main()
