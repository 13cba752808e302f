"""`[profiles.NAME]`: a choice of servers and tools, served under an address of its own.

What a profile does not show cannot be found, described, called, scripted or read there. Declares the options and what
they show; used by `trust/policy.py`.
"""

import re
from fnmatch import fnmatchcase
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from wicket_mcp.config.model.validation import InvalidOption
from wicket_mcp.model import Principal, Tool

ProfileDialect: TypeAlias = Literal["native", "flat", "lua", "meta", "broker"]
"""Without the dialects that manage servers."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


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
    names: Annotated[
        dict[str, str], Meta(description="Other names for tools: `'git.git_log' = \"history\"` shows `git.history`.")
    ] = field(default_factory=dict[str, str])
    descriptions: Annotated[
        dict[str, str], Meta(description="Other descriptions for tools: `'git.git_log' = \"History of the project\"`.")
    ] = field(default_factory=dict[str, str])
    dialects: Annotated[
        tuple[ProfileDialect, ...], Meta(description="Dialects to show; those of the gateway when empty.")
    ] = ()
    instructions: Annotated[str, Meta(description="Instructions that clients get when they connect.")] = ""
    keys: Annotated[tuple[str, ...], Meta(description="Names of API keys that are bound to this profile.")] = ()
    groups: Annotated[
        tuple[str, ...], Meta(description="Groups of an identity provider whose members are bound to this profile.")
    ] = ()

    clients: Annotated[
        tuple[str, ...],
        Meta(
            description=(
                "Names of clients that get this profile if they do not ask for another (`claude-code`, `cursor*`)."
            )
        ),
    ] = ()
    calls_per_hour: Annotated[
        int, Meta(ge=0, description="Calls per hour for all users of this profile together; 0 means no limit.")
    ] = 0
    tokens_per_hour: Annotated[
        int,
        Meta(
            ge=0,
            description="Tokens of answers per hour for all users of this profile together; 0 means no limit.",
        ),
    ] = 0

    def shows_server(self, server: str) -> bool:
        """Whether anything of a server is shown."""
        if self.servers:
            return any(fnmatchcase(server, pattern) for pattern in self.servers)
        return any(_may_match(pattern, server) for pattern in self.tools)

    def shows(self, tool: Tool) -> bool:
        if not self.shows_server(tool.server):
            return False
        return not self.tools or any(fnmatchcase(tool.own_key, pattern) for pattern in self.tools)

    def option_hiding(self, server: str) -> str:
        """The option that hides a server, or some tools of it."""
        option = "servers" if self.servers and not self.shows_server(server) else "tools"
        return f"profiles.{self.name}.{option}"

    def present(self, tool: Tool) -> Tool:
        """The tool with its name and description in this profile."""
        key = tool.own_key
        name, words = self.names.get(key, tool.name), self.descriptions.get(key)
        if name == tool.name and words is None:
            return tool
        definition = tool.definition if words is None else {**tool.definition, "description": words}
        if name == tool.name:
            return replace(tool, definition=definition)
        return replace(tool, name=name, own_name=tool.name, definition={**definition, "name": name})

    def serves(self, client: str) -> bool:
        """Whether a client of this name gets this profile if it asks for none."""
        return bool(client) and any(fnmatchcase(client, pattern) for pattern in self.clients)

    def holds(self, principal: Principal) -> bool:
        """Whether a principal is restricted to the profiles that name them."""
        return principal.name in self.keys or not principal.groups.isdisjoint(self.groups)


def _may_match(pattern: str, server: str) -> bool:
    """Whether a pattern of `server.tool` can match tools of a server, whose name may have dots of its own."""
    heads = [pattern[: dot.start()] for dot in re.finditer(r"\.", pattern)] or [pattern]
    return any(fnmatchcase(server, head) for head in heads)


def check(profile: ProfileConfig) -> None:
    """Raises InvalidOption."""
    if not profile.name.replace("-", "").replace("_", "").isalnum():
        raise InvalidOption((), f"'{profile.name}' cannot be part of an address.", "Use letters, digits, - and _.")
    if not profile.servers and not profile.tools:
        raise InvalidOption((), "shows nothing.", 'Name servers = ["…"] or tools = ["server.tool"].')
    _check_names(profile)


def _check_names(profile: ProfileConfig) -> None:
    used: dict[str, str] = {}
    for key, name in profile.names.items():
        server, dot, tool = key.partition(".")
        if not (server and dot and tool):
            raise InvalidOption(("names", key), "names no tool.", "Write 'server.tool' = \"other_name\".")
        if not _NAME.fullmatch(name):
            words = "Use letters, digits, _ and -, 64 at most, without the server's name."
            raise InvalidOption(("names", key), f"'{name}' cannot be the name of a tool.", words)
        other = used.setdefault(f"{server}.{name}", key)
        if other != key:
            raise InvalidOption(("names", key), f"'{name}' is the name of '{other}' already.", "Choose another.")
