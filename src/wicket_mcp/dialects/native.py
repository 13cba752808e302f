"""The default vocabulary: find, describe, call, run a script, read on.

A hit of `find_tools` is a typed signature, which is enough for a call, so most tasks take two steps.
"""

from functools import partial
from typing import Any

from wicket_mcp.catalog.failures import summarize_failure
from wicket_mcp.catalog.instructions import capability_index
from wicket_mcp.catalog.skills import matches
from wicket_mcp.catalog.view import View
from wicket_mcp.codec import encode
from wicket_mcp.dialects.base import DialectTool, Table, ToolCall, failure, own_tool, takes, text
from wicket_mcp.dialects.outcomes import render
from wicket_mcp.errors import WicketError
from wicket_mcp.extensions import SKILL_SCHEME, TASKS, declares
from wicket_mcp.model import Detail, JsonObject, Tool, as_list, as_object, as_text
from wicket_mcp.schema.signature import describe, first_sentence, signature, summarize
from wicket_mcp.scripting import Script
from wicket_mcp.scripts.languages import NAMES, installed_languages
from wicket_mcp.search import Answer, disclose
from wicket_mcp.spelling import count_of
from wicket_mcp.verbs import Verbs

_STARTING = "still starting"
SKILLS_PATIENCE = 1.0  # seconds that a search waits for lists of skills
EMPTY_QUERY_BUDGET = 6000  # characters of the server list that an empty query answers with
FIND_BUDGET = 4000  # characters of an answer, about 1,000 tokens: the first hits in full, the rest shortened
_LISTED_SKILLS = 20  # of a server whose tools are listed
_FULL_HITS = 2  # lines with all optional parameters: the called hit is nearly always one of them
_LATER_SIGNATURE = 160  # characters of the signatures after them
_LATER_WORDS = 80


async def find_tools(verbs: Verbs, call: ToolCall) -> JsonObject:
    query, server = str(call.arguments.get("query", "")).strip(), call.arguments.get("server")
    principal = call.caller.principal
    if verbs.notice:
        return text(f"[{verbs.notice}]")
    if not query and not server:
        view = await verbs.view(principal)
        index = capability_index(view, EMPTY_QUERY_BUDGET)
        return text(f"{count_of(len(view.tools), 'tool')}. Servers (number of tools):\n{index}{_failures(view)}")
    if not query:
        tools = await verbs.tools(principal, server)
        lines = [str(describe(tool, "signature")) for tool in tools[: _limit(call, 50)]]
        more = f"\n[{len(tools) - len(lines)} more; raise limit or search.]" if len(lines) < len(tools) else ""
        nothing = f"Server '{server}' offers no tools.{_failures(await verbs.current_view(principal))}"
        skills = await verbs.skills.entries(principal, SKILLS_PATIENCE, server)
        taught = "".join(_skill_line(verbs, owner, entry) for owner, entry in skills[:_LISTED_SKILLS])
        return text(("\n".join(lines) + more if lines else nothing) + taught)
    search = partial(
        verbs.search, query, principal=principal, limit=_limit(call, 5), servers=[server] if server else None
    )
    skills = matches(await verbs.skills.entries(principal, SKILLS_PATIENCE, server), query)
    lines = "".join(_skill_line(verbs, owner, entry) for owner, entry in skills)
    known = await verbs.current_view(principal)
    answer, view = await search(), await verbs.current_view(principal)
    while not answer.confident and len(view.tools) > len(known.tools):
        # A server came up meanwhile: it is no longer reported as starting, so its tools must have been searched.
        known, answer, view = view, await search(), await verbs.current_view(principal)
    return text(_hits(answer) + lines + _failures(view, None if not answer.confident else query))


async def describe_tools(verbs: Verbs, call: ToolCall) -> JsonObject:
    described = await verbs.describe(call.arguments["names"], call.caller.principal)
    detail: Detail = call.arguments.get("detail", "full")
    parts = [describe(tool, detail) for tool in described.tools]
    texts = [part if isinstance(part, str) else encode(part).decode() for part in parts]
    problems = [str(problem) for problem in described.problems]
    result = text("\n\n".join(texts + problems))
    return {**result, "isError": not texts and bool(problems)}


