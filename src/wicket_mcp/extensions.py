"""The protocol extensions that Wicket knows, by identifier, and how the declarations of both sides are combined.

A client declares extensions with every request (modern) or once for its session (legacy); a server declares them when
we connect. Unknown extensions are passed on unchanged. Knows no transport and no catalogue; `docs/extensions.md` names
the modules that implement each extension.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from wicket_mcp.model import JsonObject, as_object, as_text

UI = "io.modelcontextprotocol/ui"
TASKS = "io.modelcontextprotocol/tasks"
SKILLS = "io.modelcontextprotocol/skills"
GROUPS = "io.modelcontextprotocol/groups"
RESOLUTION = "io.modelcontextprotocol/tool-resolution"
OLD_RESOURCE_KEY = "ui/resourceUri"
APP_SCHEME = "ui://"
SKILL_SCHEME = "skill://"
MISSING_CLIENT_CAPABILITY = -32021
APP_TYPE = "text/html;profile=mcp-app"
APP_MARK = "wicket/app"
"""In the `_meta` of a request from an interface through its host: names the interface's server
(`surface/app_methods.py`).
"""

PROTOCOL_EVENTS = frozenset(
    f"notifications/{event}"
    for event in (
        *("initialized", "cancelled", "progress", "message", "elicitation/complete", "subscriptions/acknowledged"),
        *("tools/list_changed", "prompts/list_changed", "resources/list_changed", "resources/updated"),
        *("roots/list_changed", "skills/list_changed", "groups/list_changed", "tasks", "tasks/status"),
    )
)
"""Notifications that the protocol or an extension known to Wicket defines."""

OURS: Mapping[str, JsonObject] = {
    UI: {"mimeTypes": [APP_TYPE]},
    TASKS: {},
    SKILLS: {"directoryRead": True},
    GROUPS: {"listChanged": True},
    RESOLUTION: {},
}
"""The extensions that Wicket itself offers to clients."""

AS_CLIENT: JsonObject = {"extensions": {UI: {"mimeTypes": [APP_TYPE]}, SKILLS: {}}}
"""What Wicket declares in its own requests: some servers list a tool with an interface only then."""


def declared_extensions(capabilities: Mapping[str, Any]) -> JsonObject:
    """The extensions in a declaration of capabilities, by identifier."""
    return as_object(capabilities.get("extensions"))


def declares(capabilities: Mapping[str, Any], identifier: str) -> bool:
    return identifier in declared_extensions(capabilities)


def unknown(capabilities: Mapping[str, Any]) -> list[str]:
    """The extensions of a server that Wicket does not implement itself."""
    return [identifier for identifier in declared_extensions(capabilities) if identifier not in OURS]


def union(servers: Iterable[Mapping[str, Any]]) -> JsonObject:
    """The extensions that clients see: our own and those of all servers; the first server's settings count."""
    combined: JsonObject = {}
    for capabilities in servers:
        for identifier, settings in declared_extensions(capabilities).items():
            if identifier not in OURS:
                combined[identifier] = {**as_object(settings), **as_object(combined.get(identifier))}
    return {**OURS, **combined}


KNOWN_CAPABILITIES = frozenset({"extensions", "logging", "tools", "resources", "prompts", "completions", "tasks"})


def unknown_capabilities(servers: Iterable[Mapping[str, Any]]) -> JsonObject:
    """Capabilities of servers that Wicket does not know, as `experimental`; the first server's value counts."""
    combined: JsonObject = {}
    for capabilities in servers:
        for name, value in capabilities.items():
            if name not in KNOWN_CAPABILITIES:
                earlier = combined.get(name)
                mergeable = isinstance(value, dict) and isinstance(earlier, dict)
                combined[name] = {**as_object(value), **as_object(earlier)} if mergeable else combined.get(name, value)
    return combined


def app_resource(definition: Mapping[str, Any]) -> str:
    """The address of a tool's interface, as its server names it; empty if it has none."""
    meta = as_object(definition.get("_meta"))
    return as_text(as_object(meta.get("ui")).get("resourceUri")) or as_text(meta.get(OLD_RESOURCE_KEY))


def is_for_apps_only(definition: Mapping[str, Any]) -> bool:
    """Whether a tool is meant for the interface of its server, and not for models."""
    meta = definition.get("_meta")
    if not meta:  # nearly always; checked for every tool
        return False
    visibility: Any = as_object(as_object(meta).get("ui")).get("visibility")
    return isinstance(visibility, list) and "model" not in visibility


def filter_forwarded(capabilities: JsonObject, *, tasks: bool = False) -> JsonObject:
    """The client's capabilities that a server sees with the client's request.

    The legacy form of tasks stays between us and the client. `tasks` says whether modern tasks apply to this request;
    if Wicket waits on the client's behalf, it declares tasks itself.
    """
    passed = {name: value for name, value in capabilities.items() if name not in ("tasks", "extensions")}
    extensions = legacy_extensions(capabilities)
    if tasks:
        extensions[TASKS] = as_object(declared_extensions(capabilities).get(TASKS))
    return {**passed, "extensions": extensions} if extensions or "extensions" in capabilities else passed


def spoken_extensions(capabilities: Mapping[str, Any], tools: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """The extensions that a server uses: those that it declares, and apps if it has tools for them.

    Published app servers read the client's declaration, but declare nothing themselves.
    """
    spoken = declared_extensions(capabilities).keys() - {TASKS}
    if any(app_resource(definition) or is_for_apps_only(definition) for definition in tools if "_meta" in definition):
        spoken |= {UI}
    return frozenset(spoken)


def narrow_extensions(capabilities: Mapping[str, Any], spoken: frozenset[str]) -> JsonObject:
    """The extensions in a declaration that concern a server that uses `spoken`."""
    return {name: value for name, value in declared_extensions(capabilities).items() if name in spoken}


def legacy_extensions(capabilities: Mapping[str, Any]) -> JsonObject:
    """The extensions of a client that a legacy server is told of: tasks have another form there."""
    return {name: value for name, value in declared_extensions(capabilities).items() if name != TASKS}


def requires_tasks(error: Mapping[str, Any]) -> bool:
    """Whether a server rejected a call because it only answers with a task."""
    required = as_object(as_object(error.get("data")).get("requiredCapabilities"))
    return error.get("code") == MISSING_CLIENT_CAPABILITY and TASKS in declared_extensions(required)
