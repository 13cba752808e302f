"""Every upstream tool under its own name, `server__tool`: what a client without search sees, and nothing of ours.

Definitions and results pass as the upstream sent them, whatever their size: this vocabulary has no tool to read on.
"""

from wicket.core.verbs import Verbs
from wicket.dialects.base import ToolCall, failure
from wicket.errors import Refused, WicketError
from wicket.model import CallRequest, JsonObject, Tool


class Flat:
    """See the module's docstring."""

    name = "flat"
    fixed = False

    async def list(self, verbs: Verbs) -> list[JsonObject]:
        snapshot = await verbs.catalogue.complete()
        return [_shown(name, tool) for name, tool in snapshot.wire.items()]

    async def call(self, verbs: Verbs, name: str, call: ToolCall) -> JsonObject | None:
        snapshot = await verbs.catalogue.load()
        tool = snapshot.wire.get(name)
        if tool is None:
            tool = (await verbs.catalogue.complete()).wire.get(name)
        if tool is None:
            return None
        try:
            request = CallRequest(tool.key, dict(call.arguments), call.caller, call.meta, whole=True)
            return (await verbs.call(request)).body
        except Refused:
            raise  # the upstream's own JSON-RPC error, passed on as one
        except WicketError as problem:
            return failure(problem)


def _shown(name: str, tool: Tool) -> JsonObject:
    definition = {**tool.definition, "name": name}
    if "type" not in tool.input_schema:
        definition["inputSchema"] = {"type": "object", **tool.input_schema}
    return definition
