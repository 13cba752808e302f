"""What a dialect is: a table of tools, each with its schema and a handler over the core's verbs.

A handler gets checked arguments and returns a tool result. It keeps nothing between calls.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from wicket_mcp.codec import pretty
from wicket_mcp.errors import AmbiguousName, ConfigError, Denied, Refused, UnknownName, WicketError
from wicket_mcp.model import LOCAL, Caller, JsonObject, Principal, Tool, as_list, as_object, as_text
from wicket_mcp.schema.arguments import check_arguments, parse_arguments
from wicket_mcp.spelling import nearest
from wicket_mcp.trust.policy import demand
from wicket_mcp.verbs import Verbs

_SENTENCE_END = re.compile(r"\.\s")


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of one of our own tools: who makes it, with which arguments and `_meta`."""

    arguments: Mapping[str, Any]
    caller: Caller
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])
    resume: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The replies with which a modern client repeats its call (see `CallRequest.resume`)."""


Handler = Callable[[Verbs, ToolCall], Awaitable[JsonObject]]


@dataclass(frozen=True, slots=True)
class DialectTool:
    """One row of a dialect's table. `needs` are the scopes without which nobody may call it.

    A row that says nothing needs both: a script, say, sees every tool and may call it.
    """

    definition: JsonObject
    handler: Handler
    needs: tuple[str, ...] = ("discover", "invoke")

    @property
    def name(self) -> str:
        return self.definition["name"]


class Dialect(Protocol):
    """A vocabulary. `fixed` says that its list of tools never changes."""

    name: str
    fixed: bool

    async def list(self, verbs: Verbs, principal: Principal) -> list[JsonObject]:
        """The tools as a client sees them; without the scope `discover`, only the dialect's own."""
        ...

    async def call(self, verbs: Verbs, name: str, call: ToolCall) -> JsonObject | None:
        """The result, or None when the dialect has no such tool.

        Raises Denied where the name could only be a server's tool and the caller may call none: before it is looked up.
        """
        ...


@runtime_checkable
class NamesTools(Protocol):
    """A vocabulary some of whose names stand for upstream tools by themselves."""

    async def find(self, verbs: Verbs, name: str) -> Tool | None: ...


class Table:
    """A dialect whose tools are fixed rows."""

    fixed = True

    def __init__(self, name: str, rows: tuple[DialectTool, ...]) -> None:
        self.name = name
        self._rows = {row.name: row for row in rows}

    async def list(self, verbs: Verbs, principal: Principal) -> list[JsonObject]:
        return [row.definition for row in self._rows.values()]

    async def call(self, verbs: Verbs, name: str, call: ToolCall) -> JsonObject | None:
        row = self._rows.get(name)
        if row is None:
            return None
        try:
            for scope in row.needs:
                demand(call.caller.principal, scope, name)
            arguments = parse_arguments(call.arguments)
            check_arguments(Tool("", name, row.definition), arguments)
            return await row.handler(verbs, ToolCall(arguments, call.caller, call.meta, call.resume))
        except WicketError as problem:
            return failure(problem)


