"""Parts of pages: charts, timelines, sums and the words for a state. Pure functions from records to plain values."""

import time
from collections.abc import Iterable, Sequence

from wicket_mcp.codec import encode
from wicket_mcp.model import JsonObject, Principal, Tool
from wicket_mcp.store.audit_file import estimate_tokens
from wicket_mcp.store.model import CallRecord, CallTotals, ListTotals
from wicket_mcp.surface.dashboard.figures import Bar, bars

DAY = 86400.0
PAGE = 60
FAILED = ("broken", "failing")
_STATES = (*FAILED, "needs sign-in", "restarting", "starting", "ready", "idle")
"""The order in which servers are shown."""


def mark_lines(diff: str) -> list[tuple[str, str]]:
    """The lines of a diff, each with its CSS class."""
    classes = {"+": "added", "-": "removed", "@": "muted"}
    return [(classes.get(line[:1], ""), line) for line in diff.splitlines()]


def limit_to(principal: Principal) -> str:
    """Whose records a principal may see; administrators see everyone's."""
    return "" if principal.may("admin") else principal.id


def group_by_state(servers: Sequence[JsonObject]) -> list[tuple[str, list[JsonObject]]]:
    """The servers by state, those with a problem first."""
    groups: dict[str, list[JsonObject]] = {}
    for server in servers:
        groups.setdefault("needs sign-in" if server["needs_sign_in"] else server["state"], []).append(server)
    order = {state: number for number, state in enumerate(_STATES)}
    return sorted(groups.items(), key=lambda group: order.get(group[0], len(order)))


def cut_page(tools: Sequence[Tool], page: int) -> Sequence[Tool]:
    return tools[(page - 1) * PAGE : page * PAGE]


def estimate_costs(tools: Iterable[Tool]) -> dict[str, int]:
    """What each tool would cost in a flat list, in tokens."""
    costs: dict[str, int] = {}
    for tool in tools:
        entry = {"name": tool.key, "description": tool.description, "input_schema": tool.input_schema}
        costs[tool.key] = estimate_tokens(len(encode(entry)))
    return costs


def draw_hours(totals: Sequence[CallTotals], now: float) -> list[Bar]:
    """The calls of the last day, hour by hour."""
    first = int((now - DAY) // 3600) + 1
    columns = {hour: [0, 0] for hour in range(first, first + 24)}
    for total in totals:
        if (column := columns.get(int(total.start // 3600))) is not None:
            column[0] += total.calls
            column[1] += total.failed
    return bars(
        [
            (time.strftime("%H:00", time.localtime(hour * 3600)), calls, failed)
            for hour, (calls, failed) in columns.items()
        ]
    )


def draw_timeline(calls: Sequence[CallRecord]) -> list[tuple[CallRecord, float, float]]:
    """The calls of a script, each with its start and length in percent of the whole."""
    if not calls:
        return []
    first = min(call.at - call.duration_ms / 1000 for call in calls)
    whole = max(call.at for call in calls) - first or 1.0
    drawn: list[tuple[CallRecord, float, float]] = []
    for call in calls:
        width = max(0.5, round(call.duration_ms / 10 / whole, 2))
        start = round((call.at - call.duration_ms / 1000 - first) / whole * 100, 2)
        drawn.append((call, max(0.0, min(start, 100 - width)), width))
    return drawn


def sum_tokens(lists: Sequence[ListTotals], by: str) -> list[tuple[str, int, int]]:
    counted: dict[str, list[int]] = {}
    for total in lists:
        row = counted.setdefault(getattr(total, by) or "unnamed", [0, 0])
        row[0] += total.lists
        row[1] += estimate_tokens(total.result_bytes) * total.lists
    return sorted(((name, lists, tokens) for name, (lists, tokens) in counted.items()), key=lambda row: -row[2])


def fold(records: Iterable[CallRecord], most: int) -> list[tuple[CallRecord, int]]:
    """Records that say the same are shown once, as the first of them, with their number; at most `most`."""
    folded: dict[tuple[str, ...], list[CallRecord]] = {}
    for record in records:
        content = (record.principal, record.client, record.method, record.server, record.tool)
        folded.setdefault((*content, record.outcome, record.detail), []).append(record)
    return [(equal[0], len(equal)) for equal in list(folded.values())[:most]]


def suggest_fix(name: str, state: str, problem: str, *, needs_sign_in: bool) -> str:
    """The command that mends it, or shows a person more."""
    if needs_sign_in:
        return f"wicket login {name}"
    if problem or state == "broken":
        return f"wicket doctor {name}"
    return ""
