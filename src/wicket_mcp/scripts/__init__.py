"""Scripts that an agent writes: each runs in its own jailed process and calls tools through the gateway.

`Scripts` is the door of this room; what a script may see is an `Api`, what it did is an `Outcome`. The engine is
loaded when it is first named: reading a configuration needs `Limits` alone.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wicket_mcp.scripts.api import Api, Server
    from wicket_mcp.scripts.calls import CallTool
    from wicket_mcp.scripts.engine import Scripts, Status
    from wicket_mcp.scripts.limits import Limits
    from wicket_mcp.scripts.outcome import CallRecord, Outcome, Problem

__all__ = ["Api", "CallRecord", "CallTool", "Limits", "Outcome", "Problem", "Scripts", "Server", "Status"]

_HOMES = {
    "Api": "api",
    "CallRecord": "outcome",
    "CallTool": "calls",
    "Limits": "limits",
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
