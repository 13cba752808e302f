"""A vocabulary of seven tools: search, list, get details, list required keys, run a chain, register and deregister.

Answers are short unless the caller asks for long ones. A chain is JavaScript or TypeScript; a single plain call skips
the sandbox.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from wicket_mcp.catalog.pages import page
from wicket_mcp.codec import encode
from wicket_mcp.dialects import chain_words as words
from wicket_mcp.dialects.base import DialectTool, Table, ToolCall, failure, text
from wicket_mcp.dialects.chain_fast import OneCall, one_call, requested_interface
from wicket_mcp.dialects.chain_tools import DEFINITIONS
from wicket_mcp.dialects.outcomes import render
from wicket_mcp.errors import AmbiguousName, UnknownName, WicketError
from wicket_mcp.model import JsonObject, Tool, as_seconds
from wicket_mcp.request import tool_call
from wicket_mcp.scripting import InScript, Script
from wicket_mcp.scripts.api import Api
from wicket_mcp.scripts.outcome import Outcome, Problem
from wicket_mcp.scripts.stubs import typescript
from wicket_mcp.scripts.values import unwrap
from wicket_mcp.search.relevance import keep_relevant
from wicket_mcp.verbs import Verbs

if TYPE_CHECKING:
    from wicket_mcp.registry.facade import RegistryFacade

CHARS_PER_TOKEN = 4
_NEEDS = {"call_tool_chain": ("discover", "invoke"), "register_manual": ("admin",), "deregister_manual": ("admin",)}
"""The scopes of tools that do more than look up tools."""


class Chain(Table):
    """See the module's docstring. `facade` keeps servers that are registered at run time."""

    def __init__(self, facade: "Callable[[], RegistryFacade]") -> None:
        self._facade = facade
        handlers = {
            "search_tools": search_tools,
            "list_tools_meta": list_tools_meta,
            "tool_info": tool_info,
            "get_required_keys_for_tool": required_keys,
            "call_tool_chain": call_tool_chain,
            "register_manual": self.register,
            "deregister_manual": self.deregister,
        }
        super().__init__(
            "chain",
            tuple(
                DialectTool(definition, handlers[definition["name"]], _needs(definition)) for definition in DEFINITIONS
            ),
        )

    async def register(self, verbs: Verbs, call: ToolCall) -> JsonObject:
        facade, principal = self._facade(), call.caller.principal
        config = words.template(call.arguments["manual_call_template"])
        tools = await facade.managed.register(config, principal)
        return text(f"Registered backend '{config.name}' with {len(tools)} tools")

    async def deregister(self, verbs: Verbs, call: ToolCall) -> JsonObject:
        facade, name = self._facade(), call.arguments["manual_name"]
        return text(f"Deregistered backend '{await facade.managed.deregister(name)}'")


async def search_tools(verbs: Verbs, call: ToolCall) -> JsonObject:
    arguments = call.arguments
    servers = verbs.find_tagged(arguments["tag"], call.caller.principal) if arguments.get("tag") else None
    answer = await verbs.search(
        arguments["task_description"],
        principal=call.caller.principal,
        limit=arguments.get("limit", 10),
        servers=servers,
    )
    api = await _api(verbs, call)
    brief = arguments.get("brief", True)
    tools = [words.brief(hit.tool, api) if brief else words.full(hit.tool, api) for hit in answer.hits]
    if tools and brief and not answer.confident:
        tools[0]["try_also"] = words.siblings(answer.hits[0].tool, api, {hit.tool.key for hit in answer.hits})
    return _json(tools, {"tools": tools})


async def list_tools_meta(verbs: Verbs, call: ToolCall) -> JsonObject:
    tools, usage = await verbs.tools(call.caller.principal), await verbs.usage(call.caller.principal)
    ordered = sorted((-usage.get(tool.key, 0), tool.key) for tool in tools)
    rows, cursor = page(ordered, call.arguments.get("cursor"), call.arguments.get("page_size", 50))
    body: JsonObject = {"tools": [key for _, key in rows], "next_cursor": cursor}
    return _json(body, body)


async def tool_info(verbs: Verbs, call: ToolCall) -> JsonObject:
    try:
        tool = await verbs.resolve(call.arguments["tool_name"], call.caller.principal)
    except UnknownName as problem:
        return _unknown(problem)
    api = await _api(verbs, call)
    body = words.full(tool, api) if call.arguments.get("detail") == "full" else words.info(tool, api)
    return _json(body, body)


