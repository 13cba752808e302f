"""Scripts that an agent writes: each runs in its own jailed process and calls tools through the gateway.

Owns the languages, the processes (zygote, nursery, jail), the frames between them and the gateway, and how a run ends.
Must not know dialects, policy or upstreams: what a script may see is passed in as an `Api`, and its calls go to a
`CallTool`. Start with `engine.py` (the gateway's side) and `worker.py` (the child's side); `languages.py` lists the
languages. Names are loaded on first use: the command line and the menus need only the list of languages.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wicket_mcp.scripts.api import Api, Server
    from wicket_mcp.scripts.calls import CallTool
    from wicket_mcp.scripts.engine import Scripts, Status
    from wicket_mcp.scripts.outcome import CallRecord, Outcome, Problem

__all__ = ["Api", "CallRecord", "CallTool", "Outcome", "Problem", "Scripts", "Server", "Status"]

_HOMES = {
    "Api": "api",
    "CallRecord": "outcome",
    "CallTool": "calls",
    "Outcome": "outcome",
    "Problem": "outcome",
    "Scripts": "engine",
    "Server": "api",
    "Status": "engine",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
