"""How each vocabulary is used, in a sentence or two: the part of `instructions` that depends on what a client sees."""

from collections.abc import Iterable

_GUIDES = {
    "native": "find_tools takes a task in plain words and returns typed signatures that call_tool can call at once; an "
    "empty query lists the servers. describe_tools gives full schemas, run_script runs many calls in one step, "
    "read_result reads what was too large to show.",
    "flat": "Every tool is listed under its own name, server__tool.",
    "lua": "list-servers and list-server-tools show what there is, tool-details how a tool is called; execute runs a "
    "Lua script: server.tool({…}):await() calls, result(value) answers.",
    "meta": "TOOL_LIST lists them, TOOL_GET gives schemas, TOOL_CALL calls.",
    "chain": "search_tools takes a task in plain words, tool_info describes one tool, and call_tool_chain runs "
    "JavaScript: await backend.tool({…}) calls, return answers.",
    "broker": "broker_search finds them, broker_invoke calls one by server and name.",
    "bridge": "discover_mcp_servers finds servers in the registry, install_mcp_server adds one, invoke_tool calls.",
}


def guide(dialects: Iterable[str]) -> str:
    return " ".join(_GUIDES[name] for name in dialects)
