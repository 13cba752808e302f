"""Limits of one request: lengths of texts and lists, references to stored results. Checked on entry.

Each check is a `len` or two and comes before any work that grows with the input. An error names the limit. Transports
limit whole messages, `scripts/limits.py` limits scripts.
"""

from collections.abc import Mapping, Sized
from typing import Any

from wicket_mcp.errors import BadArguments
from wicket_mcp.model import as_list

MAX_QUERY = 2000
"""Characters of a search query."""
MAX_NAME = 500
"""Characters of the name of a tool, server, prompt or tag, or of a handle."""
MAX_PATH = 1000
"""Characters of a path into a result, or of a search pattern for it."""
MAX_ADDRESS = 8192
"""Characters of the address of a resource."""
MAX_NAMES = 50
MAX_WATCHED = 200
"""Resources that one client may watch."""
MAX_REFERENCES = 16
"""Stored results that the arguments of one call may refer to."""
MAX_SUBSTITUTED = 4 * 1024 * 1024
"""Bytes that references may add to the arguments of one call."""
MAX_VALUES = 200_000
"""Numbers, texts, lists and objects in one client message that is larger than a quarter of a megabyte."""

_UNBOUNDED = frozenset({"code", "script", "arguments", "args", "sampleArgs", "manual_call_template", "env", "headers"})
"""Arguments of our own tools that have another limit, or only the message's limit."""
_TEXTS: Mapping[str, int] = {
    **dict.fromkeys(("query", "q", "task_description", "intent", "context", "description"), MAX_QUERY),
    **dict.fromkeys(("endpoint", "command", "repository_url"), MAX_QUERY),
    **dict.fromkeys(("path", "grep"), MAX_PATH),
}


def check_length(value: Sized, most: int, subject: str, unit: str = "characters") -> None:
    """Raises BadArguments if `value` is longer than `most`."""
    if len(value) > most:
        raise BadArguments(f"{subject} may have {most:,} {unit} at most, not {len(value):,}.")


def check_own_arguments(arguments: Mapping[str, Any]) -> None:
    """Check the arguments of one of our own tools before they are validated against its schema. Raises BadArguments."""
    for name, value in arguments.items():
        if isinstance(value, str):
            if len(value) > MAX_NAME and name not in _UNBOUNDED:
                check_length(value, _TEXTS.get(name, MAX_NAME), f"'{name[:80]}'")
        elif isinstance(value, dict) and name not in _UNBOUNDED:
            raise BadArguments(f"'{name[:80]}' cannot be an object.")
        elif isinstance(value, list) and name not in _UNBOUNDED:
            items = as_list(value)
            check_length(items, MAX_NAMES, f"'{name[:80]}'", "items")
            for item in items:
                if isinstance(item, (dict, list)):
                    raise BadArguments(f"The items of '{name[:80]}' cannot be lists or objects.")
                if isinstance(item, str) and len(item) > MAX_NAME:
                    check_length(item, MAX_NAME, f"An item of '{name[:80]}'")