class Menu:
    """The dialects that one address serves, as one list of tools."""

    def __init__(self, dialects: tuple[Dialect, ...]) -> None:
        self.dialects = dialects
        self._naming = [dialect for dialect in dialects if isinstance(dialect, NamesTools)]

    @property
    def fixed(self) -> bool:
        return all(dialect.fixed for dialect in self.dialects)

    async def list(self, verbs: Verbs, principal: Principal = LOCAL) -> list[JsonObject]:
        shown: dict[str, JsonObject] = {}
        owner: dict[str, str] = {}
        for dialect in self.dialects:
            for tool in await dialect.list(verbs, principal):
                if tool["name"] in shown:
                    raise ConfigError(
                        f"the dialects '{owner[tool['name']]}' and '{dialect.name}' both have a tool '{tool['name']}'",
                        key="dialects",
                        hint="Serve them at their own addresses, /mcp/<dialect>, instead.",
                    )
                shown[tool["name"]], owner[tool["name"]] = tool, dialect.name
        return list(shown.values())

    async def call(self, verbs: Verbs, name: str, call: ToolCall) -> JsonObject:
        unknown: UnknownName | None = None
        denied: Denied | None = None
        principal = call.caller.principal
        for dialect in self.dialects:
            try:
                if (result := await dialect.call(verbs, name, call)) is not None:
                    return result if principal.may("discover") else _discreet(result)
            except UnknownName as problem:  # a vocabulary with words of its own for this
                unknown = problem
            except Denied as problem:  # another dialect may have a tool of its own by this name
                denied = problem
        if denied is not None:
            return failure(denied)
        if unknown is not None and principal.may("discover"):
            raise unknown
        names = [tool["name"] for tool in await self.list(verbs, principal)]
        raise UnknownName("tool", name, nearest(name, names))

    async def find(self, verbs: Verbs, name: str) -> Tool | None:
        """The upstream tool that a name on this menu stands for by itself."""
        for dialect in self._naming:
            if (tool := await dialect.find(verbs, name)) is not None:
                return tool
        return None


def _discreet(result: JsonObject) -> JsonObject:
    """A result for somebody who may not look for tools: a name that means none does not tell those that do."""
    detail = as_object(as_object(result.get("_meta")).get("wicket/error"))
    ambiguous = detail.get("code") == AmbiguousName.code
    if not ambiguous and not (detail.get("code") == UnknownName.code and detail.get("kind") in ("tool", "server")):
        return result
    first = as_object(next(iter(as_list(result.get("content"))), None))
    what, *_ = _SENTENCE_END.split(as_text(first.get("text")), maxsplit=1)
    told = f"{what.rstrip('.')}. Looking for tools needs an API key with the scope 'discover'."
    kept = {key: value for key, value in detail.items() if key != "near"}
    return {**result, "content": [{"type": "text", "text": told}], "_meta": {"wicket/error": kept}}


def own_tool(name: str, title: str, description: str, parameters: JsonObject, **hints: bool) -> JsonObject:
    """The definition of one of our own tools; `hints` are its annotations."""
    annotations = {"title": title, **hints}
    return {"name": name, "description": description, "inputSchema": parameters, "annotations": annotations}


def takes(*required: str, **properties: JsonObject) -> JsonObject:
    """The schema of a tool's parameters."""
    needed = {"required": list(required)} if required else {}
    return {"type": "object", "properties": properties, **needed, "additionalProperties": False}


def text(content: str, *, priority: float | None = None) -> JsonObject:
    """A result of one text block of ours; long ones are marked as of little interest to people."""
    if priority is None:
        priority = 0.3 if len(content) > 2000 else 0.7
    annotations: JsonObject = {"priority": priority}
    if priority < 0.5:
        annotations["audience"] = ["assistant"]
    return {"content": [{"type": "text", "text": content, "annotations": annotations}], "isError": False}


def answer(shown: Any, structured: JsonObject) -> JsonObject:
    """A value as indented JSON text, and beside it the same for programs."""
    return {**text(pretty(shown)), "structuredContent": structured}


def failure(problem: WicketError, words: str = "") -> JsonObject:
    """A problem as a tool result, which every client shows to the model; JSON-RPC errors many do not.

    `words` are the vocabulary's own for it, where it has any.
    """
    detail: JsonObject = {"code": problem.code, "retryable": problem.retryable}
    if isinstance(problem, UnknownName):
        detail |= {"kind": problem.kind, **({"near": list(problem.near)} if problem.near else {})}
    if isinstance(problem, Refused):
        detail["error"] = problem.error
        words = words or f"Server '{problem.server}' answered with an error: {problem.message} ({problem.rpc_code})"
    words = words or str(problem)
    return {"content": [{"type": "text", "text": words}], "isError": True, "_meta": {"wicket/error": detail}}
