"""The capability index: what is behind the small list, in a few hundred tokens, for `instructions` and empty searches.

Made from the catalogue, never from a fixed text, and the same bytes for the same catalogue: clients put it at the head
of every prompt, where a changed byte costs the whole cache.
"""

from collections.abc import Mapping
from typing import Any

from wicket_mcp.catalog.view import View
from wicket_mcp.config.model.config import ServerConfig
from wicket_mcp.model import Listing
from wicket_mcp.schema.signature import first_sentence, signature

INDEX_BUDGET = 400  # characters, some 140 tokens of names: with the sentences around it the whole stays under 250
INLINE_BUDGET = 9000  # characters of signatures, at most 3,000 tokens
MANY_TOOLS = 300
SIGNATURE = 240  # characters of one signature: names and types of what it takes, and none of the server's sentences
INLINE_TOOLS = 150  # more than this are not worth a look: they never fit
_PURPOSE = 60  # characters of one server's purpose


def purpose(config: ServerConfig, listing: Listing | None, limit: int = _PURPOSE) -> str:
    """What a server is for, in its own or the user's words, as briefly as they can be had."""
    info: Mapping[str, Any] = listing.server_info if listing else {}
    words = config.description or info.get("description") or info.get("title") or ""
    return first_sentence(str(words), limit)


def capability_index(view: View, budget: int = INDEX_BUDGET, *, own_words: bool = False) -> str:
    """The servers with purpose and number of tools; by name and number alone, largest first, when room is tight.

    With `own_words`, a purpose is what the user wrote, or nothing: what servers say of themselves is data.
    """
    servers = view.servers
    counts = {name: len(view.by_server.get(name, ())) for name in servers}
    full = [_line(config, view, counts[name], own_words=own_words) for name, config in servers.items()]
    if sum(len(line) + 1 for line in full) <= budget:
        return "\n".join(full)
    ordered = sorted(servers, key=lambda name: (-counts[name], name))
    items: list[str] = []
    room = budget
    for name in ordered:
        item = f"{name} {counts[name]}" if counts[name] else f"{name}{_mark(view, name)}"
        if len(item) + 2 > room:
            break
        items.append(item)
        room -= len(item) + 2
    omitted = len(ordered) - len(items)
    return f"{', '.join(items)}{f' and {omitted} more' if omitted else ''}"


def instructions(view: View, guide: str) -> str:
    """What a client is told about this gateway when it connects; `guide` is about the tools that it sees."""
    total, servers = len(view.tools), len(view.servers)
    amount = f"{total:,} tools of {servers} servers" if total else f"the tools of {servers} servers"
    return (
        f"The visible tools are the door to {amount}, found by search: {guide} {_advice(total)}"
        f"Servers (number of tools):\n{capability_index(view, own_words=True)}"
    )


def _advice(total: int) -> str:
    """When to script, by how much there is to find."""
    return "Search once for each task; script when a step needs several calls. " if total > MANY_TOOLS else ""


def inline_signatures(view: View) -> str:
    """For a small catalogue, all there is to know before calling: no search is needed. Empty for a larger one."""
    if not 0 < len(view.tools) <= INLINE_TOOLS:
        return ""
    described = [_line(config, view, 0, own_words=True) for config in view.servers.values() if config.description]
    lines: list[str] = []
    room = INLINE_BUDGET - sum(map(len, described))
    for tool in view.tools:
        line = signature(tool, budget=SIGNATURE).partition(" -> ")[0]
        room -= len(line) + 1
        if room < 0:
            return ""
        lines.append(line)
    return (
        f"All {len(lines)} tools are listed below: call_tool calls one by its name, without a search; run_script does "
        "several calls in one step.\n" + "\n".join([*described, *lines])
    )


def _line(config: ServerConfig, view: View, count: int, *, own_words: bool) -> str:
    words = purpose(config, None if own_words else view.listings.get(config.name))
    return f"- {config.name}{f' ({count})' if count else _mark(view, config.name)}{f': {words}' if words else ''}"


def _mark(view: View, server: str) -> str:
    """That a server has failed and nothing of it is known: the reason may be its own words, which are data."""
    return " [unavailable]" if server in view.failures and server not in view.listings else ""
