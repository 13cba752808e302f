"""Which tools may be seen and called, and what a principal's scopes allow. Pure; used for ranking, listing and calling.

The patterns of the configuration decide which tools exist, for every principal alike; scopes decide whether a principal
may look up tools, or call them. `Visibility` combines both, for one kind of principal.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase

from msgspec.structs import replace

from wicket_mcp.config.model.config import ProfileConfig, ServerConfig
from wicket_mcp.errors import AmbiguousName, Denied, UnknownName
from wicket_mcp.extensions import is_for_apps_only
from wicket_mcp.model import LOCAL, SCOPES, Listing, Principal, Tool


class Policy:
    """The rules of one configuration."""

    def __init__(self, servers: Iterable[ServerConfig], profiles: Iterable[ProfileConfig] = ()) -> None:
        self.profiles = {profile.name: profile for profile in profiles}
        self._bound_keys = frozenset(key for profile in self.profiles.values() for key in profile.keys)
        self._bound_groups = frozenset(group for profile in self.profiles.values() for group in profile.groups)
        self._profiled: dict[tuple[str, bool], Visibility] = {}
        self._servers = {server.name: server for server in servers if server.enabled}
        everything = all("*" in server.allowed_tools and not server.denied_tools for server in self._servers.values())
        self._listed = Visibility(self.offers, self.permits, unrestricted=everything)
        self._unlisted = Visibility(self.offers, self.permits, unrestricted=everything, listed=self._listed)

    def place(self, principal: Principal, requested: str = "", client: str = "") -> Principal:
        """The principal with its profile: `requested` by the address, unless it is bound to others.

        If the address requests none, the client's name selects among the remaining ones. Who is bound to profiles
        administers nothing: that is a right over every server.
        """
        if not self.profiles:
            return principal
        held = [profile.name for profile in self.profiles.values() if profile.holds(principal)]
        open_to = held or ([] if requested else list(self.profiles))
        chosen = requested
        if not held or requested not in held:
            by_client = next((name for name in open_to if self.profiles[name].serves(client)), "")
            chosen = by_client or (held[0] if held else requested)
        if held and "admin" in principal.scopes and principal is not LOCAL:
            return replace(principal, profile=chosen, scopes=SCOPES - {"admin"})
        return replace(principal, profile=chosen) if chosen != principal.profile else principal

    def is_restricted(self, principal: Principal) -> bool:
        """Whether `principal` sees only what a profile shows. If it is bound to profiles and has none, it sees nothing:
        then somebody forgot to `place` it.
        """
        return bool(principal.profile) or self._is_bound(principal)

    def _is_bound(self, principal: Principal) -> bool:
        return principal.name in self._bound_keys or not self._bound_groups.isdisjoint(principal.groups)

    def visibility(self, principal: Principal) -> "Visibility":
        """What `principal` may see: the same object for all principals that may see the same."""
        if self.is_restricted(principal):
            return self._by_profile(principal.profile, principal.may("discover"))
        return self._listed if principal.may("discover") else self._unlisted

    def rule_against(self, principal: Principal, tool: Tool) -> str:
        """The option that keeps a tool from `principal` (`servers.github.denied_tools`); empty if none does."""
        if option := self._option_against(tool):
            return f"servers.{tool.server}.{option}"
        return self.profile_against(principal, tool.server, tool.own_name or tool.name)

    def profile_against(self, principal: Principal, server: str, tool: str = "") -> str:
        """The option of the principal's profile that hides a server, or a tool of it; empty if none does."""
        if self.shows(principal, server, tool):
            return ""
        profile = self.profiles.get(principal.profile)
        return f"profiles.{principal.profile}" if profile is None else profile.option_hiding(server)

    def shows(self, principal: Principal, server: str, tool: str = "") -> bool:
        """Whether the principal's profile has a server, or a tool of it."""
        if not self.is_restricted(principal):
            return True
        profile = self.profiles.get(principal.profile)
        if profile is None:
            return False
        return profile.shows(Tool(server, tool, {})) if tool else profile.shows_server(server)

    def _by_profile(self, name: str, discover: bool) -> "Visibility":
        known = self._profiled.get((name, discover))
        if known is None:
            profile = self.profiles.get(name, ProfileConfig(name=name))
            listed = None if discover else self._by_profile(name, True)
            known = self._profiled[name, discover] = Visibility(
                lambda tool: profile.shows(tool) and self.offers(tool),
                lambda tool: profile.shows(tool) and self.permits(tool),
                listed=listed,
                profile=profile,
            )
        return known

    def offers(self, tool: Tool) -> bool:
        """Whether the configuration offers this tool to anyone."""
        return self.visible(LOCAL, tool)

    def visible(self, principal: Principal, tool: Tool) -> bool:
        return not is_for_apps_only(tool.definition) and self.permits(tool)

    def permits(self, tool: Tool) -> bool:
        """Whether the patterns of the configuration include this tool, for models or for apps."""
        return tool.server in self._servers and not self._option_against(tool)

    def _option_against(self, tool: Tool) -> str:
        """The option of its server that excludes a tool; empty if none does."""
        server = self._servers.get(tool.server)
        if server is None:
            return ""
        name = tool.own_name or tool.name
        if _matches(name, server.denied_tools):
            return "denied_tools"
        return "" if _matches(name, server.allowed_tools) else "allowed_tools"

    def explain(self, name: str, listings: Mapping[str, Listing]) -> None:
        """Raises Denied if `name` is a tool that the configuration excludes."""
        for listing in listings.values():
            for tool in listing.tools:
                if tool.key == name and (option := self._option_against(tool)):
                    raise Denied(
                        f"'{tool.key}' may not be called: the configuration of server '{tool.server}' leaves it out.",
                        hint=f"Its option '{option}' decides.",
                        rule=f"servers.{tool.server}.{option}",
                    )


