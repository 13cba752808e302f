"""What a dialect is: a table of tools, each with its schema and a handler over the verbs.

A handler gets checked arguments and returns a tool result. It keeps nothing between calls.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, cast, runtime_checkable

import msgspec

from wicket_mcp.budget import MAX_NAME, check_own_arguments
from wicket_mcp.codec import encode, pretty
from wicket_mcp.errors import BadArguments, ConfigError, Denied, Refused, UnknownName, WicketError, detail_of
from wicket_mcp.extensions import UI, declares
from wicket_mcp.model import LOCAL, Caller, Json, JsonObject, Principal, Tool, as_list
from wicket_mcp.request import EMPTY, Request, Span
from wicket_mcp.schema.arguments import fit_arguments, parse_arguments
from wicket_mcp.schema.checker import find_checker, fits
from wicket_mcp.spelling import nearest
from wicket_mcp.trust.policy import demand
from wicket_mcp.verbs import Verbs


class Named(msgspec.Struct, frozen=True):
    """An upstream tool that a name on a menu stands for directly, and the dialect."""

    dialect: str
    tool: Tool


class ToolCall(msgspec.Struct, frozen=True):
    """A call of one of our own tools: its caller, arguments and `_meta`."""

    arguments: Mapping[str, Any]
    caller: Caller
    meta: Mapping[str, Any] = EMPTY
    resume: Mapping[str, Any] = EMPTY
    """The replies with which a modern client repeats its call (see `Request.resume`)."""
    named: Named | None = None
    """The result of `Menu.find` for the name, if it is already known."""
    unknown: Mapping[str, Any] = EMPTY
    """Parameters of the request that Wicket does not know, for the target server."""

    def tool_of(self, dialect: str) -> Tool | None:
        """The tool that the name stands for in this dialect, if known."""
        return self.named.tool if self.named and self.named.dialect == dialect else None

    def request(
        self, tool: Tool | str, arguments: Json = None, *, whole: bool = False, may_be_task: bool = False
    ) -> Request:
        """The request that forwards this call to an upstream tool."""
        return Request(
            method="tools/call",
            caller=self.caller,
            params={**self.unknown, "arguments": arguments} if self.unknown else {"arguments": arguments},
            name=tool if isinstance(tool, str) else tool.key,
            tool=None if isinstance(tool, str) else tool,
            meta=self.meta,
            resume=self.resume,
            whole=whole,
            may_be_task=may_be_task,
            span=Span(arguments=arguments),
        )


_FOR_OTHERS = ("arguments", "args", "sampleArgs")
_EMPTY: JsonObject = {}

Handler = Callable[[Verbs, ToolCall], Awaitable[JsonObject]]


class DialectTool(msgspec.Struct, frozen=True):
    """One row of a dialect's table. `needs` are the scopes that a call requires.

    By default it needs both: a script, for example, sees every tool and may call it.
    """

    definition: JsonObject
    handler: Handler
    needs: tuple[str, ...] = ("discover", "invoke")

    @property
    def name(self) -> str:
        return self.definition["name"]


class Dialect(Protocol):
    """A vocabulary. `fixed` means that its list of tools never changes."""

    name: str
    fixed: bool

    async def list(self, verbs: Verbs, principal: Principal) -> list[JsonObject]:
        """The tools as a client sees them; without the scope `discover`, only the dialect's own."""
        ...

    async def call(self, verbs: Verbs, name: str, call: ToolCall) -> JsonObject | None:
        """The result, or None if the dialect has no such tool.

        Raises Denied, before any lookup, if the name could only be a server's tool and the caller may call none.
        """
        ...


@runtime_checkable
class NamesTools(Protocol):
    """A vocabulary in which some names stand directly for upstream tools."""

    name: str

    async def find(self, verbs: Verbs, name: str, principal: Principal) -> Tool | None: ...


@runtime_checkable
class CallsDirectly(Protocol):
    """A vocabulary that shows names of upstream tools, and accepts a call of one as if it were on the menu."""

    async def call_directly(self, verbs: Verbs, name: str, call: ToolCall) -> JsonObject | None: ...


class Table:
    """A dialect whose tools are fixed rows; `fail` formats its errors."""

    fixed = True

    def __init__(
        self, name: str, rows: tuple[DialectTool, ...], fail: Callable[[WicketError], JsonObject] | None = None
    ) -> None:
        self.name = name
        self.rows = {row.name: row for row in rows}
        self._shown = [_shorten(row.definition) for row in rows]
        self._fail = fail or failure

    async def list(self, verbs: Verbs, principal: Principal) -> list[JsonObject]:
        return self._shown

    async def call(self, verbs: Verbs, name: str, call: ToolCall) -> JsonObject | None:
        row = self.rows.get(name)
        if row is None:
            return None
        try:
            principal = call.caller.principal
            for scope in row.needs:
                if scope not in principal.scopes:
                    demand(principal, scope, name)
            arguments: Any = call.arguments
            if type(arguments) is not dict:
                arguments = parse_arguments(arguments)
            fitting = _fit(name, row.definition, cast("JsonObject", arguments))
            if fitting is not call.arguments:
                call = msgspec.structs.replace(call, arguments=fitting)
            return await row.handler(verbs, call)
        except WicketError as problem:
            verbs.record_refusal(call.caller, "tools/call", name, problem)
            return self._fail(problem)


