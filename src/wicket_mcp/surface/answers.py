"""The shape of single results: a page of a list, a result for a legacy client, an unknown resource in either era."""

from typing import TYPE_CHECKING

from wicket_mcp.calls.profile_budgets import TokenBudgets
from wicket_mcp.catalog.pages import read_cursor, write_cursor
from wicket_mcp.errors import INVALID_PARAMS, RESOURCE_NOT_FOUND_LEGACY, Refused
from wicket_mcp.model import Caller, JsonObject, as_object, as_text
from wicket_mcp.results.content import count_text
from wicket_mcp.surface.problems import RpcProblem

if TYPE_CHECKING:
    from wicket_mcp.surface.protocol import Method, Protocol, Request

PAGE = 500  # resources, templates or prompts in one answer


def undress(result: JsonObject) -> JsonObject:
    """Remove the modern fields that a modern upstream may have put into a result for a legacy client."""
    if "resultType" in result:
        return {key: value for key, value in result.items() if key not in ("resultType", "ttlMs", "cacheScope")}
    return result


def not_found(refusal: Refused, uri: str, *, modern: bool) -> RpcProblem | Refused:
    """The error for a resource that an upstream does not have, with the code of the client's era."""
    data = as_object(refusal.error.get("data"))
    is_upstreams = refusal.rpc_code == RESOURCE_NOT_FOUND_LEGACY or (
        refusal.rpc_code == INVALID_PARAMS and "uri" in data
    )
    if not is_upstreams:
        return refusal
    code = INVALID_PARAMS if modern else RESOURCE_NOT_FOUND_LEGACY
    return RpcProblem(code, refusal.message, {**data, "uri": uri})


def build_page(
    request: "Request",
    key: str,
    entries: list[JsonObject],
    name: str,
    size: int = PAGE,
    *,
    fields: JsonObject | None = None,
) -> JsonObject:
    """One page of a list and the cursor of the next page. The cursor holds the position and `name` of the last entry,
    so if the list has changed, the next page continues after that entry. `fields` are the servers' fields beside the
    entries. Raises BadArguments for a cursor that is not ours.
    """
    cursor = request.params.get("cursor")
    begin = 0 if cursor is None else _find_next(entries, name, *read_cursor(str(cursor), int, str))
    end = begin + size
    result: JsonObject = {**(fields or {}), key: entries[begin:end]}
    if end >= len(entries):
        return result
    return {**result, "nextCursor": write_cursor(end - 1, as_text(entries[end - 1].get(name)))}


def _find_next(entries: list[JsonObject], name: str, place: int, last: str) -> int:
    """The index of the entry after the one named `last`, which was at `place`."""
    if 0 <= place < len(entries) and as_text(entries[place].get(name)) == last:
        return place + 1
    moved = next((at for at, entry in enumerate(entries) if as_text(entry.get(name)) == last), None)
    return max(place, 0) if moved is None else moved + 1


UNMETERED = frozenset(
    {
        *("initialize", "ping", "logging/setLevel", "server/discover", "subscriptions/listen"),
        *("resources/subscribe", "resources/unsubscribe"),
        *("tools/list", "tools/call"),  # they count what they tell
        *("tasks/get", "tasks/update", "tasks/cancel", "tasks/result", "tasks/list"),
    }
)
"""Methods whose answers do not count here against the tokens of a profile."""


def meter(budgets: TokenBudgets, method: "Method") -> "Method":
    """The method, whose answers count against the tokens of its caller's profile."""

    async def answer(protocol: "Protocol", request: "Request", caller: Caller, resume: JsonObject) -> JsonObject:
        await budgets.check(caller.principal)
        body = await method(protocol, request, caller, resume)
        await budgets.spend(caller.principal, count_text(body))
        return body

    return answer
