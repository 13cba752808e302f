"""The capability index: all servers in a few hundred tokens, for `instructions` and empty searches.

Of servers' own words only names are in it, of tools, parameters and values: nothing that could be a sentence.
Built from the catalogue, never a fixed text, and byte-identical for the same catalogue: clients put it at the start of
every prompt, where a changed byte invalidates the whole cache.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from wicket_mcp.catalog.view import View
from wicket_mcp.config.model.config import ServerConfig
from wicket_mcp.model import Listing, Tool
from wicket_mcp.schema.signature import brief_signature, display_name, first_sentence
from wicket_mcp.spelling import count_of

INDEX_BUDGET = 300  # characters, about 80 tokens of names: with its sentences the index stays under 150
INLINE_BUDGET = 9500
"""Bytes of the instructions with all signatures. That is at most 3,000 tokens (o200k), usually 2,300: of 1,966 tools of
published servers the signatures with the most tokens have 3.17 bytes for each, the usual ones 4.2. A tokenizer would
know better, but costs more than the rest of the start.
"""
MANY_TOOLS = 300
SIGNATURE_FORMS = (240, 140)
"""Characters of each signature: the first form in which all of them fit is shown."""
_NAME = re.compile(r"[\w.\-/:$]{1,64}")
_LONG_WORD = re.compile(r"[^\s(){}|]{65,}")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*+"?')
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
    """For a small catalogue, all signatures, so that no search is needed. Empty for a larger one.

    Takes up to 30 ms the first time; run it in a thread.
    """
    if view.all_signatures is None:
        view.all_signatures = _all_signatures(view)
    return view.all_signatures


def _all_signatures(view: View) -> str:
    tools = view.tools
    shortest = sum(len(tool.key) + len("()\n") for tool in tools)
    if not tools or shortest > INLINE_BUDGET or not all(_NAME.fullmatch(tool.name) for tool in tools):
        return ""
    described = [_line(config, view, 0, own_words=True) for config in view.servers.values() if config.description]
    head = (
        f"All {len(tools)} tools; untyped parameters are strings. call_tool calls one without a search, "
        "run_script several in one step."
    )
    forms = (_within_budget([head, *described], tools, form) for form in SIGNATURE_FORMS)
    return next(filter(None, forms), "")


def _within_budget(lines: list[str], tools: Iterable[Tool], form: int) -> str:
    """These lines and the signatures of all tools; empty if that is too long."""
    lines = list(lines)
    room = INLINE_BUDGET - sum(map(_bytes, lines))
    for tool in tools:
        lines.append(_show_names(tool, form))
        room -= _bytes(lines[-1])
        if room < 0:
            return ""
    return "\n".join(lines)


def _bytes(line: str) -> int:
    return len(line.encode("utf-8", "replace")) + 1


def _show_names(tool: Tool, form: int) -> str:
    """The signature, if it consists of names: a sentence of the server, as a value or a parameter, stays outside."""
    name, line = display_name(tool), brief_signature(tool, form)
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
