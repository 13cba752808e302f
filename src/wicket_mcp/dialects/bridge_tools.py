"""The definitions of the `bridge` vocabulary's own tools: names, schemas, hints."""

from wicket_mcp.model import JsonObject

_TEXT: JsonObject = {"type": "string", "minLength": 1, "maxLength": 2000}
_NAME: JsonObject = {"type": "string", "minLength": 1, "maxLength": 200}
_WORDS: JsonObject = {"type": "array", "items": {"type": "string", "maxLength": 100}, "maxItems": 50}
_STRINGS: JsonObject = {"type": "object", "additionalProperties": {"type": "string"}}
_LOOKS = {"readOnlyHint": True, "openWorldHint": False}
_REACHES = {"readOnlyHint": False, "openWorldHint": True}
_CHANGES = {"readOnlyHint": False, "openWorldHint": False}


def _count(default: int) -> JsonObject:
    return {"type": "integer", "minimum": 1, "maximum": 50, "default": default}


def _tool(
    name: str,
    title: str,
    description: str,
    hints: dict[str, bool],
    required: tuple[str, ...],
    /,
    **properties: JsonObject,
) -> JsonObject:
    return {
        "name": name,
        "description": description,
        "inputSchema": {
            "type": "object",
            "properties": properties,
            "required": list(required),
            "additionalProperties": False,
        },
        "annotations": {"title": title, **hints},
    }


DEFINITIONS: tuple[JsonObject, ...] = (
    _tool(
        "discover_mcp_servers",
        "Search for MCP servers",
        "Searches the registry for MCP servers by what they do; category and tags narrow the answer.",
        _LOOKS,
        ("query",),
        query=_TEXT,
        limit=_count(10),
        category=_NAME,
        tags=_WORDS,
    ),
    _tool(
        "discover_smart",
        "Recommend MCP servers",
        "Recommends servers for a need in plain words, each with a reason and a confidence. A need of several parts "
        "is answered part by part.",
        _LOOKS,
        ("query",),
        query=_TEXT,
        context=_TEXT,
        limit=_count(5),
    ),
    _tool(
        "register_server",
        "Register an MCP server",
        "Adds a server to the registry, named after its repository. A repository outside the known forges needs a "
        "verified domain.",
        _CHANGES,
        ("name", "description", "repository_url", "category", "tags"),
        name=_NAME,
        description=_TEXT,
        repository_url=_TEXT,
        category=_NAME,
        tags=_WORDS,
        docker_image=_NAME,
        npm_package=_NAME,
    ),
    _tool(
        "verify_domain",
        "Begin to verify a domain",
        "Gives the DNS record or file that proves the ownership of a domain; there are 24 hours to set it.",
        _CHANGES,
        ("domain",),
        domain=_NAME,
    ),
    _tool(
        "check_domain_ownership",
        "Check a domain",
        "Looks for the proof that verify_domain asked for and says whether the domain is verified.",
        _REACHES,
        ("domain",),
        domain=_NAME,
    ),
    _tool(
        "get_server_health",
        "Health of servers",
        "Measured status, score, response time (ms), uptime and error rate (%) of one server, or of all in use here.",
        _LOOKS,
        (),
        server_id=_NAME,
        limit={**_count(10), "maximum": 100},
    ),
    _tool(
        "get_onboarding_state",
        "Onboarding progress",
        "Says which first steps were taken, which come next, and which servers are worth a look.",
        _LOOKS,
        (),
    ),
    _tool(
        "invoke_tool",
        "Call a tool anywhere",
        "Calls a tool of any MCP server by its address (Streamable HTTP, else SSE), or of a server here by its name.",
        _REACHES,
        ("endpoint", "tool_name", "arguments"),
        endpoint=_TEXT,
        tool_name=_NAME,
        arguments={"type": ["object", "string"]},
        headers=_STRINGS,
    ),
    _tool(
        "install_mcp_server",
        "Install an MCP server",
        "Installs a server: command is an npm or PyPI package, a Docker image or a URL, with arguments. bridge runs it "
        "here, direct adds it to Claude Desktop.",
        {**_REACHES, "destructiveHint": False},
        ("name", "type", "command"),
        name=_NAME,
        type={"enum": ["npm", "pypi", "docker", "remote"]},
        command=_TEXT,
        mode={"enum": ["bridge", "direct"], "default": "bridge"},
        auto_start={"type": "boolean", "default": True},
        env=_STRINGS,
    ),
    _tool(
        "list_managed_servers",
        "List installed servers",
        "Lists the servers that were installed here, with status and tools.",
        _LOOKS,
        (),
    ),
    _tool(
        "control_mcp_server",
        "Control an installed server",
        "Starts, stops, restarts or removes a server that was installed here.",
        {**_CHANGES, "destructiveHint": True},
        ("name", "action"),
        name=_NAME,
        action={"enum": ["start", "stop", "restart", "remove"]},
    ),
    _tool(
        "list_claude_servers",
        "List Claude Desktop's servers",
        "Lists the servers in Claude Desktop's configuration, with secrets masked.",
        _LOOKS,
        (),
    ),
    _tool(
        "remove_claude_server",
        "Remove a server from Claude Desktop",
        "Takes a server out of Claude Desktop's configuration.",
        {**_CHANGES, "destructiveHint": True},
        ("name",),
        name=_NAME,
    ),
)
