"""The vocabulary of three: list every tool, get schemas, call.

Names are the upstreams' own, in upper snake case where the configuration says so, and prefixed by their server only
where two servers share one. They match in any case.
"""

import asyncio
from collections.abc import Iterable

from wicket_mcp.catalog.names import plain_names
from wicket_mcp.dialects.base import DialectTool, Table, ToolCall, answer, failure, own_tool, takes
from wicket_mcp.errors import UnknownName, WicketError
from wicket_mcp.model import CallRequest, JsonObject, Tool, as_list
from wicket_mcp.results.content import value_of
from wicket_mcp.schema.prose import first_sentence
from wicket_mcp.verbs import Verbs

_NAMES_IN_ERROR = 10
_STRING: JsonObject = {"type": "string"}


class Meta(Table):
    """See the module's docstring."""

    def __init__(self, *, upper: bool = False) -> None:
        self._upper = upper
        super().__init__("meta", self._rows_of())

    async def list_tools(self, verbs: Verbs, call: ToolCall) -> JsonObject:
        listed = await asyncio.to_thread(self._listed, await verbs.tools())
        return answer(listed, {"tools": listed})

    async def get(self, verbs: Verbs, call: ToolCall) -> JsonObject:
        asked = call.arguments["tool_name"]
        if isinstance(asked, str):
            try:
                found = await self._described(verbs, asked)
            except UnknownName as problem:
                return failure(problem, self._not_found(verbs, asked))
            return answer(found, {"tools": [found]})
        tools: list[JsonObject] = []
        errors: list[str] = []
        for name in as_list(asked):
            try:
                tools.append(await self._described(verbs, name))
            except WicketError as problem:
                errors.append(str(problem))
        missing: JsonObject = {"errors": errors} if errors else {}
        shown = {"tools": tools, **missing} if errors else tools
        return {**answer(shown, {"tools": tools, **missing}), "isError": not tools}

    async def call_tool(self, verbs: Verbs, call: ToolCall) -> JsonObject:
        name = call.arguments["tool_name"]
        try:
            tool = await self._find(verbs, name)
        except UnknownName as problem:
            return failure(problem, self._not_found(verbs, name))
        request = CallRequest(tool.key, call.arguments.get("arguments"), call.caller, call.meta, resume=call.resume)
        body = (await verbs.call(request)).body
        if body.get("isError"):
            return body
        structured = body.get("structuredContent")
        return {**body, "structuredContent": {"result": value_of(body) if structured is None else structured}}

    def _listed(self, tools: Iterable[Tool]) -> list[JsonObject]:
        """Away from the event loop: thousands of descriptions take a while to cut."""
        named = plain_names(tools, upper=self._upper)
        return [
            {"name": name, "description": first_sentence(tool.description or tool.title)}
            for name, tool in named.items()
        ]

    async def _described(self, verbs: Verbs, name: str) -> JsonObject:
        tool = await self._find(verbs, name)
        every = plain_names(verbs.catalogue.now.tools, upper=self._upper)
        shown = {one.key: plain for plain, one in every.items()}
        parameters: JsonObject = {"type": "object", "properties": {}, **tool.input_schema}
        return {"name": shown.get(tool.key, name), "description": tool.description, "parameters": parameters}

    async def _find(self, verbs: Verbs, name: str) -> Tool:
        if self._upper:
            tools = plain_names(await verbs.tools(), upper=True)
            if name.upper() in tools:
                return tools[name.upper()]
        return await verbs.catalogue.resolve(name)

    def _not_found(self, verbs: Verbs, name: str) -> str:
        names = list(plain_names(verbs.catalogue.now.tools, upper=self._upper))
        more = "..." if len(names) > _NAMES_IN_ERROR else ""
        return f"Tool '{name}' not found. Available tools include: {names[:_NAMES_IN_ERROR]}{more}"

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