class Visibility:
    """What one kind of principal may see. Compared by identity: a policy creates one for each kind.

    `listed` is set for principals that may call tools by name but not look them up: it is what they would see if they
    could.
    """

    __slots__ = ("listed", "permits", "profile", "unrestricted", "visible")

    def __init__(
        self,
        visible: Callable[[Tool], bool],
        permits: Callable[[Tool], bool] | None = None,
        *,
        unrestricted: bool = False,
        listed: "Visibility | None" = None,
        profile: ProfileConfig | None = None,
    ) -> None:
        self.profile = profile
        self.visible = visible
        self.permits = permits or visible
        """Like `visible`, but includes tools for apps."""
        self.unrestricted = unrestricted
        """Whether `permits` is true for every tool, so that it need not be called."""
        self.listed = listed


def scope_hint(scope: str, subject: str) -> str:
    """The hint for a principal that may not look up `subject`."""
    return f"Looking for {subject} needs an API key with the scope '{scope}'."


def demand(principal: Principal, scope: str, doing: str = "this") -> None:
    """Raises Denied unless the principal has the scope; `doing` names the action."""
    if not principal.may(scope):
        raise Denied(
            f"Authentication failed: {doing} needs an API key with the scope '{scope}'.",
            hint=f"Make one with: wicket keys create NAME --scope {scope}.",
            rule=f"scope {scope}",
        )


@contextmanager
def discreet(principal: Principal, subject: str) -> Generator[None]:
    """Inside this context, an error about an unknown name suggests no names to a principal that may not look up
    `subject`.
    """
    try:
        yield
    except (UnknownName, AmbiguousName) as problem:
        if not principal.may("discover"):
            problem.hint = f"Looking for {subject} needs an API key with the scope 'discover'."
            if isinstance(problem, UnknownName):
                problem.near = ()
            else:
                problem.candidates = ()
        raise


def _matches(name: str, patterns: Collection[str]) -> bool:
    return "*" in patterns or any(fnmatchcase(name, pattern) for pattern in patterns)
