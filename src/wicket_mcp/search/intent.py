"""What a query wants done, as far as its wording says: whether to look at something or to change it, and its negations.

A tool that says of itself that it only reads does not write, and the reverse: the query's verb then decides between two
tools about the same thing. Called by the index; knows no scores.
"""

import re
from collections.abc import Callable, Sequence

from wicket_mcp.model import Tool, as_object
from wicket_mcp.search.text import words

CONTRARY = 0.06
"""The penalty for a tool that reads if the query wants a change, or the reverse: enough to decide between two tools
that fit almost equally."""
_LOOKS = frozenset(("show", "list", "read", "find", "search", "view", "display", "count", "describe", "which"))
_CHANGES = frozenset(
    (
        *("create", "add", "write", "update", "edit", "delete", "remove", "send", "commit", "stage"),
        *("save", "remember", "insert", "append", "upload", "rename", "merge"),
    )
)
_POLITE = frozenset(
    ("please", "can", "could", "you", "would", "i", "want", "need", "to", "let", "us", "me", "just", "now", "then")
)
NEGATED = 0.03
"""What a tool that speaks of something undone gains if the query does, too: "uncommitted" and "not yet staged"."""
_NOT = re.compile(r"\b(?:not|never) (?:yet |been |already )?([a-z]{3,20}ed)\b")
_UNDONE = re.compile(r"\bun(?!i)[a-z]{3,20}ed\b")


def wants_change(query: str) -> bool | None:
    """Whether a query asks for a change (True), for a look (False), or does not say (None)."""
    verb = next((word for word in words(query) if word not in _POLITE), "")
    return True if verb in _CHANGES else False if verb in _LOOKS else None


def changes(tool: Tool) -> bool | None:
    """Whether a tool changes something, as it says itself; None if it does not say."""
    hint = as_object(tool.definition.get("annotations")).get("readOnlyHint")
    return None if not isinstance(hint, bool) else not hint


def join_negations(query: str, counts: Callable[[Sequence[str]], Sequence[int]]) -> str:
    """`not staged` as `unstaged`, if a tool of the catalogue has that word."""

    def join(match: re.Match[str]) -> str:
        joined = f"un{match[1]}"
        return joined if counts([joined])[0] else match[0]

    return _NOT.sub(join, query)


def is_negated(text: str) -> bool:
    """Whether a text speaks of something that has not been done: unread, not yet staged."""
    lower = text.lower().replace("_", " ")
    return bool(_UNDONE.search(lower) or _NOT.search(lower))
