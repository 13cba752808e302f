"""A vocabulary of three tools: list every tool, get schemas, call.

Names are the upstreams' own, in upper snake case if the configuration says so, and prefixed with their server only if
two servers share a name. Case is ignored.
"""

import asyncio

from wicket_mcp.catalog.names import plain_names, upper_names
from wicket_mcp.catalog.view import Naming, View
from wicket_mcp.dialects.base import DialectTool, Table, ToolCall, answer, failure, own_tool, takes
from wicket_mcp.errors import UnknownName, WicketError
from wicket_mcp.model import JsonObject, Principal, Tool, as_list
from wicket_mcp.results.content import value_of
from wicket_mcp.schema.descriptions import first_sentence
from wicket_mcp.verbs import Verbs

_NAMES_IN_ERROR = 10
_STRING: JsonObject = {"type": "string"}


class Meta(Table):
    """See the module's docstring."""

    def __init__(self, *, upper: bool = False) -> None:
        self._naming: Naming = upper_names if upper else plain_names
        super().__init__("meta", self._rows_of())

    async def list_tools(self, verbs: Verbs, call: ToolCall) -> JsonObject:
        listed = await asyncio.to_thread(self._describe_briefly, await verbs.view(call.caller.principal))
        return answer(listed, {"tools": listed})

    async def get(self, verbs: Verbs, call: ToolCall) -> JsonObject:
        requested = call.arguments["tool_name"]
        if isinstance(requested, str):
            try:
                entry = await self._describe(verbs, requested, call.caller.principal)
            except UnknownName as problem:
                return await self._not_found(verbs, problem, call.caller.principal)
            return answer(entry, {"tools": [entry]})
        tools: list[JsonObject] = []
        errors: list[str] = []
        for name in as_list(requested):
            try:
                tools.append(await self._describe(verbs, name, call.caller.principal))
            except WicketError as problem:
                errors.append(str(problem))
        missing: JsonObject = {"errors": errors} if errors else {}
        body = {"tools": tools, **missing} if errors else tools
        return {**answer(body, {"tools": tools, **missing}), "isError": not tools}

    async def call_tool(self, verbs: Verbs, call: ToolCall) -> JsonObject:
        name = call.arguments["tool_name"]
        try:
            tool = await self._find(verbs, name, call.caller.principal)
        except UnknownName as problem:
            verbs.record_refusal(call.caller, "tools/call", name, problem)
            return await self._not_found(verbs, problem, call.caller.principal)
        body = (await verbs.call(call.request(tool, call.arguments.get("arguments")))).body
        if body.get("isError"):
            return body
        structured = body.get("structuredContent")
        return {**body, "structuredContent": {"result": value_of(body) if structured is None else structured}}

    def _describe_briefly(self, view: View) -> list[JsonObject]:
        """Run off the event loop: shortening thousands of descriptions takes a while."""
        return [
            {"name": name, "description": first_sentence(tool.description or tool.title)}
            for name, tool in view.spell(self._naming).items()
        ]

    async def _describe(self, verbs: Verbs, name: str, principal: Principal) -> JsonObject:
        tool = await self._find(verbs, name, principal)
        named = (await verbs.current_view(principal)).spell(self._naming)
        plain_name = next((plain for plain, candidate in named.items() if candidate.key == tool.key), name)
        parameters: JsonObject = {"type": "object", "properties": {}, **tool.input_schema}
        return {"name": plain_name, "description": tool.description, "parameters": parameters}

    async def _find(self, verbs: Verbs, name: str, principal: Principal) -> Tool:
        if self._naming is upper_names:
            tool = (await verbs.view(principal)).find_spelled(self._naming, name.upper())
            if tool is not None:
                return tool
        return await verbs.resolve(name, principal)

    async def _not_found(self, verbs: Verbs, problem: UnknownName, principal: Principal) -> JsonObject:
        view = await verbs.current_view(principal)
        names = list(view.spell(self._naming))
        more = "..." if len(names) > _NAMES_IN_ERROR else ""
        advice = view.hint() or f"Available tools include: {names[:_NAMES_IN_ERROR]}{more}"
        return failure(problem, f"Tool '{problem.name}' not found. {advice}")

    def _rows_of(self) -> tuple[DialectTool, ...]:
        one_or_many: JsonObject = {"anyOf": [_STRING, {"type": "array", "items": _STRING, "minItems": 1}]}
        arguments: JsonObject = {"type": ["object", "string"]}
        return (
            DialectTool(
                own_tool(
                    "TOOL_LIST",
                    "List tools",
                    "Lists all available tools with their names and descriptions.",
                    takes(),
                    readOnlyHint=True,
                ),
                self.list_tools,
                ("discover",),
            ),
            DialectTool(
                own_tool(
                    "TOOL_GET",
                    "Get tool schemas",
                    "Gives the full schema of one tool, or of each tool in a list of names.",
                    takes("tool_name", tool_name=one_or_many),
                    readOnlyHint=True,
                ),
                self.get,
                ("discover",),
            ),
            DialectTool(
                own_tool(
                    "TOOL_CALL",
                    "Call a tool",
                    "Calls a tool by name with the arguments that its schema describes.",
                    takes("tool_name", "arguments", tool_name=_STRING, arguments=arguments),
                    openWorldHint=True,
                ),
                self.call_tool,
                ("invoke",),
            ),
        )
