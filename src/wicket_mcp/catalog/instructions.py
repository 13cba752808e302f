"""The capability index: all servers in a few hundred tokens, for `instructions` and empty searches.

Of servers' own words only names are in it, of tools, parameters and values: nothing that could be a sentence.
Built from the catalogue, never a fixed text, and byte-identical for the same catalogue: clients put it at the start of
every prompt, where a changed byte invalidates the whole cache.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any

from wicket_mcp.catalog.view import View
from wicket_mcp.config.model.config import ServerConfig
from wicket_mcp.model import Listing, Tool
from wicket_mcp.schema.signature import brief_signature, display_name, first_sentence, signature
from wicket_mcp.spelling import count_of

INDEX_BUDGET = 300  # characters, about 80 tokens of names: with its sentences the index stays under 150
INLINE_BUDGET = 9000  # characters of signatures, at most 3,000 tokens
MANY_TOOLS = 300
SIGNATURE = 240  # characters of one signature: names and types of its parameters, without the server's text
SHOWN_SIGNATURE = 140  # characters of it when shown: without the obvious parts
INLINE_TOOLS = 150  # larger catalogues never fit
_NAME = re.compile(r"[\w.\-/:$]{1,64}")
_LONG_WORD = re.compile(r"[^\s(){}|]{65,}")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_SPACE = re.compile(r"\s")
_PURPOSE = 60  # characters of one server's purpose


def purpose(config: ServerConfig, listing: Listing | None, limit: int = _PURPOSE) -> str:
    """What a server is for, briefly, in its own or the user's words."""
    info: Mapping[str, Any] = listing.server_info if listing else {}
    words = config.description or info.get("description") or info.get("title") or ""
    return first_sentence(str(words), limit)


def capability_index(
    view: View, budget: int = INDEX_BUDGET, *, brief: bool = False, unusable: Collection[str] = ()
) -> str:
    """The servers with purpose and number of tools; if space is short, only names and numbers, largest first.

    With `brief`, for every prompt, only purposes that the user wrote are shown, because a server's own text is
    untrusted; if space is short, only names. `unusable` servers are marked like those that failed.
    """
    servers = view.servers
    counts = {name: len(view.by_server.get(name, ())) for name in servers}
    full = [_line(config, view, counts[name], own_words=brief, unusable=unusable) for name, config in servers.items()]
    if sum(len(line) + 1 for line in full) <= budget:
        return "\n".join(full)
    ordered = sorted(servers, key=lambda name: (-counts[name], name))
    items: list[str] = []
    room = budget
    for name in ordered:
        item = f"{name} {counts[name]}" if counts[name] and not brief else f"{name}{_mark(view, name, unusable)}"
        if len(item) + 2 > room:
            break
        items.append(item)
        room -= len(item) + 2
    omitted = len(ordered) - len(items)
    return f"{', '.join(items)}{f' and {omitted} more' if omitted else ''}"


def instructions(view: View, guide: str, unusable: Collection[str] = ()) -> str:
    """The text that a client gets about this gateway when it connects; `guide` describes the tools that it sees.

    `unusable` are servers that were never listed and obviously cannot start.
    """
    total, servers = len(view.tools), len(view.servers)
    owners = count_of(servers, "server")
    amount = f"{count_of(total, 'tool')} of {owners}" if total else f"the tools of {owners}"
    index = capability_index(view, brief=True, unusable=unusable)
    return f"Behind the visible tools are {amount}: {guide} {_advice(total)}Servers:\n{index}"


def _advice(total: int) -> str:
    """When to use a script, by the size of the catalogue."""
    return "Search once for each task; script when a step needs several calls. " if total > MANY_TOOLS else ""


def inline_signatures(view: View) -> str:
    """For a small catalogue, all signatures, so that no search is needed. Empty for a larger one."""
    if not 0 < len(view.tools) <= INLINE_TOOLS:
        return ""
    described = [_line(config, view, 0, own_words=True) for config in view.servers.values() if config.description]
    lines: list[str] = []
    room = INLINE_BUDGET - sum(map(len, described))
    for tool in view.tools:
        room -= len(signature(tool, SIGNATURE).partition(" -> ")[0]) + 1
        if room < 0 or not _NAME.fullmatch(tool.name):
            return ""
        lines.append(_show_names(tool))
    return (
        f"All {len(lines)} tools; untyped parameters are strings. call_tool calls one without a search, "
        "run_script several in one step.\n" + "\n".join([*described, *lines])
    )


def _show_names(tool: Tool) -> str:
    """The signature, if it consists of names: a sentence of the server, as a value or a parameter, stays outside."""
    name, line = display_name(tool), brief_signature(tool, SHOWN_SIGNATURE)
    quoted = _QUOTED.findall(line)
    has_prose = _LONG_WORD.search(line[len(name) :]) or any(_SPACE.search(text) for text in quoted)
    return f"{name}(…)" if has_prose else line


def _line(config: ServerConfig, view: View, count: int, *, own_words: bool, unusable: Collection[str] = ()) -> str:
    words = purpose(config, None if own_words else view.listings.get(config.name))
    state = f" ({count})" if count else _mark(view, config.name, unusable)
    return f"- {config.name}{state}{f': {words}' if words else ''}"


def _mark(view: View, server: str, unusable: Collection[str]) -> str:
    """Marks a server that failed and was never listed. The reason is left out: it may be the server's own text."""
    failed = server in view.failures or server in unusable
    return " [unavailable]" if failed and server not in view.listings else ""
