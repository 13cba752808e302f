"""Wicket: a gateway that shows an agent a handful of tools in front of any number of MCP servers.

The public names are loaded on first use, so that `import wicket_mcp` costs nothing and a process that only serves stdio
does not load what it does not use.
"""

TYPE_CHECKING = False  # importing typing takes as long as starting the interpreter
if TYPE_CHECKING:
    from wicket_mcp.app import Gateway
    from wicket_mcp.config.model.config import Config
    from wicket_mcp.errors import WicketError

__version__ = "0.1.0"
__all__ = ["Config", "Gateway", "WicketError", "__version__"]

_HOMES = {"Gateway": "wicket_mcp.app", "Config": "wicket_mcp.config.model.config", "WicketError": "wicket_mcp.errors"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'wicket_mcp' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415  (the point of this function is to import late)

    return getattr(import_module(_HOMES[name]), name)
