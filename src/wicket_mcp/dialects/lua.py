"""The gateway vocabulary for Lua: servers, their tools, one tool's details, a sample call, and scripts.

Every name is shown with the identifier that a script uses, and both are accepted. A sample call shows what a script
would see.
"""

from wicket_mcp.codec import pretty
from wicket_mcp.dialects import lua_words as words
from wicket_mcp.dialects.base import DialectTool, Table, ToolCall, failure, own_tool, takes, text
from wicket_mcp.dialects.outcomes import render
from wicket_mcp.errors import UnknownName
from wicket_mcp.model import JsonObject, Tool, as_object
from wicket_mcp.scripting import Script
from wicket_mcp.scripts.api import Api, Server
from wicket_mcp.scripts.values import unwrap
from wicket_mcp.spelling import nearest
from wicket_mcp.verbs import Verbs

NO_RESULT = "Script executed successfully. No result returned."
_STRING: JsonObject = {"type": "string"}


async def list_servers(verbs: Verbs, call: ToolCall) -> JsonObject:
    view = await verbs.view(call.caller.principal)
    api = await verbs.scripting.api(verbs, call.caller.principal)
    parts = [
        words.server(
            ident,
            view.servers[server.name],
            view.listings.get(server.name),
            view.failures.get(server.name, ""),
        )
        for ident, server in api.servers.items()
    ]
    return text("\n\n".join(["Available MCP Servers:", *parts]) if parts else verbs.notice or "No servers available.")


async def list_server_tools(verbs: Verbs, call: ToolCall) -> JsonObject:
    try:
        _, server = await _server(verbs, call)
    except UnknownName as problem:
        return failure(problem, str(problem))
    if not server.tools:
        problem_text = (await verbs.current_view(call.caller.principal)).failures.get(server.name, "")
        words_for_it = f"\nError: {problem_text.splitlines()[0]}" if problem_text else ""
        return {**text(f"No tools available on {server.name}.{words_for_it}"), "isError": bool(problem_text)}
    lines = [words.tool_line(ident, tool) for ident, tool in server.tools.items()]
    return text("\n".join([f"Tools for {server.name}:", "", *lines]))


async def tool_details(verbs: Verbs, call: ToolCall) -> JsonObject:
    server, ident, tool = await _tool(verbs, call)
    return text(words.details(server, ident, tool))


async def inspect_tool_response(verbs: Verbs, call: ToolCall) -> JsonObject:
    if call.caller.principal.may("discover"):
        _, _, tool = await _tool(verbs, call)
    else:  # they may not see the identifiers, but a known name works too
        name = f"{call.arguments['luaServerName']}.{call.arguments['luaToolName']}"
        tool = await verbs.resolve(name, call.caller.principal)
    body = verbs.rewrite(await verbs.call(call.request(tool, call.arguments.get("sampleArgs"))))
    ok, value = unwrap(body)
    if not ok:
        return body
    rendered = value if isinstance(value, str) else pretty(value)
    result = text(f"Response of {tool.key}, as a script sees it:\n\n{rendered}")
    return {**result, "structuredContent": value} if as_object(value) else result


async def execute(verbs: Verbs, call: ToolCall) -> JsonObject:
    outcome = await verbs.run(Script(call.arguments["script"], "lua", envelope=True), call.caller)
    return await render(verbs, outcome, call.caller.principal, nothing=NO_RESULT)


async def _server(verbs: Verbs, call: ToolCall) -> tuple[str, Server]:
    """The named server, by identifier or name, ignoring case. Raises UnknownName with a list of the servers."""
    name: str = call.arguments["luaServerName"]
    api = await verbs.scripting.api(verbs, call.caller.principal, name.replace("-", "_").replace(".", "_"))
    own_ident = _find(name, {ident: server.name for ident, server in api.servers.items()})
    if own_ident is None:
        raise words.NotFound(f"Server '{name}' not found.", "server", name, list(api.servers), _near(name, api))
    await verbs.view(call.caller.principal, [api.servers[own_ident].name])
    whole = await verbs.scripting.api(verbs, call.caller.principal, own_ident)
    return own_ident, whole.servers[own_ident]


async def _tool(verbs: Verbs, call: ToolCall) -> tuple[str, str, Tool]:
    server, offered = await _server(verbs, call)
    name: str = call.arguments["luaToolName"]
    own_ident = _find(name, {ident: tool.name for ident, tool in offered.tools.items()})
    if own_ident is None:
        problem = f"Tool '{name}' not found on server '{server}'."
        raise words.NotFound(problem, "tool", name, list(offered.tools), nearest(name, offered.tools))
    return server, own_ident, offered.tools[own_ident]


def _find(name: str, named: dict[str, str]) -> str | None:
    """The identifier that `name` means."""
    for fold in (str, str.lower):
        for ident, real in named.items():
            if fold(name) in (fold(ident), fold(real)):
                return ident
    return None


def _near(name: str, api: Api) -> list[str]:
    return nearest(name, api.servers)


LUA = Table(
    "lua",
    (
        DialectTool(
            own_tool(
                "list-servers",
                "List servers",
                "Lists the available MCP servers with the identifiers that Lua scripts use for them.",
                takes(),
                readOnlyHint=True,
            ),
            list_servers,
            ("discover",),
        ),
        DialectTool(
            own_tool(
                "list-server-tools",
                "List a server's tools",
                "Lists the tools of one server, briefly.",
                takes("luaServerName", luaServerName=_STRING),
                readOnlyHint=True,
            ),
            list_server_tools,
            ("discover",),
        ),
        DialectTool(
            own_tool(
                "tool-details",
                "Describe a tool",
                "Gives the full description of a tool, its parameters, and an example in Lua.",
                takes("luaServerName", "luaToolName", luaServerName=_STRING, luaToolName=_STRING),
                readOnlyHint=True,
            ),
            tool_details,
            ("discover",),
        ),
        DialectTool(
            own_tool(
                "inspect-tool-response",
                "Try a tool",
                "Calls a tool with sample arguments and shows the response as a script sees it. It is a real call.",
                takes(
                    "luaServerName",
                    "luaToolName",
                    luaServerName=_STRING,
                    luaToolName=_STRING,
                    sampleArgs={"type": ["object", "string"]},
                ),
                openWorldHint=True,
            ),
            inspect_tool_response,
            ("invoke",),
        ),
        DialectTool(
            own_tool(
                "execute",
                "Execute a Lua script",
                "Runs a Lua 5.4 script. Each server is a table of functions: server.tool({…}) starts a call, :await() "
                "waits for its answer, await_all({…}) for several; result(value) sets what the script answers with.",
                takes("script", script=_STRING),
                openWorldHint=True,
            ),
            execute,
        ),
    ),
)
