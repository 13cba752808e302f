"""Client-specific keys in a tool's `_meta`: one table, switched off by `vendor_keys = false`.

Found in public files of the clients, not in official documentation, so nothing depends on it.
"""

from collections.abc import Mapping
from typing import Any

from wicket_mcp.model import JsonObject, as_object

ALWAYS_LOAD: Mapping[str, Any] = {"anthropic/alwaysLoad": True}
"""Claude Code hides tools behind its own search; a search behind a search costs two steps."""
LARGE_RESULT: Mapping[str, Any] = {"anthropic/maxResultSizeChars": 100_000}
"""We store large results ourselves: what we show should be shown completely."""

KEYS: Mapping[str, Mapping[str, Any]] = {
    "find_tools": ALWAYS_LOAD,
    "describe_tools": ALWAYS_LOAD,
    "call_tool": {**ALWAYS_LOAD, **LARGE_RESULT},
    "run_script": {**ALWAYS_LOAD, **LARGE_RESULT},
    "read_result": {**ALWAYS_LOAD, **LARGE_RESULT},
}


def add_keys(definition: JsonObject) -> JsonObject:
    """One of our tools as clients see it; every other tool is unchanged."""
    keys = KEYS.get(definition["name"])
    return {**definition, "_meta": {**as_object(definition.get("_meta")), **keys}} if keys else definition