async def call_tool(verbs: Verbs, call: ToolCall) -> JsonObject:
    name, arguments = call.arguments["name"], call.arguments.get("arguments")
    able = call.caller.capabilities
    may_be_task = bool(able) and declares(able, TASKS)
    return (await verbs.call(call.request(name, arguments, may_be_task=may_be_task))).body


async def run_script(verbs: Verbs, call: ToolCall) -> JsonObject:
    script = Script(call.arguments["code"], call.arguments.get("language", _LANGUAGES[0].name))
    outcome = await verbs.run(script, call.caller)
    language = NAMES.get(script.language, _LANGUAGES[0])
    nothing = f"[The script returned nothing. {language.answer_hint}]"
    return await render(verbs, outcome, call.caller.principal, nothing=nothing)


async def read_result(verbs: Verbs, call: ToolCall) -> JsonObject:
    arguments: Any = call.arguments
    if str(arguments["id"]).startswith(SKILL_SCHEME):
        return await _read_skill(verbs, call, arguments["id"])
    part = await verbs.read(
        arguments["id"],
        call.caller.principal,
        path=arguments.get("path", ""),
        grep=arguments.get("grep", ""),
        offset=arguments.get("offset", 0),
        limit=max(0, arguments.get("limit") or 0) or None,
        reader=call.caller,
    )
    return text(f"{part.text}\n{part.note}" if part.text else part.note)


async def _read_skill(verbs: Verbs, call: ToolCall, uri: str) -> JsonObject:
    contents = as_list((await verbs.read_resource(uri, call.caller, call.meta, call.resume)).get("contents"))
    return text("\n".join(as_text(as_object(content).get("text")) for content in contents))


def _skill_line(verbs: Verbs, server: str, entry: JsonObject) -> str:
    """A skill in search results: its purpose, and how to read it."""
    frontmatter = as_object(entry.get("frontmatter"))
    words = first_sentence(as_text(frontmatter.get("description")), 160)
    address = verbs.addresses.address(server, as_text(entry.get("uri")))
    return f'\n[Skill {server}/{frontmatter.get("name")}: {words}. Read it: read_result(id="{address}")]'


def _line(tool: Tool) -> str:
    return describe(tool, "signature")


def _later_line(tool: Tool) -> str:
    words = summarize(tool, _LATER_WORDS)
    return f"{signature(tool, _LATER_SIGNATURE)} - {words}" if words else signature(tool, _LATER_SIGNATURE)


def _short(tool: Tool) -> str:
    return signature(tool, budget=120)


def _name(tool: Tool) -> str:
    return tool.key


def _hits(answer: Answer) -> str:
    first, later = answer.hits[:_FULL_HITS], answer.hits[_FULL_HITS:]
    lines = [disclosed.text for disclosed in disclose(first, FIND_BUDGET, (_line, _short, _name), len)]
    room = FIND_BUDGET - sum(map(len, lines))
    lines += [disclosed.text for disclosed in disclose(later, room, (_later_line, _short, _name), len)]
    if not answer.confident:
        lines.insert(0, f"[{answer.doubt}{' The closest:' if lines else ''}]")
    lines += [f"[{entry.hit.tool.key} would fit, but {entry.reason}]" for entry in answer.withheld]
    lines += [f"[{note}]" for note in (answer.tool_by_task, answer.gap) if note]
    return "\n".join(lines)


def _failures(view: View, query: str | None = None) -> str:
    """One line for the servers that could not be listed, so that no tool is missing silently.

    With a `query` that has results, only the servers that it names, and those that are starting.
    """
    causes = [
        f"{name} ({summarize_failure(name, problem)})"
        for name in view.servers
        if (problem := view.failures.get(name)) is not None
        and (query is None or name.lower() in query.lower() or _STARTING in problem)
    ]
    return f"\n[unavailable: {', '.join(causes)}]" if causes else ""


