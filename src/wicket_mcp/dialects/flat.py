"""Every upstream tool under its own name, `server__tool`: for clients without search. Adds no tools of ours.

Definitions and results are passed on unchanged, whatever their size: this vocabulary has no tool for reading on. With
`unprefixed`, for a gateway with a single server, names are unchanged too.
"""

from wicket_mcp.catalog.names import bare_names, wire_names
from wicket_mcp.catalog.view import Naming
from wicket_mcp.dialects.base import ToolCall, failure
from wicket_mcp.errors import Refused, WicketError
from wicket_mcp.model import JsonObject, Principal, Tool
from wicket_mcp.trust.policy import demand
from wicket_mcp.verbs import Verbs


class Flat:
    """See the module's docstring."""

    name = "flat"
    fixed = False

    def __init__(self, *, unprefixed: bool = False) -> None:
        self._naming: Naming = bare_names if unprefixed else wire_names

    async def list(self, verbs: Verbs, principal: Principal) -> list[JsonObject]:
        if not principal.may("discover"):
            return []
        view = await verbs.view(principal)
        addresses = verbs.addresses
        return [
            addresses.rewrite_apps(_definition(name, tool), tool.server)
            for name, tool in view.spell(self._naming).items()
        ]

    async def find(self, verbs: Verbs, name: str, principal: Principal) -> Tool | None:
        tool = (await verbs.current_view(principal)).find_spelled(self._naming, name)
        return tool or (await verbs.view(principal)).find_spelled(self._naming, name)

    async def call(self, verbs: Verbs, name: str, call: ToolCall) -> JsonObject | None:
        demand(call.caller.principal, "invoke", "calling tools")
        tool = call.tool_of(self.name) or await self.find(verbs, name, call.caller.principal)
        if tool is None:
            return None
        try:
            return (await verbs.call(call.request(tool, call.arguments, whole=True, may_be_task=True))).body
        except Refused:
            raise  # the upstream's own JSON-RPC error, passed on as one
        except WicketError as problem:
            return failure(problem)


def _definition(name: str, tool: Tool) -> JsonObject:
    definition = {**tool.definition, "name": name}
    if "type" not in tool.input_schema:
        definition["inputSchema"] = {"type": "object", **tool.input_schema}
    return definition
