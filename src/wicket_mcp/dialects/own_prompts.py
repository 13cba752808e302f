"""Wicket's own prompts, the same in every vocabulary: how to discover tools, find one for a task, watch servers."""

from typing import Any

from wicket_mcp.codec import encode
from wicket_mcp.dialects.own_resources import health, overview
from wicket_mcp.errors import BadArguments
from wicket_mcp.model import Caller, JsonObject
from wicket_mcp.schema.signature import describe
from wicket_mcp.trust.policy import demand
from wicket_mcp.verbs import Verbs

HITS = 5


def list_prompts() -> list[JsonObject]:
    task: JsonObject = {"name": "task", "description": "What is to be done, in plain words.", "required": True}
    return [
        {"name": "discover", "title": "Discover tools", "description": "How to find out what can be done here."},
        {
            "name": "find_tool",
            "title": "Find a tool",
            "description": "The tools that fit a task, and the full schema of the best.",
            "arguments": [task],
        },
        {
            "name": "backend_status",
            "title": "Backend status",
            "description": "The state of every server, with latencies.",
        },
    ]


async def get_prompt(verbs: Verbs, caller: Caller, name: str, arguments: JsonObject) -> JsonObject | None:
    """One of our own prompts; None if the name is not ours. Raises BadArguments."""
    if name in {prompt["name"] for prompt in list_prompts()}:
        demand(caller.principal, "discover", "asking about servers and tools")
    match name:
        case "discover":
            return _prompt("How to find out what can be done here.", _text(await overview(verbs, caller)))
        case "find_tool":
            return await _find_tool(verbs, caller, arguments)
        case "backend_status":
            return _prompt("The state of every server.", _text(await _status(verbs, caller)))
        case _:
            return None


async def _find_tool(verbs: Verbs, caller: Caller, arguments: JsonObject) -> JsonObject:
    task = arguments.get("task")
    if not isinstance(task, str) or not task.strip():
        raise BadArguments("Required argument 'task' is missing.", hint="Say in plain words what is to be done.")
    hits = (await verbs.search(task, principal=caller.principal, limit=HITS)).hits
    if not hits:
        return _prompt(f"Tools for: {task}", _text("No tools found for this task. Describe it in other words."))
    lines = [f"- {describe(hit.tool, 'signature')}" for hit in hits]
    best = hits[0].tool
    schema: JsonObject = {
        "uri": f"wicket://tool/{best.key}",
        "mimeType": "application/json",
        "text": encode(describe(best, "full")).decode(),
    }
    matches = _text("\n".join([f"Tools that fit '{task}', the best first:", *lines, "", f"The schema of {best.key}:"]))
    return _prompt(f"Tools for: {task}", matches, {"type": "resource", "resource": schema})


async def _status(verbs: Verbs, caller: Caller) -> str:
    rows = [
        "| Backend | Status | Tools | Calls | p50 ms | p95 ms | Problem |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for server in await health(verbs, caller):
        cells = [server.get(key) for key in ("name", "status", "tool_count", "calls", "p50_ms", "p95_ms", "problem")]
        rows.append(f"| {' | '.join(map(_cell, cells))} |")
    return "\n".join(rows)


def _cell(value: Any) -> str:
    return "–" if value is None else str(value).partition("\n")[0].replace("|", "/")


def _text(words: str) -> JsonObject:
    return {"type": "text", "text": words}


def _prompt(description: str, *content: JsonObject) -> JsonObject:
    return {"description": description, "messages": [{"role": "user", "content": block} for block in content]}
