"""Which tools may be seen and called. Pure; asked before ranking, listing and calling alike.

Today the configuration's globs decide, the same for every principal; the principal is already part of the question.
"""

from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase

from wicket.config.model import ServerConfig
from wicket.errors import Denied
from wicket.model import Principal, Tool


class Policy:
    """The rules of one configuration."""

    def __init__(self, servers: Iterable[ServerConfig]) -> None:
        self._servers = {server.name: server for server in servers if server.enabled}

    def visible(self, principal: Principal, tool: Tool) -> bool:
        server = self._servers.get(tool.server)
        if server is None:
            return False
        return _matches(tool.name, server.allowed_tools) and not _matches(tool.name, server.denied_tools)

    def check(self, principal: Principal, tool: Tool) -> None:
        """Raises Denied, saying which option forbids the call."""
        if not principal.scopes & {"invoke", "admin"}:
            raise Denied(
                "Authentication failed: calling tools needs an API key with the scope 'invoke'.",
                hint="Make one with: wicket keys create NAME --scope invoke.",
            )
        if not self.visible(principal, tool):
            raise Denied(
                f"'{tool.key}' may not be called: the configuration of server '{tool.server}' leaves it out.",
                hint="Its 'allowed_tools' and 'denied_tools' decide.",
            )


def _matches(name: str, patterns: Collection[str]) -> bool:
    return "*" in patterns or any(fnmatchcase(name, pattern) for pattern in patterns)
