"""Servers installed while the gateway runs: kept, started, stopped and removed; their tools come and go with them.

Off unless the configuration says `allow_runtime_servers`, because it is the only way in which somebody other than
the configuration decides what is started. A server of the configuration is never touched. The configuration can change
at every await: what it allows is looked up again behind each, right before a server is added or kept.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from wicket_mcp.catalog.catalogue import Catalogue
from wicket_mcp.config.model.config import Config, ServerConfig
from wicket_mcp.errors import BadArguments, Denied, Unavailable, UnknownName
from wicket_mcp.model import JsonObject, Principal
from wicket_mcp.registry.install import Wanted, prepared
from wicket_mcp.spelling import nearest
from wicket_mcp.store.base import ListingStore, ManagedStore
from wicket_mcp.store.model import StoredManaged
from wicket_mcp.tasks import uninterrupted
from wicket_mcp.upstream.egress import HttpClient
from wicket_mcp.upstream.egress_rules import EgressRules
from wicket_mcp.upstream.pool import Pool

log = logging.getLogger(__name__)

MANUAL = "manual"
MOST_MANUALS = 10
_AGAIN = "The configuration changed; try once more."

Action: TypeAlias = Literal["start", "stop", "restart", "remove"]


@dataclass(frozen=True, slots=True)
class ManagedServer:
    """One line of `list_managed_servers`."""

    name: str
    kind: str
    status: Literal["running", "stopped", "error"]
    tools: tuple[str, ...]
    endpoint: str
    problem: str = ""


class Managed:
    """Installs, starts, stops and removes servers at runtime, and restores them at the next start."""

    def __init__(
        self,
        store: ManagedStore,
        listings: ListingStore,
        pool: Pool,
        catalogue: Catalogue,
        outside: HttpClient,
        rules: EgressRules,
        config: Config,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._listings = listings
        self._pool = pool
        self._catalogue = catalogue
        self._outside = outside
        self._rules = rules
        self._clock = clock
        self._allowed = config.allow_runtime_servers
        self._configured = _names(config)
        self._ours: dict[str, StoredManaged] = {}
        """The installed servers that run now, and those being tried, by name."""

    @property
    def running(self) -> frozenset[str]:
        """Names of the installed servers that run now."""
        return frozenset(self._ours)

    def use(self, config: Config) -> bool:
        """Obey another configuration, before the pool and the catalogue take up its servers.

        What it forbids, or has a server of the same name for, is ours no more. Says whether there is something to
        `restore` when they did.
        """
        before = self._allowed, self._configured
        self._allowed, self._configured = config.allow_runtime_servers, _names(config)
        for name in [name for name in self.running if not self._allowed or name.lower() in self._configured]:
            del self._ours[name]
            self._pool.release(name)
            self._catalogue.remove(name)
        return before != (self._allowed, self._configured)

    async def restore(self) -> None:
        """Bring back what ran when the gateway ended, or when a configuration got in its way. Connects to nothing."""
        if not self._allowed:
            return
        for kept in await self._store.managed():
            if not self._allowed:
                return
            if kept.name.lower() in self._configured:
                log.warning("the installed server '%s' gives way to the configured one of that name", kept.name)
            elif kept.running and kept.name not in self._ours:
                self._add(kept)

    def permit(self) -> None:
        """Raises Denied when the configuration does not let servers be installed."""
        if not self._allowed:
            raise Denied(
                "Servers cannot be installed or changed here.",
                hint="Set allow_runtime_servers = true in wicket.toml to allow it.",
            )

    async def plan(self, wanted: Wanted) -> ServerConfig:
        """How a server would be started; checks everything but whether its name is free."""
        self.permit()
        return await prepared(wanted, self._rules)

    async def install(self, wanted: Wanted, principal: Principal, *, start: bool) -> tuple[str, ...]:
        """Keep a server and, with `start`, have its tools at once; their names.

        Raises WicketError; then nothing is kept.
        """
        config = await self.plan(wanted)
        known = {kept.name.lower() for kept in await self._store.managed()}
        if wanted.name.lower() in known | self._taken:
            raise BadArguments(f"Server '{wanted.name}' already exists.", hint="Use control_mcp_server to manage it.")
        kept = StoredManaged(wanted.name, wanted.kind, _options(config), start, principal.name, self._clock())
        if start:
            await self._try(kept)
        else:
            self._permit_name(kept.name)
        await self._store.save_managed(kept)
        return self._tools(kept.name)

    async def register(self, config: ServerConfig, principal: Principal) -> tuple[str, ...]:
        """Keep a server that a client described itself, and have its tools at once; their names.

        Raises WicketError; then nothing is kept.
        """
        self.permit()
        kept = await self._store.managed()
        if config.name.lower() in {one.name.lower() for one in kept} | self._taken:
            raise BadArguments(f"Backend '{config.name}' already exists.", hint="Deregister it first, or rename it.")
        if sum(one.kind == MANUAL for one in kept) >= MOST_MANUALS:
            raise BadArguments(
                f"dynamic backend limit reached ({MOST_MANUALS}).", hint="Deregister one that is not needed."
            )
        if config.url is not None:
            self._rules.check_url(config.url)
        made = StoredManaged(config.name, MANUAL, _options(config), True, principal.name, self._clock())
        await self._try(made)
        await self._store.save_managed(made)
        return self._tools(made.name)

    async def deregister(self, name: str) -> str:
        """Remove a server that was registered by a client; its name. Raises BadArguments or UnknownName."""
        self.permit()
        if name.lower() in self._configured:
            raise BadArguments(
                f"backend '{name}' is a static (config-file) backend and cannot be deregistered.",
                hint="Remove it from the configuration.",
            )
        manuals = {one.name.lower(): one.name for one in await self._store.managed() if one.kind == MANUAL}
        if name.lower() not in manuals:
            raise UnknownName("backend", name, nearest(name, manuals.values()), hint="It may have been removed.")
        await self.control(manuals[name.lower()], "remove")
        return manuals[name.lower()]

    async def control(self, name: str, action: Action) -> None:
        """Start, stop, restart or remove. Raises UnknownName, BadArguments, or Unavailable."""
        self.permit()
        kept = await self._find(name)
        if action != "remove":
            self._permit_name(kept.name)
        if action == "start" and kept.name in self._ours:
            raise BadArguments(f"Server '{kept.name}' is already running.")
        if action == "stop" and kept.name not in self._ours:
            raise BadArguments(f"Server '{kept.name}' is not running.")
        if kept.name in self._ours:
            await self._withdraw(self._ours[kept.name])
        if action == "remove":
            await self._forget(kept.name)
            return
        if action == "stop":
            await self._store.save_managed(replace(kept, running=False))
            return
        self._permit_name(kept.name)
        await self._store.save_managed(replace(kept, running=True))
        self._permit_name(kept.name)
        self._add(kept)
        await self._await_tools(kept.name)

    async def _forget(self, name: str) -> None:
        await self._store.drop_managed(name)
        if name.lower() not in self._configured:
            await self._listings.drop_listing(name)

    def _permit_name(self, name: str) -> None:
        """Raises Denied or BadArguments where the configuration does not let us have a server of this name."""
        self.permit()
        if name.lower() in self._configured:
            raise BadArguments(
                f"The configuration has a server named '{name}', which stands in its place.",
                hint="Remove this one, or rename the configured one.",
            )

    async def list(self) -> list[ManagedServer]:
        return [self._status(kept) for kept in await self._store.managed()]

    @property
    def _taken(self) -> frozenset[str]:
        """Names of servers that are configured, or being installed by somebody else just now."""
        return self._configured | {name.lower() for name in self._ours}

    async def _find(self, name: str) -> StoredManaged:
        known = {kept.name: kept for kept in await self._store.managed()}
        found = known.get(name) or next((kept for key, kept in known.items() if key.lower() == name.lower()), None)
        if found is None:
            hint = "Use list_managed_servers to see available servers."
            raise UnknownName("server", name, nearest(name, known), hint=hint)
        return found

    def _add(self, kept: StoredManaged) -> None:
        config = _config(kept)
        self._pool.add(config, self._outside if config.url is not None else None)
        self._catalogue.add(config)
        self._ours[kept.name] = kept

    async def _withdraw(self, kept: StoredManaged) -> None:
        """Take a server out, unless its name is the configuration's or somebody else's by now."""
        if self._ours.get(kept.name) is kept:
            del self._ours[kept.name]
            self._catalogue.remove(kept.name)
            await self._pool.remove(kept.name)

    async def _try(self, kept: StoredManaged) -> None:
        """Start a server that is not kept yet; when this returns it runs, and may be kept.

        Nothing is left of one that fails, that the configuration forbids, or that nobody waits for any more.
        """
        self._permit_name(kept.name)
        self._add(kept)
        try:
            await self._await_tools(kept.name)
            self._permit_name(kept.name)
            if self._ours.get(kept.name) is not kept:
                raise Unavailable(kept.name, f"Server '{kept.name}' was removed while it was starting.", hint=_AGAIN)
        except BaseException:
            await uninterrupted(self._withdraw(kept))
            raise

    async def _await_tools(self, name: str) -> None:
        await self._catalogue.renew(name)
        problem = self._catalogue.failures.get(name)
        if problem is not None:
            raise Unavailable(name, f"Server '{name}' did not start: {problem}")

    def _tools(self, name: str) -> tuple[str, ...]:
        return tuple(tool.name for tool in self._catalogue.now.by_server.get(name, ()))

    def _status(self, kept: StoredManaged) -> ManagedServer:
        endpoint = kept.options.get("url") or "stdio"
        if kept.name not in self._ours:
            return ManagedServer(kept.name, kept.kind, "stopped", (), endpoint)
        problem = self._catalogue.failures.get(kept.name, "")
        status = "error" if problem else "running"
        return ManagedServer(kept.name, kept.kind, status, self._tools(kept.name), endpoint, problem)


def _names(config: Config) -> frozenset[str]:
    """What nothing can be installed over, in any spelling; disabled servers too, which may be enabled again."""
    return frozenset(server.name.lower() for server in config.servers)


def _options(config: ServerConfig) -> JsonObject:
    given: dict[str, Any] = msgspec.structs.asdict(config)
    plain = ServerConfig(name=config.name, command=config.command, url=config.url)
    default: dict[str, Any] = msgspec.structs.asdict(plain)
    kept = {key: value for key, value in given.items() if value != default[key]}
    return {**kept, **{key: given[key] for key in ("command", "url") if given[key] is not None}}


def _config(kept: StoredManaged) -> ServerConfig:
    return msgspec.convert({**kept.options, "name": kept.name}, ServerConfig)
