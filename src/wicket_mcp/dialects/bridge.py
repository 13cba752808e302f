"""The registry bridge: discover, register, verify, watch, install and invoke MCP servers.

In addition to its own tools it lists those of installed servers, as `<server>_<tool>`: they appear when such a server
starts and disappear when it stops, for every client. Holds no state; the registry decides.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from wicket_mcp.catalog.names import wire_names
from wicket_mcp.catalog.view import View
from wicket_mcp.dialects import bridge_handlers as handlers
from wicket_mcp.dialects import bridge_manage as manage
from wicket_mcp.dialects import bridge_words as words
from wicket_mcp.dialects.base import DialectTool, Table, ToolCall
from wicket_mcp.dialects.bridge_tools import DEFINITIONS
from wicket_mcp.errors import WicketError
from wicket_mcp.model import JsonObject, Principal, Tool
from wicket_mcp.registry.facade import RegistryFacade
from wicket_mcp.trust.policy import demand
from wicket_mcp.verbs import Verbs

_WIRE = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_OWN = frozenset(definition["name"] for definition in DEFINITIONS)

Handler = Callable[[RegistryFacade, Verbs, ToolCall], Awaitable[JsonObject]]


class Bridge:
    """See the module's docstring."""

    name = "bridge"
    fixed = False

    def __init__(self, facade: RegistryFacade) -> None:
        self._facade = facade
        self._table = Table("bridge", tuple(_row(definition, facade) for definition in DEFINITIONS), words.failure)

    async def list(self, verbs: Verbs, principal: Principal) -> list[JsonObject]:
        own = await self._table.list(verbs, principal)
        if not principal.may("discover"):
            return own
        view = await verbs.view(principal, self._facade.managed.running)
        return [*own, *({**tool.definition, "name": name} for name, tool in self._installed_tools(view).items())]

    async def call(self, verbs: Verbs, name: str, call: ToolCall) -> JsonObject | None:
        if (result := await self._table.call(verbs, name, call)) is not None:
            return result
        demand(call.caller.principal, "invoke", "calling tools")
        tool = call.tool_of(self.name) or await self.find(verbs, name, call.caller.principal)
        if tool is None:
            return None
        try:
            result = (await verbs.call(call.request(tool, call.arguments, whole=True))).body
        except WicketError as problem:
            return words.failure(problem, f"Error calling {tool.name} on {tool.server}")
        await self._facade.onboarding.took(call.caller.principal, "try_bridge_mode")
        return result

    async def find(self, verbs: Verbs, name: str, principal: Principal) -> Tool | None:
        """The tool of an installed server that has, or would have, this name in the list."""
        running = sorted(self._facade.managed.running)
        if name in _OWN or not running:
            return None
        view = await verbs.view(principal, running)
        for server in running:
            tool = view.find(server, name.removeprefix(f"{server}_")) if name.startswith(f"{server}_") else None
            if tool is not None and _WIRE.fullmatch(name):
                return tool
        tool = view.find_spelled(wire_names, name)
        return tool if tool is not None and tool.server in running else None

    def _installed_tools(self, view: View) -> Mapping[str, Tool]:
        """The tools of installed servers under their listed names."""
        flat = {tool.key: name for name, tool in view.wire.items()}
        named: dict[str, Tool] = {}
        for server in sorted(self._facade.managed.running):
            for tool in view.by_server.get(server, ()):
                plain = f"{server}_{tool.name}"
                free = _WIRE.fullmatch(plain) and plain not in _OWN and plain not in named
                named[plain if free else flat[tool.key]] = tool
        return named


def _row(definition: JsonObject, facade: RegistryFacade) -> DialectTool:
    handler, scope = _HANDLERS[definition["name"]]
    return DialectTool(definition, partial(handler, facade), (scope,))


_HANDLERS: Mapping[str, tuple[Handler, str]] = {
    "discover_mcp_servers": (handlers.discover, "discover"),
    "discover_smart": (handlers.discover_smart, "discover"),
    "register_server": (handlers.register, "register"),
    "verify_domain": (handlers.verify_domain, "register"),
    "check_domain_ownership": (handlers.check_domain, "register"),
    "get_server_health": (handlers.health, "discover"),
    "get_onboarding_state": (handlers.onboarding, "discover"),
    "invoke_tool": (handlers.invoke, "invoke"),
    "install_mcp_server": (manage.install, "admin"),
    "list_managed_servers": (manage.list_managed, "admin"),
    "control_mcp_server": (manage.control, "admin"),
    "list_claude_servers": (manage.list_claude, "admin"),
    "remove_claude_server": (manage.remove_claude, "admin"),
}
"""Each tool's handler and required scope."""
