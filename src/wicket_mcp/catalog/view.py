"""The catalogue as one kind of principal may see it: the only place where names are resolved to tools.

A view is built from a snapshot and a `Visibility` and contains nothing that the latter hides, so code that lists,
suggests or resolves names needs no filter. Principals that may see the same share one view; its tables are built on
demand. A principal that may not look up tools gets an `Unlisted` view: every list is empty and no error names a tool,
but a name that the caller knows still resolves. Created by `Snapshot.view`.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from msgspec.structs import replace

from wicket_mcp.budget import MAX_NAME
from wicket_mcp.catalog.names import NameIndex, shorten, wire_names
from wicket_mcp.catalog.shares import narrow, tool_entry
from wicket_mcp.config.model.config import ProfileConfig, ServerConfig
from wicket_mcp.errors import AmbiguousName, UnknownName
from wicket_mcp.extensions import app_resource, is_for_apps_only
from wicket_mcp.model import Listing, Tool
from wicket_mcp.spelling import nearest
from wicket_mcp.trust.policy import Visibility, scope_hint

if TYPE_CHECKING:
    from wicket_mcp.catalog.snapshot import Snapshot

T = TypeVar("T")
_SERVERS_NAMED = 8  # shown if no server's name is similar
Shares: TypeAlias = tuple[tuple[str, frozenset[str]], ...]
"""What is visible of servers with user accounts, by server; empty if there are none."""
Naming = Callable[[Iterable[Tool]], Mapping[str, Tool]]
"""A way to name tools: a function that is created once, such as `wire_names`."""


_TOOLS_NAMED = 8  # of a server whose own name was given for a tool's


class View:
    """Every visible tool, and its names."""

    def __init__(self, snapshot: "Snapshot", visibility: Visibility, shares: Shares = ()) -> None:
        """`shares` is what is visible of servers with user accounts."""
        self._snapshot = snapshot
        self._shares = dict(shares)
        self._listings = narrow(snapshot.listings, shares)
        self._visibility = visibility
        self._spelled: dict[Naming, Mapping[str, Tool]] = {}
        self.all_signatures: str | None = None
        """What `instructions.py` shows of all tools; None until somebody asked."""

    @property
    def visible(self) -> Callable[[Tool], bool]:
        if not self._shares:
            return self._visibility.visible
        return lambda tool: self._has(tool) and self._visibility.visible(tool)

    def _has(self, tool: Tool) -> bool:
        share = self._shares.get(tool.server)
        return share is None or tool_entry(tool) in share

    @property
    def servers(self) -> Mapping[str, ServerConfig]:
        return self._visible(self._snapshot.servers)

    @property
    def listings(self) -> Mapping[str, Listing]:
        """What the servers offer besides tools; `by_server` has the visible tools."""
        return self._visible(self._listings)

    @property
    def profiles(self) -> Mapping[str, ProfileConfig]:
        """The visible profiles: inside a profile, only that one."""
        own = self._visibility.profile
        return self._snapshot.policy.profiles if own is None else {own.name: own}

    @property
    def failures(self) -> Mapping[str, str]:
        """Servers whose last listing failed, and why."""
        return self._visible(self._snapshot.failures)

    def _visible(self, by_server: Mapping[str, T]) -> Mapping[str, T]:
        """The entries of a table by servers whose server is visible."""
        profile = self._visibility.profile
        if profile is None:
            return by_server
        return {name: value for name, value in by_server.items() if profile.shows_server(name)}

    @cached_property
    def tools(self) -> tuple[Tool, ...]:
        """The tools for models; tools that only an app may call are in `app_tools`."""
        every = (tool for listing in self._listings.values() for tool in listing.tools)
        if self._visibility.unrestricted:
            return tuple(tool for tool in every if not is_for_apps_only(tool.definition))
        return tuple(map(self.present, filter(self._visibility.visible, every)))

    def present(self, tool: Tool) -> Tool:
        """The tool with its name and description in this view."""
        profile = self._visibility.profile
        return tool if profile is None else profile.present(tool)

    @cached_property
    def presented(self) -> Mapping[str, Listing]:
        """The listings in which a tool has another name or description here."""
        profile = self._visibility.profile
        if profile is None or not (profile.names or profile.descriptions):
            return {}
        changed: dict[str, Listing] = {}
        for server, listing in self.listings.items():
            tools = tuple(map(profile.present, listing.tools))
            if any(new is not old for new, old in zip(tools, listing.tools, strict=True)):
                changed[server] = replace(listing, tools=tools)
        return changed

    @cached_property
    def app_tools(self) -> tuple[Tool, ...]:
        """The tools of servers with an interface that the interface may call, or that open it."""
        offered: list[Tool] = []
        for listing in self.listings.values():
            if any(app_resource(tool.definition) for tool in listing.tools):
                offered += filter(self._visibility.permits, listing.tools)
        return tuple(offered)

    @cached_property
    def names(self) -> NameIndex:
        return NameIndex(self.tools)

    @cached_property
    def exact(self) -> Mapping[str, Tool]:
        """Every tool under its canonical name, except names that two tools share."""
        return self.names.unique

    @cached_property
    def by_server(self) -> Mapping[str, tuple[Tool, ...]]:
        offered: dict[str, list[Tool]] = {server: [] for server in self.listings}
        for tool in self.tools:
            offered[tool.server].append(tool)
        return {server: tuple(tools) for server, tools in offered.items()}

    @property
    def wire(self) -> Mapping[str, Tool]:
        """Every tool under its flat name."""
        return self.spell(wire_names)

    def spell(self, naming: Naming) -> Mapping[str, Tool]:
        """Every tool under the names that `naming` gives; built once for each function."""
        table = self._spelled.get(naming)
        if table is None:
            table = self._spelled[naming] = naming(self.tools)
        return table

    def find_spelled(self, naming: Naming, name: str) -> Tool | None:
        """The tool that `naming` calls exactly `name`."""
        return self.spell(naming).get(name)

    def hint(self, kind: str = "tools") -> str:
        """The end of an error about an unknown name, for principals that may not look up names."""
        return ""

    def resolve(self, name: str, *, suggest: bool = True) -> Tool:
        """The tool with this name or alias.

        Raises AmbiguousName, UnknownName with similar names (`suggest`, which takes time proportional to the number of
        tools), or Denied if the configuration excludes the tool.
        """
        try:
            return self.names.resolve(name, suggest=suggest)
        except UnknownName as problem:
            alias = self._snapshot.aliases.get(name)
            if alias is not None:
                with suppress(UnknownName):
                    return self.names.resolve(self._name_here(alias), suggest=False)
            self._snapshot.policy.explain(name, self.listings)
            if tools := self.by_server.get(name):
                keys = ", ".join(tool.key for tool in tools[:_TOOLS_NAMED])
                more = f" and {len(tools) - _TOOLS_NAMED} more" if len(tools) > _TOOLS_NAMED else ""
                raise UnknownName(problem.kind, name, hint=f"It is a server. Its tools: {keys}{more}.") from None
            raise

    def _name_here(self, key: str) -> str:
        """The name of a tool in this view, by its own name."""
        profile = self._visibility.profile
        name = profile.names.get(key) if profile is not None else None
        return key if name is None else f"{key.partition('.')[0]}.{name}"

    def is_quick(self, name: str) -> bool:
        """Whether `name` can be resolved without building tables first."""
        return self._callable.prepared or self._callable.knows(name)

    def prepare(self) -> None:
        """Build what resolving any name needs. May run in a thread."""
        self._callable.prepare()

    @property
    def _callable(self) -> NameIndex:
        return self.names

    def find(self, server: str, name: str) -> Tool | None:
        """The tool with exactly this server and name."""
        return next((tool for tool in self.by_server.get(server, ()) if tool.name == name), None)

    def find_own(self, server: str, name: str) -> Tool | None:
        """The tool that a server itself calls `name`."""
        offered = self.by_server.get(server, ())
        return next((tool for tool in offered if (tool.own_name or tool.name) == name), None)

    def server(self, name: str) -> ServerConfig:
        """The configuration of the server that `name` means, ignoring case. Raises UnknownName with similar names."""
        servers = self.servers
        if (config := find_server(servers, name)) is not None:
            return config
        near = nearest(name, servers)
        examples = ", ".join(list(servers)[:_SERVERS_NAMED])
        others = f" and {len(servers) - _SERVERS_NAMED} more" if len(servers) > _SERVERS_NAMED else ""
        problem = UnknownName(
            "server", shorten(name), near, hint="" if near or not servers else f"There are {examples}{others}."
        )
        profile, hidden = self._visibility.profile, find_server(self._snapshot.servers, name)
        problem.rule = profile.option_hiding(hidden.name) if profile is not None and hidden is not None else ""
        raise problem


class Unlisted(View):
    """The view of principals that may not look up tools: `whole` is what they may call by name."""

    def __init__(self, snapshot: "Snapshot", visibility: Visibility, whole: View) -> None:
        super().__init__(snapshot, visibility)
        self._whole = whole

    @property
    def servers(self) -> Mapping[str, ServerConfig]:
        return {}

    @property
    def listings(self) -> Mapping[str, Listing]:
        return {}

    @property
    def failures(self) -> Mapping[str, str]:
        return {}

    @cached_property
    def tools(self) -> tuple[Tool, ...]:
        return ()

    @cached_property
    def app_tools(self) -> tuple[Tool, ...]:
        return ()

    @cached_property
    def names(self) -> NameIndex:
        return NameIndex(())

    @cached_property
    def exact(self) -> Mapping[str, Tool]:
        return self._whole.exact

    @cached_property
    def by_server(self) -> Mapping[str, tuple[Tool, ...]]:
        return {}

    def resolve(self, name: str, *, suggest: bool = True) -> Tool:
        tools = self._whole.names.find(name)
        if not tools and (alias := self._snapshot.aliases.get(name)) is not None:
            tools = self._whole.names.find(self._name_here(alias))
        if len(tools) > 1:
            raise AmbiguousName(shorten(name), hint=self.hint())
        if not tools:
            raise UnknownName("tool", shorten(name), hint=self.hint())
        return tools[0]

    @property
    def _callable(self) -> NameIndex:
        return self._whole.names

    def find_spelled(self, naming: Naming, name: str) -> Tool | None:
        return self._whole.spell(naming).get(name)

    def hint(self, kind: str = "tools") -> str:
        return scope_hint("discover", kind)

    def find(self, server: str, name: str) -> Tool | None:
        return self._whole.find(server, name)

    def find_own(self, server: str, name: str) -> Tool | None:
        return self._whole.find_own(server, name)

    def server(self, name: str) -> ServerConfig:
        if (config := find_server(self._whole.servers, name)) is not None:
            return config
        raise UnknownName("server", shorten(name), hint=self.hint())


def find_server(servers: Mapping[str, ServerConfig], name: str) -> ServerConfig | None:
    """The server with this name, or else with this name ignoring case."""
    if name in servers or len(name) > MAX_NAME:
        return servers.get(name)
    folded = name.lower()
    return next((config for key, config in servers.items() if key.lower() == folded), None)
