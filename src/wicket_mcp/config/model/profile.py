"""`[profiles.NAME]`: a choice of servers and tools, served under an address of its own.

What a profile does not show cannot be found, described, called, scripted or read there. Declares the options and says
what they show; who asks is `trust/policy.py`.
"""

from fnmatch import fnmatchcase
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct, field

from wicket_mcp.config.model.validation import InvalidOption
from wicket_mcp.model import Principal, Tool

ProfileDialect: TypeAlias = Literal["native", "flat", "lua", "meta", "broker"]
"""Without those that manage servers."""


class ProfileConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One profile. Served at `/mcp/p/NAME` and by `wicket serve --profile NAME`."""

    name: str = ""
    servers: Annotated[
        tuple[str, ...], Meta(description="Servers to show, by name or pattern; those of `tools` when empty.")
    ] = ()
    tools: Annotated[
        tuple[str, ...],
        Meta(description="Tools to show, as patterns of `server.tool` (`github.get_*`); all of `servers` when empty."),
    ] = ()
    descriptions: Annotated[
        dict[str, str], Meta(description="Other descriptions for tools: `'git.git_log' = \"History of the project\"`.")
    ] = field(default_factory=dict[str, str])
    dialects: Annotated[
        tuple[ProfileDialect, ...], Meta(description="Vocabularies to show; those of the gateway when empty.")
    ] = ()
    instructions: Annotated[str, Meta(description="What clients are told first when they connect.")] = ""
    keys: Annotated[tuple[str, ...], Meta(description="Names of API keys that are held to this profile.")] = ()
    groups: Annotated[
        tuple[str, ...], Meta(description="Groups of an identity provider whose members are held to this profile.")
    ] = ()

    def shows_server(self, server: str) -> bool:
        """Whether anything of a server is shown."""
        if self.servers:
            return any(fnmatchcase(server, pattern) for pattern in self.servers)
        return any(fnmatchcase(server, pattern.partition(".")[0]) for pattern in self.tools)

    def shows(self, tool: Tool) -> bool:
        if not self.shows_server(tool.server):
            return False
        return not self.tools or any(fnmatchcase(tool.key, pattern) for pattern in self.tools)

    def holds(self, principal: Principal) -> bool:
        """Whether somebody may use no other profile than those that name them."""
        return principal.name in self.keys or not principal.groups.isdisjoint(self.groups)


def check(profile: ProfileConfig) -> None:
    """Raises InvalidOption."""
    if not profile.name.replace("-", "").replace("_", "").isalnum():
        raise InvalidOption((), f"'{profile.name}' cannot be part of an address.", "Use letters, digits, - and _.")
    if not profile.servers and not profile.tools:
        raise InvalidOption((), "shows nothing.", 'Name servers = ["…"] or tools = ["server.tool"].')
