"""What single clients read in a tool's `_meta` beside the protocol: one table, switched off by `vendor_keys = false`.

Read in public files of the clients, not on an official page, so nothing depends on it.
"""

from collections.abc import Mapping
from typing import Any

from wicket_mcp.model import JsonObject, as_object

ALWAYS_LOAD: Mapping[str, Any] = {"anthropic/alwaysLoad": True}
"""Claude Code defers tools behind a search of its own; a search behind a search costs two."""
LARGE_RESULT: Mapping[str, Any] = {"anthropic/maxResultSizeChars": 100_000}
"""We keep large results ourselves: what we show is meant to be seen whole."""

KEYS: Mapping[str, Mapping[str, Any]] = {
    "find_tools": ALWAYS_LOAD,
    "describe_tools": ALWAYS_LOAD,
    "call_tool": {**ALWAYS_LOAD, **LARGE_RESULT},
    "run_script": {**ALWAYS_LOAD, **LARGE_RESULT},
    "read_result": {**ALWAYS_LOAD, **LARGE_RESULT},
}


def add_keys(definition: JsonObject) -> JsonObject:
    """A tool of ours as clients are shown it; every other tool as it is."""
    keys = KEYS.get(definition["name"])
    return {**definition, "_meta": {**as_object(definition.get("_meta")), **keys}} if keys else definition
