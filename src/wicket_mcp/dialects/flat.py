"""Every upstream tool under its own name, `server__tool`: what a client without search sees, and nothing of ours.

Definitions and results pass as the upstream sent them, whatever their size: this vocabulary has no tool to read on.
With `unprefixed`, for a gateway with a single server, the names pass too.
"""

from collections.abc import Mapping

from wicket_mcp.catalog.catalogue import Snapshot
from wicket_mcp.dialects.base import ToolCall, failure
from wicket_mcp.errors import Refused, WicketError
from wicket_mcp.model import CallRequest, JsonObject, Principal, Tool
from wicket_mcp.trust.policy import demand
from wicket_mcp.verbs import Verbs


class Flat:
    """See the module's docstring."""

    name = "flat"
    fixed = False

    def __init__(self, *, unprefixed: bool = False) -> None:
        self._unprefixed = unprefixed

    async def list(self, verbs: Verbs, principal: Principal) -> list[JsonObject]:
        if not principal.may("discover"):
            return []
        snapshot = await verbs.catalogue.complete()
        return [_shown(name, tool) for name, tool in self._names(snapshot).items()]

    async def find(self, verbs: Verbs, name: str) -> Tool | None:
        tool = self._names(await verbs.catalogue.load()).get(name)
        return tool or self._names(await verbs.catalogue.complete()).get(name)

    async def call(self, verbs: Verbs, name: str, call: ToolCall) -> JsonObject | None:
        demand(call.caller.principal, "invoke", "calling tools")
        tool = await self.find(verbs, name)
        if tool is None:
            return None
        try:
            request = CallRequest(tool.key, call.arguments, call.caller, call.meta, whole=True, resume=call.resume)
            return (await verbs.call(request)).body
        except Refused:
            raise  # the upstream's own JSON-RPC error, passed on as one
        except WicketError as problem:
            return failure(problem)

    def _names(self, snapshot: Snapshot) -> Mapping[str, Tool]:
        return {tool.name: tool for tool in snapshot.tools} if self._unprefixed else snapshot.wire


def _shown(name: str, tool: Tool) -> JsonObject:
    definition = {**tool.definition, "name": name}
    if "type" not in tool.input_schema:
        definition["inputSchema"] = {"type": "object", **tool.input_schema}
    return definition