PASSED_ON = frozenset({"arguments", "args"})
"""Arguments of our tools that contain another tool's arguments."""
_CALLING = ("invoke",)


_MANAGING = frozenset({"bridge", "chain"})


def _fit(name: str, definition: JsonObject, arguments: JsonObject) -> JsonObject:
    """The validated arguments of one of our own tools. Raises BadArguments.

    Arguments for another tool are checked against that tool's schema later, and may be too large to check twice.
    """
    for key, value in arguments.items():
        is_long = isinstance(value, (dict, list)) or (isinstance(value, str) and len(value) > MAX_NAME)
        if is_long and key not in PASSED_ON:
            check_own_arguments(arguments)
            break
    checker = find_checker(definition)
    if checker.is_plain(arguments):
        return arguments
    opaque: JsonObject = {key: arguments[key] for key in _FOR_OTHERS if isinstance(arguments.get(key), dict)}
    checked = {**arguments, **dict.fromkeys(opaque, _EMPTY)} if opaque else arguments
    if checker.is_too_expensive(checked):
        raise BadArguments(f"The arguments of {name} are too large or nested too deeply to be checked.")
    if fits(definition, checked):
        return arguments
    return {**fit_arguments(Tool("", name, definition), checked), **opaque}


class Menu:
    """The dialects that one address serves, as one list of tools."""

    def __init__(self, dialects: tuple[Dialect, ...], *, vendor_keys: bool = False) -> None:
        self.dialects = dialects
        self.vendor_keys = vendor_keys
        """Whether our own tools get extra marks for clients that read more than the protocol."""
        self.name = "+".join(dialect.name for dialect in dialects)
        self._harmless = tuple(dialect for dialect in dialects if dialect.name not in _MANAGING)
        self._naming = [dialect for dialect in dialects if isinstance(dialect, NamesTools)]
        tables = [dialect for dialect in reversed(dialects) if isinstance(dialect, Table)]
        self._needs = {name: row.needs for table in tables for name, row in table.rows.items()}
        self._size: tuple[tuple[int, str], int] = (0, ""), 0
        self.names_tools = bool(self._naming)
        """Whether some of its names stand directly for upstream tools."""

    def _open_to(self, verbs: Verbs, principal: Principal) -> tuple[Dialect, ...]:
        """The dialects that a principal may use: with a profile, none that manages servers."""
        if self._harmless == self.dialects or not verbs.is_restricted(principal):
            return self.dialects
        return self._harmless

    @property
    def fixed(self) -> bool:
        return all(dialect.fixed for dialect in self.dialects)

    async def list(self, verbs: Verbs, principal: Principal = LOCAL) -> list[JsonObject]:
        by_name: dict[str, JsonObject] = {}
        owner: dict[str, str] = {}
        for dialect in self._open_to(verbs, principal):
            for tool in await dialect.list(verbs, principal):
                if tool["name"] in by_name:
                    raise ConfigError(
                        f"the dialects '{owner[tool['name']]}' and '{dialect.name}' both have a tool '{tool['name']}'",
                        key="dialects",
                        hint="Serve them at their own addresses, /mcp/<dialect>, instead.",
                    )
                by_name[tool["name"]], owner[tool["name"]] = tool, dialect.name
        return list(by_name.values())

    async def list_own(self, verbs: Verbs, principal: Principal) -> Sequence[JsonObject]:
        """The tools of the dialects whose list never changes."""
        fixed = [dialect for dialect in self._open_to(verbs, principal) if dialect.fixed]
        return [tool for dialect in fixed for tool in await dialect.list(verbs, principal)]

    def size_of(self, tools: Sequence[JsonObject]) -> int:
        """Characters of our list; a list as long as the last one is the same."""
        key = len(tools), tools[-1]["name"] if tools else ""
        if self._size[0] != key:
            self._size = key, len(encode(tools))
        return self._size[1]

    async def call(self, verbs: Verbs, name: str, call: ToolCall) -> JsonObject:
        if not verbs.notice:
            return await self._call(verbs, name, call)
        try:
            result = await self._call(verbs, name, call)
        except UnknownName as problem:
            problem.hint = f"{problem.hint} {verbs.notice}".strip()
            raise
        if verbs.notice in str(result):
            return result
        return {**result, "content": [*as_list(result.get("content")), *text(f"[{verbs.notice}]")["content"]]}

    async def _call(self, verbs: Verbs, name: str, call: ToolCall) -> JsonObject:
        unknown: UnknownName | None = None
        denied: Denied | None = None
        for dialect in self._open_to(verbs, call.caller.principal):
            try:
                if (result := await dialect.call(verbs, name, call)) is not None:
                    return result
            except UnknownName as problem:  # a vocabulary with its own wording for this
                unknown = problem
            except Denied as problem:  # another dialect may have its own tool of this name
                denied = problem
        if declares(call.caller.capabilities, UI):
            from wicket_mcp.dialects import apps  # noqa: PLC0415  (few clients show interfaces)

            if (result := await apps.call(verbs, name, call)) is not None:
                return result
        if denied is not None:
            verbs.record_refusal(call.caller, "tools/call", name, denied)
            return failure(denied)
        if unknown is None:
            for dialect in self.dialects:
                if isinstance(dialect, CallsDirectly):
                    result = await dialect.call_directly(verbs, name, call)
                    if result is not None:
                        return result
            names = [tool["name"] for tool in await self.list(verbs, call.caller.principal)]
            unknown = UnknownName("tool", name, nearest(name, names))
        unknown.rule = await verbs.find_rule_against(name, call.caller.principal)
        verbs.record_refusal(call.caller, "tools/call", name, unknown)
        raise unknown

    def keep_for_models(self, tool: JsonObject) -> JsonObject:
        """One of our own tools for hosts that show interfaces: interfaces may not call it."""
        if not self.is_own(tool["name"]):
            return tool
        return {**tool, "_meta": {**tool.get("_meta", {}), "ui": {"visibility": ["model"]}}}

    def is_own(self, name: str) -> bool:
        """Whether this is one of our own tools, and not a server's."""
        return name in self._needs

    def needs(self, name: str) -> tuple[str, ...]:
        """The scopes that a call of this name needs: those of its row, or `invoke` for a server's own tool."""
        return self._needs.get(name, _CALLING)

    async def find(self, verbs: Verbs, name: str, principal: Principal) -> Named | None:
        """The upstream tool that a name on this menu stands for directly."""
        allowed = self._open_to(verbs, principal)
        for dialect in self._naming:
            if dialect not in allowed:
                continue
            if (tool := await dialect.find(verbs, name, principal)) is not None:
                return Named(dialect.name, tool)
        return None