async def required_keys(verbs: Verbs, call: ToolCall) -> JsonObject:
    try:
        tool = await verbs.resolve(call.arguments["tool_name"], call.caller.principal)
    except UnknownName as problem:
        return _unknown(problem)
    keys = [
        {"name": name, "set": is_set}
        for name, is_set in verbs.required_keys(tool.server, call.caller.principal).items()
    ]
    body: JsonObject = {"tool_name": tool.key, "backend": tool.server, "required_keys": keys}
    return _json(body, body)


async def call_tool_chain(verbs: Verbs, call: ToolCall) -> JsonObject:
    code, arguments = call.arguments["code"], call.arguments
    outcome = await _without_script(verbs, call, code)
    if outcome is None:
        outcome = await _with_script(verbs, call, code, as_seconds(arguments.get("timeout", 30_000)) or 30.0)
    most = arguments.get("max_output_size", 200_000) // CHARS_PER_TOKEN
    note = ""
    if outcome.has_value and arguments.get("intent") and (part := keep_relevant(outcome.value, arguments["intent"])):
        whole = await render(verbs, outcome, call.caller.principal, nothing="null", most=0)
        handle = whole["_meta"]["wicket/result"]["id"]
        outcome = replace(outcome, value=part.value)
        note = f"[Filtered by intent '{arguments['intent']}': {part.kept} of {part.total} sections; all: id {handle}]"
    result = await render(verbs, outcome, call.caller.principal, nothing="null", most=most)
    return {**result, "content": [*text(note)["content"], *result["content"]]} if note else result


async def _without_script(verbs: Verbs, call: ToolCall, code: str) -> Outcome | None:
    """The outcome of a chain that is one plain call or question; None if a script must run."""
    if (name := requested_interface(code)) is not None:
        return await _interface(verbs, call, name)
    single = one_call(code)
    if single is None:
        return None
    try:
        tool = await _target(verbs, call, single)
    except (UnknownName, AmbiguousName) as problem:
        verbs.record_refusal(call.caller, "tools/call", single.tool, problem)
        return None if single.server else _failure(f"Tool '{single.tool}' not found.")
    try:
        request = tool_call(tool, single.arguments, InScript(call.caller), call.meta, whole=True)
        ok, value = unwrap((await verbs.call(request)).body)
    except WicketError as problem:
        return _failure(f"{tool.key}: {problem}")
    if not ok:
        return _failure(f"{tool.key}: {value}")
    return Outcome("done", "javascript", value, True, labels=request.span.labels)


async def _target(verbs: Verbs, call: ToolCall, single: OneCall) -> Tool:
    if not single.server:
        return await verbs.resolve(single.tool, call.caller.principal)
    api = await verbs.scripting.api(verbs, call.caller.principal, single.server)
    return api.find(single.server, single.tool)


async def _interface(verbs: Verbs, call: ToolCall, name: str) -> Outcome:
    try:
        tool = await verbs.resolve(name, call.caller.principal)
    except WicketError as problem:
        return _failure(str(problem))
    ident, server = words.identifiers(tool, await _api(verbs, call))
    return Outcome("done", "javascript", typescript(server, ident, tool), True)


async def _with_script(verbs: Verbs, call: ToolCall, code: str, seconds: float) -> Outcome:
    usual = verbs.scripting.limits
    limits = msgspec.structs.replace(usual, wall=min(usual.wall, seconds))
    outcome = await verbs.run(Script(code, "javascript", limits=limits, envelope=True), call.caller)
    if outcome.problem is not None and outcome.problem.kind == "syntax":
        typed = await verbs.run(Script(code, "typescript", limits=limits, envelope=True), call.caller)
        return outcome if typed.problem is not None and typed.problem.kind == "missing_engine" else typed
    return outcome


async def _api(verbs: Verbs, call: ToolCall) -> Api:
    """The identifiers of every known server and tool."""
    return await verbs.scripting.api(verbs, call.caller.principal, "")


def _needs(definition: JsonObject) -> tuple[str, ...]:
    return _NEEDS.get(definition["name"], ("discover",))


def _failure(message: str) -> Outcome:
    return Outcome("error", "javascript", problem=Problem("tool", message))


def _unknown(problem: UnknownName) -> JsonObject:
    return failure(problem, f"Tool '{problem.name}' not found. {problem.hint}".rstrip())


def _json(value: Any, structured: JsonObject) -> JsonObject:
    return {**text(encode(value).decode()), "structuredContent": structured}
