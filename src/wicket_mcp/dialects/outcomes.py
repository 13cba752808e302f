"""The outcome of a script as a tool result, for every vocabulary that runs scripts."""

from typing import Any

from wicket_mcp.codec import encode
from wicket_mcp.dialects.base import text
from wicket_mcp.model import JsonObject, Principal, as_list, as_object
from wicket_mcp.scripts.outcome import Outcome
from wicket_mcp.verbs import Verbs

FAILED = "Script execution failed:"


async def render(
    verbs: Verbs, outcome: Outcome, principal: Principal, *, nothing: str, most: int | None = None
) -> JsonObject:
    """The script's value and output, or why it failed; anything over `most` tokens is stored."""
    if not outcome.ok:
        problem = outcome.problem
        about: JsonObject = {"state": outcome.state, "calls": len(outcome.calls)}
        if problem is not None:
            about |= {"kind": problem.kind, "line": problem.line}
        return {**text(f"{FAILED}\n{outcome.explain()}"), "isError": True, "_meta": {"wicket/script": about}}
    body = _render_value(outcome.value) if outcome.has_value else text(nothing)
    if outcome.printed:
        body = {**body, "content": [*body["content"], *text(f"Printed:\n{outcome.printed.rstrip()}")["content"]]}
    if outcome.labels:
        meta = as_object(body.get("_meta"))
        body = {**body, "_meta": {**meta, "ifc": {**as_object(meta.get("ifc")), **outcome.labels}}}
    return await verbs.put_aside("script", body, principal, most)


def _render_value(value: Any) -> JsonObject:
    if isinstance(value, dict):
        known = as_object(value)
        return known if _is_result(known) else {**text(encode(known).decode()), "structuredContent": known}
    if isinstance(value, list):
        return {**text(encode(value).decode()), "structuredContent": {"result": value}}
    return text(value if isinstance(value, str) else encode(value).decode())


def _is_result(value: JsonObject) -> bool:
    """Whether a value is a tool result itself, which a script got from a tool and returns unchanged."""
    blocks = as_list(value.get("content"))
    known = {"content", "structuredContent", "isError", "_meta", "resultType"}
    return (
        bool(blocks) and set(value) <= known and all(isinstance(as_object(block).get("type"), str) for block in blocks)
    )