def _shorten(definition: JsonObject) -> JsonObject:
    """One of our tools as it is listed, without `additionalProperties`, which would cost tokens in every prompt: a
    caller that sends an unknown parameter gets an error anyway.
    """
    schema = {key: value for key, value in definition["inputSchema"].items() if key != "additionalProperties"}
    return {**definition, "inputSchema": schema}


def own_tool(name: str, title: str, description: str, parameters: JsonObject, **hints: bool) -> JsonObject:
    """The definition of one of our own tools; `hints` are its annotations."""
    annotations = {"title": title, **hints}
    return {"name": name, "description": description, "inputSchema": parameters, "annotations": annotations}


def takes(*required: str, **properties: JsonObject) -> JsonObject:
    """The schema of a tool's parameters."""
    needed = {"required": list(required)} if required else {}
    return {"type": "object", "properties": properties, **needed, "additionalProperties": False}


def text(content: str, *, priority: float | None = None) -> JsonObject:
    """A result of one text block of ours; long ones are marked as of low priority for people."""
    if priority is None:
        priority = 0.3 if len(content) > 2000 else 0.7
    annotations: JsonObject = {"priority": priority}
    if priority < 0.5:
        annotations["audience"] = ["assistant"]
    return {"content": [{"type": "text", "text": content, "annotations": annotations}], "isError": False}


def answer(value: Any, structured: JsonObject) -> JsonObject:
    """A value as indented JSON text, with the same value for programs."""
    return {**text(pretty(value)), "structuredContent": structured}


def failure(problem: WicketError, words: str = "") -> JsonObject:
    """An error as a tool result, which every client shows to the model; many do not show JSON-RPC errors.

    `words` is the vocabulary's own wording, if it has one.
    """
    detail: JsonObject = detail_of(problem)
    if isinstance(problem, UnknownName):
        detail |= {"kind": problem.kind, **({"near": list(problem.near)} if problem.near else {})}
    if isinstance(problem, Refused):
        detail["error"] = problem.error
        words = words or f"Server '{problem.server}' answered with an error: {problem.message} ({problem.rpc_code})"
    words = words or str(problem)
    return {"content": [{"type": "text", "text": words}], "isError": True, "_meta": {"wicket/error": detail}}
