"""The registry bridge: discover, register, verify, watch, install and invoke MCP servers.

Beside its own tools it lists those of servers that were installed here, as `<server>_<tool>`: they appear when such
a server starts and are gone when it stops, for every client alike. Holds no state; the registry's desk decides.
"""

import re
from collections.abc import Awaitable, Callable, Mapping

from wicket_mcp.dialects import bridge_handlers as handlers
from wicket_mcp.dialects import bridge_manage as manage
from wicket_mcp.dialects import bridge_words as words
from wicket_mcp.dialects.base import ToolCall
from wicket_mcp.dialects.bridge_tools import DEFINITIONS
from wicket_mcp.errors import WicketError
from wicket_mcp.model import CallRequest, JsonObject, Principal, Tool
from wicket_mcp.registry.facade import Desk
from wicket_mcp.schema.arguments import check_arguments, parse_arguments
from wicket_mcp.trust.policy import demand
from wicket_mcp.verbs import Verbs

_WIRE = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_OWN = {definition["name"]: definition for definition in DEFINITIONS}

Handler = Callable[[Desk, Verbs, ToolCall], Awaitable[JsonObject]]


class Bridge:
    """See the module's docstring."""

    name = "bridge"
    fixed = False

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def list(self, verbs: Verbs, principal: Principal) -> list[JsonObject]:
        if not principal.may("discover"):
            return list(DEFINITIONS)
        await verbs.catalogue.complete(self._desk.managed.running)
        installed = [{**tool.definition, "name": name} for name, tool in self._installed(verbs).items()]
        return [*DEFINITIONS, *installed]

    async def call(self, verbs: Verbs, name: str, call: ToolCall) -> JsonObject | None:
        if name not in _OWN:
            return await self._call_installed(verbs, name, call)
        try:
            arguments = parse_arguments(call.arguments)
            check_arguments(Tool("", name, _OWN[name]), arguments)
            return await _HANDLERS[name](self._desk, verbs, ToolCall(arguments, call.caller, call.meta))
        except WicketError as problem:
            return words.failed(problem)

    # Tools of installed servers

    def _installed(self, verbs: Verbs) -> Mapping[str, Tool]:
        """The tools of installed servers under the names they are listed by."""
        snapshot = verbs.catalogue.now
        flat = {tool.key: name for name, tool in snapshot.wire.items()}
        named: dict[str, Tool] = {}
        for server in sorted(self._desk.managed.running):
            for tool in snapshot.by_server.get(server, ()):
                plain = f"{server}_{tool.name}"
                free = _WIRE.fullmatch(plain) and plain not in _OWN and plain not in named
                named[plain if free else flat[tool.key]] = tool
        return named

    async def _call_installed(self, verbs: Verbs, name: str, call: ToolCall) -> JsonObject | None:
        demand(call.caller.principal, "invoke", "calling tools")
        await verbs.catalogue.complete(self._desk.managed.running)
        tool = self._installed(verbs).get(name)
        if tool is None:
            return None
        try:
            request = CallRequest(tool.key, call.arguments, call.caller, call.meta, whole=True)
            result = (await verbs.call(request)).body
        except WicketError as problem:
            return words.failed(problem, f"Error calling {tool.name} on {tool.server}")
        await self._desk.onboarding.took(call.caller.principal, "try_bridge_mode")
        return result


_HANDLERS: dict[str, Handler] = {
    "discover_mcp_servers": handlers.discover,
    "discover_smart": handlers.discover_smart,
    "register_server": handlers.register,
    "verify_domain": handlers.verify_domain,
    "check_domain_ownership": handlers.check_domain,
    "get_server_health": handlers.health,
    "get_onboarding_state": handlers.onboarding,
    "invoke_tool": handlers.invoke,
    "install_mcp_server": manage.install,
    "list_managed_servers": manage.list_managed,
    "control_mcp_server": manage.control,
    "list_claude_servers": manage.list_claude,
    "remove_claude_server": manage.remove_claude,
}
