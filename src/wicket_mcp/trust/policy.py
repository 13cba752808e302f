"""Which tools may be seen and called, and what a principal's scopes allow. Pure; asked before ranking, listing and
calling alike.

Which tools there are is the configuration's globs' decision, the same for every principal; whether somebody may look
for tools, or call them, is a matter of scopes.
"""

from collections.abc import Collection, Generator, Iterable
from contextlib import contextmanager
from fnmatch import fnmatchcase

from wicket_mcp.config.model.config import ServerConfig
from wicket_mcp.errors import AmbiguousName, Denied, UnknownName
from wicket_mcp.model import Principal, Tool


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
        demand(principal, "invoke", "calling tools")
        if not self.visible(principal, tool):
            raise Denied(
                f"'{tool.key}' may not be called: the configuration of server '{tool.server}' leaves it out.",
                hint="Its 'allowed_tools' and 'denied_tools' decide.",
            )


def demand(principal: Principal, scope: str, doing: str = "this") -> None:
    """Raises Denied unless the principal may; `doing` says what."""
    if not principal.may(scope):
        raise Denied(
            f"Authentication failed: {doing} needs an API key with the scope '{scope}'.",
            hint=f"Make one with: wicket keys create NAME --scope {scope}.",
        )


@contextmanager
def discreet(principal: Principal, what: str) -> Generator[None]:
    """Here a name that means nothing does not tell somebody who may not look for `what` which names do."""
    try:
        yield
    except (UnknownName, AmbiguousName) as problem:
        if not principal.may("discover"):
            problem.hint = f"Looking for {what} needs an API key with the scope 'discover'."
            if isinstance(problem, UnknownName):
                problem.near = ()
            else:
                problem.candidates = ()
        raise


def _matches(name: str, patterns: Collection[str]) -> bool:
    return "*" in patterns or any(fnmatchcase(name, pattern) for pattern in patterns)
