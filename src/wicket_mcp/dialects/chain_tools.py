"""The definitions of the chain vocabulary's tools."""

from wicket_mcp.dialects.base import own_tool, takes
from wicket_mcp.model import JsonObject

_STRING: JsonObject = {"type": "string"}

DEFINITIONS: tuple[JsonObject, ...] = (
    own_tool(
        "search_tools",
        "Search tools",
        "Finds tools for a task in plain words. brief gives names, first sentences and how to call; otherwise schemas "
        "too. tag limits the search to backends of that tag.",
        takes(
            "task_description",
            task_description=_STRING,
            limit={"type": "integer", "minimum": 1, "maximum": 50, "default": 10},
            brief={"type": "boolean", "default": True},
            tag=_STRING,
        ),
        readOnlyHint=True,
    ),
    own_tool(
        "list_tools_meta",
        "List tool names",
        "Lists the names of all tools in pages, those used most often first.",
        takes(cursor=_STRING, page_size={"type": "integer", "minimum": 1, "maximum": 500, "default": 50}),
        readOnlyHint=True,
    ),
    own_tool(
        "tool_info",
        "Describe a tool",
        "Describes one tool: brief names its parameters, full has the complete schema.",
        takes("tool_name", tool_name=_STRING, detail={"enum": ["brief", "full"], "default": "brief"}),
        readOnlyHint=True,
    ),
    own_tool(
        "get_required_keys_for_tool",
        "Required keys of a tool",
        "Names the secrets that a tool's backend needs, and says which are set.",
        takes("tool_name", tool_name=_STRING),
        readOnlyHint=True,
    ),
    own_tool(
        "call_tool_chain",
        "Run a tool chain",
        "Runs JavaScript or TypeScript that calls tools: await backend.tool({…}), Promise.all for several, return for "
        "the answer. intent keeps the parts of a long answer that bear on it.",
        takes(
            "code",
            code=_STRING,
            timeout={"type": "integer", "minimum": 1, "default": 30000, "description": "Milliseconds."},
            max_output_size={"type": "integer", "minimum": 1, "default": 200000, "description": "Characters."},
            intent=_STRING,
        ),
        openWorldHint=True,
    ),
    own_tool(
        "register_manual",
        "Register a backend",
        "Adds a backend while the gateway runs: name, and command with args, env and cwd, or url with headers.",
        takes("manual_call_template", manual_call_template={"type": "object"}),
        openWorldHint=True,
    ),
    own_tool(
        "deregister_manual",
        "Deregister a backend",
        "Removes a backend that was registered while the gateway runs.",
        takes("manual_name", manual_name=_STRING),
        destructiveHint=True,
    ),
)
