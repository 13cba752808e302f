"""Completion for arguments of our own resources and prompts: prefix matches first, then substrings and similar
names.
"""

from collections.abc import Iterable

from wicket_mcp.dialects.own_prompts import list_prompts
from wicket_mcp.dialects.own_resources import SCHEMES
from wicket_mcp.model import Caller, JsonObject, as_object, as_text
from wicket_mcp.schema.descriptions import first_sentence
from wicket_mcp.spelling import nearest
from wicket_mcp.trust.policy import demand
from wicket_mcp.verbs import Verbs

MOST = 100


async def complete(verbs: Verbs, caller: Caller, params: JsonObject) -> JsonObject | None:
    """The completion, or None if the reference is not to something of ours."""
    reference, argument = as_object(params.get("ref")), as_object(params.get("argument"))
    value = as_text(argument.get("value"))
    if reference.get("type") == "ref/prompt":
        if reference.get("name") not in {prompt["name"] for prompt in list_prompts()}:
            return None
        return _completion(await _tasks(verbs, caller, value) if argument.get("name") == "task" else [])
    if not as_text(reference.get("uri")).startswith(SCHEMES):
        return None
    demand(caller.principal, "discover", "completion")
    match argument.get("name"):
        case "tool_name":
            view = await verbs.current_view(caller.principal)
            return _completion(matching(value, (tool.key for tool in view.tools)))
        case "backend_name":
            return _completion(matching(value, (await verbs.current_view(caller.principal)).servers))
        case _:
            return _completion([])


def matching(value: str, names: Iterable[str]) -> list[str]:
    """The names that `value` may become: those that begin with it, contain it, or are similar."""
    every, prefix = sorted(names), value.lower()
    begins = [name for name in every if name.lower().startswith(prefix)]
    contains = [name for name in every if prefix in name.lower()]
    near = nearest(value, every, limit=10) if value and not begins else []
    return list(dict.fromkeys([*begins, *contains, *near]))


async def _tasks(verbs: Verbs, caller: Caller, value: str) -> list[str]:
    """Descriptions of tools, for a task that a user has begun to describe."""
    if not value.strip():
        return []
    hits = (await verbs.search(value, principal=caller.principal, limit=10)).hits
    return list(dict.fromkeys(words for hit in hits if (words := first_sentence(hit.tool.description))))


def _completion(values: list[str]) -> JsonObject:
    return {"completion": {"values": values[:MOST], "total": len(values), "hasMore": len(values) > MOST}}