def _limit(call: ToolCall, default: int) -> int:
    return max(1, int(call.arguments.get("limit") or default))


def _shorten(definition: JsonObject) -> JsonObject:
    """A tool as it is listed, without schema details that cost tokens in every prompt and help few callers."""
    schema = as_object(definition["inputSchema"])
    properties = {name: _shorten_type(as_object(value)) for name, value in as_object(schema["properties"]).items()}
    return {**definition, "inputSchema": {**schema, "properties": properties}}


def _shorten_type(schema: JsonObject) -> JsonObject:
    shortened = {key: value for key, value in schema.items() if key not in ("default", "maximum", "maxItems")}
    kinds = as_list(schema.get("type"))
    return {**shortened, "type": kinds[0]} if kinds else shortened


_LANGUAGES = installed_languages()
_EXAMPLES = [f"{language.example} in {language.title}" for language in _LANGUAGES if language.example]
_LANGUAGE: JsonObject = {"enum": [language.name for language in _LANGUAGES], "default": _LANGUAGES[0].name}
_STRING: JsonObject = {"type": "string"}
_COUNT: JsonObject = {"type": "integer"}


class Native(Table):
    """The rows below; in addition, a tool that was found may be called directly by its name, as with `call_tool`."""

    def __init__(self, name: str, rows: tuple[DialectTool, ...]) -> None:
        super().__init__(name, rows)
        self._shown = [_shorten(definition) for definition in self._shown]

    async def call_directly(self, verbs: Verbs, name: str, call: ToolCall) -> JsonObject | None:
        principal = call.caller.principal
        if not principal.may("invoke"):
            return None
        try:
            # Only a name that includes its server is worth starting a server for.
            tool = (
                await verbs.resolve(name, principal)
                if "." in name
                else (await verbs.current_view(principal)).resolve(name)
            )
        except WicketError:  # no such tool, several, or none for this caller: the error of the menu applies
            return None
        try:
            return (await verbs.call(call.request(tool, call.arguments))).body
        except WicketError as problem:
            return failure(problem)


NATIVE = Native(
    "native",
    (
        DialectTool(
            own_tool(
                "find_tools",
                "Find tools",
                "Finds tools for a task in plain words, as typed signatures. Without a query, lists the servers.",
                takes(
                    query=_STRING,
                    server=_STRING,
                    limit={"type": "integer", "maximum": 50, "default": 5},
                ),
                readOnlyHint=True,
            ),
            find_tools,
            ("discover",),
        ),
        DialectTool(
            own_tool(
                "describe_tools",
                "Describe tools",
                "Describes tools, with their schemas.",
                takes(
                    "names",
                    names={"type": "array", "items": _STRING, "maxItems": 50},
                    detail={"enum": ["signature", "brief", "full"], "default": "full"},
                ),
                readOnlyHint=True,
            ),
            describe_tools,
            ("discover",),
        ),
        DialectTool(
            own_tool(
                "call_tool",
                "Call tool",
                "Calls a tool by its name, server.tool.",
                takes("name", name=_STRING, arguments={"type": ["object", "string", "null"]}),
                openWorldHint=True,
            ),
            call_tool,
            ("invoke",),
        ),
        DialectTool(
            own_tool(
                "run_script",
                "Run script",
                f"Runs a script with calls: {', '.join(_EXAMPLES)}.",
                takes(
                    "code",
                    code=_STRING,
                    language=_LANGUAGE,
                ),
                openWorldHint=True,
            ),
            run_script,
        ),
        DialectTool(
            own_tool(
                "read_result",
                "Read result",
                "Reads part of a stored result by path (items[0].name), grep, offset and limit.",
                takes(
                    "id",
                    id=_STRING,
                    path=_STRING,
                    grep=_STRING,
                    offset=_COUNT,
                    limit=_COUNT,
                ),
                readOnlyHint=True,
            ),
            read_result,
            (),
        ),
    ),
)
