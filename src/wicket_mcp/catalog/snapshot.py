"""The catalogue at one moment, and the views that are created from it on demand.

Created only by `Catalogue`, whenever a listing or the configuration changed. Knows neither connections nor the store.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from wicket_mcp.catalog.names import NameIndex
from wicket_mcp.catalog.shares import shares_of
from wicket_mcp.catalog.view import Shares, Unlisted, View
from wicket_mcp.config.model.config import ServerConfig
from wicket_mcp.model import LOCAL, Listing, Principal, Tool
from wicket_mcp.trust.policy import Policy, Visibility

Seen: TypeAlias = tuple[Visibility, Shares]
"""Principals with the same value see the same."""
MOST_SEEING = 1000  # principals whose view is cached


@dataclass(frozen=True)
class Snapshot:
    """The catalogue at one moment: everything that is known. What a principal may see of it is a `View`."""

    version: int
    listings: Mapping[str, Listing]
    servers: Mapping[str, ServerConfig] = field(repr=False)
    aliases: Mapping[str, str] = field(repr=False)
    failures: Mapping[str, str] = field(repr=False)
    """The current failures, not those at the time of the snapshot: a failure changes no name."""
    policy: Policy = field(repr=False)
    _views: dict[Seen, View] = field(default_factory=dict[Seen, View], init=False, repr=False)

    seen_by: dict[Principal, View] = field(default_factory=dict[Principal, View], init=False, repr=False)
    """The views of recent principals."""

    def view(self, principal: Principal) -> View:
        """What `principal` may see; principals that may see the same share a view."""
        if len(self.seen_by) >= MOST_SEEING:
            self.seen_by.clear()
        self.seen_by[principal] = view = self._view(principal)
        return view

    def _view(self, principal: Principal) -> View:
        visibility, shares = self.policy.visibility(principal), shares_of(self._personal, principal.id)
        view = self._views.get((visibility, shares))
        if view is None:
            view = self._views[visibility, shares] = self._make_view(visibility, shares)
        return view

    @cached_property
    def _personal(self) -> Mapping[str, Listing]:
        """The listings that are not the same for everyone."""
        return {server: listing for server, listing in self.listings.items() if listing.accounts}

    def _make_view(self, visibility: Visibility, shares: Shares) -> View:
        if visibility.listed is None:
            return View(self, visibility, shares)
        whole = self._views.get((visibility.listed, shares))
        if whole is None:
            whole = self._views[visibility.listed, shares] = View(self, visibility.listed, shares)
        return Unlisted(self, visibility, whole)

    def find_hidden(self, name: str, principal: Principal) -> tuple[Tool, str] | None:
        """The tool of this name that an option keeps from `principal`, and the option."""
        for tool in self._every.find(self.aliases.get(name, name)):
            if rule := self.policy.rule_against(principal, tool):
                return tool, rule
        return None

    @cached_property
    def _every(self) -> NameIndex:
        """The names of all tools, whoever may see them."""
        return NameIndex(tool for listing in self.listings.values() for tool in listing.tools)

    @property
    def tools(self) -> tuple[Tool, ...]:
        return self.view(LOCAL).tools

    @property
    def by_server(self) -> Mapping[str, tuple[Tool, ...]]:
        return self.view(LOCAL).by_server

    @property
    def wire(self) -> Mapping[str, Tool]:
        return self.view(LOCAL).wire


def changed_tools(before: tuple[Tool, ...], after: tuple[Tool, ...]) -> list[str]:
    """The names of tools that were added, changed or removed."""
    if before is after:
        return []
    old, new = ({(tool.name, tool.variant): tool.definition for tool in tools} for tools in (before, after))
    return sorted({key[0] for key in old.keys() | new.keys() if old.get(key) != new.get(key)})
