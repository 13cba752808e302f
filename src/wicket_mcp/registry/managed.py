"""Servers installed at run time: stored, started, stopped and removed, together with their tools.

Off unless the configuration sets `allow_runtime_servers`, because only this lets something other than the configuration
decide what is started. A configured server is never changed. The configuration can change at every await, so its
permission is checked again after each, right before a server is added or stored. Changes are made one at a time;
processes over one state follow the changes of each other (`restore`).
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from wicket_mcp.catalog.catalogue import Catalogue
from wicket_mcp.config.model.config import Config, ServerConfig
from wicket_mcp.errors import BadArguments, Denied, Unavailable, UnknownName
from wicket_mcp.model import JsonObject, Principal
from wicket_mcp.registry.install import InstallRequest, prepare
from wicket_mcp.spelling import nearest
from wicket_mcp.store.base import ListingStore, ManagedStore
from wicket_mcp.store.model import StoredManaged
from wicket_mcp.tasks import run_uninterrupted
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
    """Installs, starts, stops and removes servers at run time, and restores them at the next start."""

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
        self._running: dict[str, StoredManaged] = {}
        """The running installed servers, and those being tried, by name."""
        self._displaced: set[str] = set()
        """Those whose name the configuration has, since this was said."""
        self._changing = asyncio.Lock()

    @property
    def running(self) -> frozenset[str]:
        """Names of the installed servers that run now."""
        return frozenset(self._running)

    def use(self, config: Config) -> bool:
        """Apply another configuration, before the pool and the catalogue apply its servers.

        Servers that it forbids or replaces by name are dropped. Returns whether there is something to `restore`
        afterwards.
        """
        self._displaced.clear()
        before = self._allowed, self._configured
        self._allowed, self._configured = config.allow_runtime_servers, _names(config)
        for name in [name for name in self.running if not self._allowed or name.lower() in self._configured]:
            del self._running[name]
            self._pool.release(name)
            self._catalogue.remove(name)
        return before != (self._allowed, self._configured)

    async def restore(self) -> None:
        """Run what should run: what ran when the gateway ended, what a configuration had displaced, what another
        gateway has installed, and nothing that it has stopped or removed. Connects to nothing.
        """
        async with self._changing:
            if self._allowed:
                await self._restore(await self._store.managed_servers())

    async def _restore(self, servers: Sequence[StoredManaged]) -> None:
        creation_times = {stored.name: stored.created_at for stored in servers if stored.running}
        for running in list(self._running.values()):
            if creation_times.get(running.name) != running.created_at:
                await self._withdraw(running)
        for stored in servers:
            if not self._allowed:
                return
            if stored.name.lower() in self._configured:
                self._warn_of(stored.name)
            elif stored.running and stored.name not in self._running:
                self._add(stored)

    def _warn_of(self, name: str) -> None:
        if name not in self._displaced:
            self._displaced.add(name)
            log.warning("the installed server '%s' is not started: a configured server has the same name", name)

    def permit(self) -> None:
        """Raises Denied if the configuration does not allow installing servers."""
        if not self._allowed:
            raise Denied(
                "Servers cannot be installed or changed here.",
                hint="Set allow_runtime_servers = true in wicket.toml to allow it.",
            )

    async def plan(self, request: InstallRequest) -> ServerConfig:
        """How a server would be started; checks everything except whether its name is free."""
        self.permit()
        return await prepare(request, self._rules)

    async def install(self, request: InstallRequest, principal: Principal, *, start: bool) -> tuple[str, ...]:
        """Store a server and, with `start`, make its tools available at once; returns their names.

        Raises WicketError, and then nothing is stored.
        """
        config = await self.plan(request)
        async with self._changing:
            return await self._install(config, request, principal, start=start)

    async def _install(
        self, config: ServerConfig, request: InstallRequest, principal: Principal, *, start: bool
    ) -> tuple[str, ...]:
        known = {record.name.lower() for record in await self._store.managed_servers()}
        if request.name.lower() in known | self._taken_names:
            raise BadArguments(f"Server '{request.name}' already exists.", hint="Use control_mcp_server to manage it.")
        record = StoredManaged(request.name, request.kind, _options(config), start, principal.id, self._clock())
        if start:
            await self._try(record)
        else:
            self._permit_name(record.name)
        await self._store.save_managed(record)
        return self._tools(record.name)

    async def register(self, config: ServerConfig, principal: Principal) -> tuple[str, ...]:
        """Store a server that a client described, and make its tools available at once; returns their names.

        Raises WicketError, and then nothing is stored.
        """
        async with self._changing:
            return await self._register(config, principal)

    async def _register(self, config: ServerConfig, principal: Principal) -> tuple[str, ...]:
        self.permit()
        managed = await self._store.managed_servers()
        if config.name.lower() in {stored.name.lower() for stored in managed} | self._taken_names:
            raise BadArguments(f"Backend '{config.name}' already exists.", hint="Deregister it first, or rename it.")
        if sum(stored.kind == MANUAL for stored in managed) >= MOST_MANUALS:
            raise BadArguments(
                f"dynamic backend limit reached ({MOST_MANUALS}).", hint="Deregister one that is not needed."
            )
        if config.url is not None:
            self._rules.check_url(config.url)
        record = StoredManaged(config.name, MANUAL, _options(config), True, principal.id, self._clock())
        await self._try(record)
        await self._store.save_managed(record)
        return self._tools(record.name)

    async def deregister(self, name: str) -> str:
        """Remove a server that a client registered; returns its name. Raises BadArguments or UnknownName."""
        self.permit()
        if name.lower() in self._configured:
            raise BadArguments(
                f"backend '{name}' is a static (config-file) backend and cannot be deregistered.",
                hint="Remove it from the configuration.",
            )
        manuals = {
            stored.name.lower(): stored.name for stored in await self._store.managed_servers() if stored.kind == MANUAL
        }
        if name.lower() not in manuals:
            raise UnknownName("backend", name, nearest(name, manuals.values()), hint="It may have been removed.")
        await self.control(manuals[name.lower()], "remove")
        return manuals[name.lower()]

    async def control(self, name: str, action: Action) -> None:
        """Start, stop, restart or remove. Raises UnknownName, BadArguments, or Unavailable."""
        async with self._changing:
            await self._control(name, action)

    async def _control(self, name: str, action: Action) -> None:
        self.permit()
        stored = await self._find(name)
        if action != "remove":
            self._permit_name(stored.name)
        if action == "start" and stored.name in self._running:
            raise BadArguments(f"Server '{stored.name}' is already running.")
        if action == "stop" and stored.name not in self._running:
            raise BadArguments(f"Server '{stored.name}' is not running.")
        if stored.name in self._running:
            await self._withdraw(self._running[stored.name])
        if action == "remove":
            await self._forget(stored.name)
            return
        if action == "stop":
            await self._store.save_managed(replace(stored, running=False))
            return
        self._permit_name(stored.name)
        await self._store.save_managed(replace(stored, running=True))
        self._permit_name(stored.name)
        self._add(stored)
        await self._await_tools(stored.name)

    async def _forget(self, name: str) -> None:
        await self._store.drop_managed(name)
        if name.lower() not in self._configured:
            await self._listings.drop_listing(name)

    def _permit_name(self, name: str) -> None:
        """Raises Denied or BadArguments if the configuration does not allow a server of this name."""
        self.permit()
        if name.lower() in self._configured:
            raise BadArguments(
                f"The configuration has a server named '{name}', which stands in its place.",
                hint="Remove this one, or rename the configured one.",
            )

    async def list(self) -> list[ManagedServer]:
        return [self._status(stored) for stored in await self._store.managed_servers()]

    @property
    def _taken_names(self) -> frozenset[str]:
        """Names of servers that are configured, or being installed at the moment."""
        return self._configured | {name.lower() for name in self._running}

    async def _find(self, name: str) -> StoredManaged:
        known = {stored.name: stored for stored in await self._store.managed_servers()}
        match = known.get(name) or next((stored for key, stored in known.items() if key.lower() == name.lower()), None)
        if match is None:
            hint = "Use list_managed_servers to see available servers."
            raise UnknownName("server", name, nearest(name, known), hint=hint)
        return match

    def _add(self, stored: StoredManaged) -> None:
        config = _config(stored)
        self._pool.add(config, self._outside if config.url is not None else None)
        self._catalogue.add(config)
        self._running[stored.name] = stored

    async def _withdraw(self, stored: StoredManaged) -> None:
        """Remove a server, unless its name belongs to the configuration or another installation by now."""
        if self._running.get(stored.name) is stored:
            del self._running[stored.name]
            self._catalogue.remove(stored.name)
            await self._pool.remove(stored.name)

    async def _try(self, stored: StoredManaged) -> None:
        """Start a server that is not stored yet; when this returns it runs, and may be stored.

        A server that fails, that the configuration forbids, or whose installation was cancelled is removed completely.
        """
        self._permit_name(stored.name)
        self._add(stored)
        try:
            await self._await_tools(stored.name)
            self._permit_name(stored.name)
            if self._running.get(stored.name) is not stored:
                raise Unavailable(
                    stored.name, f"Server '{stored.name}' was removed while it was starting.", hint=_AGAIN
                )
        except BaseException:
            await run_uninterrupted(self._withdraw(stored))
            raise

    async def _await_tools(self, name: str) -> None:
        await self._catalogue.renew(name)
        problem = self._catalogue.failures.get(name)
        if problem is not None:
            raise Unavailable(name, f"Server '{name}' did not start: {problem}")

    def _tools(self, name: str) -> tuple[str, ...]:
        return tuple(tool.name for tool in self._catalogue.now.by_server.get(name, ()))

    def _status(self, stored: StoredManaged) -> ManagedServer:
        endpoint = stored.options.get("url") or "stdio"
        if stored.name not in self._running:
            return ManagedServer(stored.name, stored.kind, "stopped", (), endpoint)
        problem = self._catalogue.failures.get(stored.name, "")
        status = "error" if problem else "running"
        return ManagedServer(stored.name, stored.kind, status, self._tools(stored.name), endpoint, problem)


def _names(config: Config) -> frozenset[str]:
    """Names that cannot be installed over, in any spelling, including disabled servers, which may be enabled again."""
    return frozenset(server.name.lower() for server in config.servers)


def _options(config: ServerConfig) -> JsonObject:
    values: dict[str, Any] = msgspec.structs.asdict(config)
    plain = ServerConfig(name=config.name, command=config.command, url=config.url)
    default: dict[str, Any] = msgspec.structs.asdict(plain)
    changed = {key: value for key, value in values.items() if value != default[key]}
    return {**changed, **{key: values[key] for key in ("command", "url") if values[key] is not None}}


def _config(stored: StoredManaged) -> ServerConfig:
    return msgspec.convert({**stored.options, "name": stored.name}, ServerConfig)
