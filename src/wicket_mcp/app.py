"""The composition root: the live parts of a gateway, the rooms of its current configuration, its start and its end.

The rooms (`rooms.py`) are immutable and rebuilt for each configuration; connections, catalogue, store, running scripts
and watches continue. `Gateway` is also the library's public class.
"""

import asyncio
import logging
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wicket_mcp.calls.audit import Audit
from wicket_mcp.calls.cache import Cache
from wicket_mcp.calls.limits import ServerBuckets
from wicket_mcp.calls.profile_budgets import ProfileBudgets
from wicket_mcp.calls.watches import Watches
from wicket_mcp.catalog.change_notices import ChangeNotices
from wicket_mcp.catalog.failures import FIRST_ANSWER
from wicket_mcp.catalog.snapshot import Snapshot, changed_tools
from wicket_mcp.config.model.config import Config
from wicket_mcp.config.read.formats import load
from wicket_mcp.errors import ConfigError, WicketError
from wicket_mcp.extensions import unknown
from wicket_mcp.following import follow
from wicket_mcp.identity.wrapping import wrapping
from wicket_mcp.library import Library
from wicket_mcp.model import (
    API_KEY_PREFIX,
    LOCAL,
    Changed,
    Hit,
    JsonObject,
    Principal,
    ServerStatus,
    Silent,
    Tool,
    as_object,
)
from wicket_mcp.reload import staying, watch
from wicket_mcp.request import tool_call
from wicket_mcp.results.storage import ResultStorage
from wicket_mcp.rooms import Live, build, check, visible_options
from wicket_mcp.scripting import Scripting
from wicket_mcp.spelling import count_of
from wicket_mcp.store.audit_file import AuditFile
from wicket_mcp.store.base import Store
from wicket_mcp.store.open import open_state
from wicket_mcp.surface.feed import Announcement, Feed
from wicket_mcp.surface.held_calls import HeldCalls, Seal
from wicket_mcp.surface.local_tasks import LocalTasks
from wicket_mcp.surface.outbox import Counters
from wicket_mcp.surface.protocol import Protocol, Serving
from wicket_mcp.tasks import Tasks
from wicket_mcp.trust.memory import Memory
from wicket_mcp.trust.policy import demand
from wicket_mcp.upstream.events import UpstreamEvent
from wicket_mcp.upstream.pool import ROOTS_WITHHELD
from wicket_mcp.verbs import Verbs

if TYPE_CHECKING:
    from socket import socket

    from wicket_mcp.registry.facade import RegistryFacade
    from wicket_mcp.telemetry.trace import Tracing

log = logging.getLogger(__name__)

_PATHS = frozenset({"path", "paths", "file", "file_path", "directory", "folder", "repo_path", "root", "cwd"})
AFTER_START = 1.0  # seconds before background work that no client waits for


class Gateway(Library):
    """A running gateway. Open it with `Gateway.open(...)`."""

    def __init__(self, config: Config, store: Store) -> None:
        check(config)
        super().__init__(config, store)
        self.feed = Feed()
        self._notices = ChangeNotices()
        self.scripting = Scripting(config.scripts)
        self.watches = Watches(self.pool)
        self.audit_file = AuditFile(config)
        self.audit = Audit(self.store.record_call)
        self.audit.reconfigure(config)
        self.audit.listen(self.audit_file.record)
        self.audit.listen(self.finder.hear)
        self.tracing = _open_tracing(config)
        self.outbox_counters = Counters()
        self.held = HeldCalls(Seal(self.ring), self.outbox_counters)
        self.local_tasks = LocalTasks(self.store)
        self.tasks = Tasks()
        self.on_reload: list[Callable[[Config], None]] = [
            self.scripting.reconfigure,
            self.finder.reconfigure,
            self.audit_file.reconfigure,
            self.audit.reconfigure,
            self.accounts.reconfigure,
        ]
        """The live parts that apply every new configuration, in this order."""
        self.on_event: list[Callable[[UpstreamEvent], None]] = []
        """Further listeners for unsolicited messages of servers."""
        self._facade: RegistryFacade | None = None
        self._serving = Serving()
        self._attending = False
        self.buckets = ServerBuckets(shared=store.shared_limits)
        self.results = ResultStorage(store)
        live = Live(
            self,
            self.scripting,
            self.watches,
            self.audit,
            Cache(),
            self.buckets,
            self.results,
            self._admit,
            self._give_back,
            Memory(),
            ProfileBudgets(self.store),
            {},
            lambda: self.registry,
            self.tracing,
        )
        self._rooms = build(config, live)
        self.catalogue.watch(self._publish_changes)
        self._stop_following = follow(self)
        self.accounts.tell(self._take_account, self.audit.act_on)

    @property
    def verbs(self) -> Verbs:
        return self._rooms.verbs

    @property
    def lost_records(self) -> int:
        """Audit records that could not be stored."""
        return self.store.lost_records + self.audit_file.lost

    def __repr__(self) -> str:
        return f"<Gateway {len(self.catalogue.servers)} servers, {self.pool!r}>"

    @classmethod
    @asynccontextmanager
    async def open(
        cls, source: "Config | Mapping[str, Any] | str | Path", *, api_key: str | None = None
    ) -> AsyncGenerator["Gateway"]:
        """A gateway for a configuration file, a `Config`, or the content of a file as a mapping.

        With `api_key`, its methods act for the holder of the key, otherwise for the owner.
        """
        config = read_config(source)
        check(config)
        store = await open_state(config)
        try:
            async with cls(config, store)._running(api_key) as gateway:
                yield gateway
        finally:
            await store.close()

    @asynccontextmanager
    async def _running(self, api_key: str | None) -> AsyncGenerator["Gateway"]:
        try:
            if api_key is not None:
                self.principal = await self._holder(api_key)
            if self.config.store is not None and (keys := await wrapping(self.config).keys()):
                self.ring.use(keys)  # which all replicas have, unlike our state folder
            await self.follow_installed()
            for server in self.catalogue.servers.values():
                if server.start == "eager":
                    self.tasks.start(self._start_eagerly(server.name), f"start {server.name}")
            yield self
        finally:
            await self.close()

    @property
    def registry(self) -> "RegistryFacade":
        """The registry of servers. Created on demand: a plain gateway does not need it."""
        if self._facade is None:
            from wicket_mcp.registry.facade import RegistryFacade

            self._facade = RegistryFacade(
                self.config,
                self.store,
                self.pool,
                self.catalogue,
                self.forward,
                lambda: self._rooms.pipeline.guard,
                pinned=lambda: bool(self.config.favourites),
                act=self.audit.act,
                act_on=self.audit.act_on,
                on_holder=self._hand_over,
            )
        return self._facade

    def _hand_over(self, owner: str, earlier: str) -> None:
        """`owner` has a name now that was another key's: nothing that was kept for `earlier` is used any more."""
        self.catalogue.hand_over(owner)
        if earlier:
            self.accounts.disown(self.catalogue.servers.values(), earlier)
            for server in [config.name for config in self.catalogue.servers.values() if config.is_per_user]:
                self.tasks.start(self.pool.renounce(server, earlier), f"end what {server} did for {earlier}")

    async def follow_installed(self) -> None:
        """Run the servers that are installed now, by any process, if that is allowed."""
        if self.config.allow_runtime_servers:
            await self.registry.managed.restore()

    # The library

    async def servers(self) -> list[ServerStatus]:
        demand(self.principal, "discover", "listing servers")
        return await self.verbs.servers(self.principal, connect=True)

    async def tools(self, server: str | None = None) -> tuple[Tool, ...]:
        demand(self.principal, "discover", "listing tools")
        return await self.verbs.tools(self.principal, server)

    async def search(self, query: str, limit: int = 5) -> tuple[Hit, ...]:
        return (await self.verbs.search(query, principal=self.principal, limit=limit)).hits

    async def call(self, name: str, arguments: Mapping[str, Any] | None = None) -> JsonObject:
        """The upstream's result, complete and unchanged. Raises WicketError if there is none."""
        return (await self.verbs.call(tool_call(name, dict(arguments or {}), Silent(self.principal), whole=True))).body

    # Serving

    def apply(self, config: Config) -> None:
        """Apply another configuration: build its rooms, swap them, and let calls in flight finish with the old ones.

        Raises ConfigError if it cannot be used, and then nothing has changed. Servers that were added at run time stay,
        unless the configuration has one of the same name or allows none.
        """
        rooms = build(staying(self.config, config), self._rooms.live)
        served = {names: rooms.serve(names) for names in {*self._serving.now, ()}}
        if self._facade is not None:
            self._facade.reconfigure(config)
        old, self._rooms = self.config, rooms
        self.reconfigure(rooms.config)
        self._swap_servers(old, config)
        self._serving.replace(served)
        for reconfigure in self.on_reload:
            reconfigure(self.config)
        if visible_options(old) != visible_options(config):
            self.feed.publish(["menu"])
        self.feed.publish(["groups"])
        if old.unprefixed != config.unprefixed:  # every address and name changes
            self.feed.publish(["tools", "resources", "prompts"])
        if self._attending:
            self._probe()
        summary = f"{count_of(len(self.catalogue.servers), 'server')}, dialects {', '.join(config.dialects)}"
        self.audit.act("gateway", "reload configuration", summary)
        log.info("the configuration was reloaded: %s", summary)

    def _swap_servers(self, old: Config, new: Config) -> None:
        configured = {server.name for server in (*old.servers, *new.servers)}
        added = [server for name, server in self.catalogue.servers.items() if name not in configured]
        servers = (*new.servers, *added) if new.allow_runtime_servers else new.servers
        before, limits = self.catalogue.servers, new.limits
        leaving = self.pool.swap(servers, max_message=limits.max_message, max_call=limits.max_call)
        self.catalogue.swap(servers, new.aliases, limits, new.profiles)
        for upstream in leaving:
            name = upstream.config.name
            self.tasks.start(upstream.retire(), f"retire {name}")
            if upstream.watched and name in self.catalogue.servers:
                self.tasks.start(self._follow(name, upstream.session, upstream.principal), f"watch resources of {name}")
        for server in self.catalogue.servers.values():
            if server.start == "eager" and server != before.get(server.name):
                self.tasks.start(self._start_eagerly(server.name), f"start {server.name}")
        if new.allow_runtime_servers and self._facade is None:
            self.tasks.start(self.registry.managed.restore(), "restore installed servers")

    def protocol(self, *names: str, transport: str = "pipe") -> Protocol:
        """The MCP methods over the dialects of these names; without names, over the configured ones."""
        self._serving.replace({**self._serving.now, names: self._rooms.serve(names)})
        trace = self.tracing.server(transport) if self.tracing else None
        return Protocol(self._serving, names, self.feed, self.held, self.local_tasks, trace=trace)

    async def instructions(self, *dialects: str) -> str:
        """The capability index for clients."""
        return await self._rooms.instructions(dialects)

    async def serve_stdio(self, stop: asyncio.Event, *dialects: str) -> None:
        """Serve one client over stdin and stdout, until it disconnects or `stop` is set."""
        from wicket_mcp.surface.stdio import serve_stdio

        self.attend()
        protocol, principal = await self.admit_client(os.environ, *dialects)
        began = time.monotonic()
        await serve_stdio(protocol, stop, principal, self.outbox_counters)
        if self.tracing is not None:
            self.tracing.end_session(time.monotonic() - began)

    async def admit_client(self, environ: Mapping[str, str], *dialects: str) -> tuple[Protocol, Principal]:
        """What a client on stdio is served, and its principal by its environment. Raises ConfigError."""
        known = await self._principal(environ)

        async def check() -> None:
            if await self._principal(environ) != known:
                raise ConfigError("The rights of your API key have changed.", hint="Connect again.")

        protocol = replace(self.protocol(*dialects), check=None if known is LOCAL else check)
        return protocol, protocol.served.admit(known, "")

    async def serve_http(
        self,
        stop: asyncio.Event,
        *dialects: str,
        token: str | None,
        on_ready: Callable[[str], None],
        listener: "socket | None" = None,
        workers: Path | None = None,
        metrics: tuple[str, int] | None = None,
    ) -> None:
        """Serve over HTTP until `stop` is set; then finish the calls in flight. `on_ready` is called with our address.

        With a `listener`, on that socket, otherwise on the configured address. `workers` and `metrics`: see
        `serving.py`.
        """
        from wicket_mcp.serving import serve_http

        await serve_http(self, stop, dialects, token, on_ready, listener, workers, metrics)

    async def _principal(self, environ: Mapping[str, str]) -> Principal:
        """The principal of a client on stdio: the gateway's owner, or the holder of the API key it was started with."""
        key = environ.get("WICKET_API_KEY") or environ.get("MCPLOOKUP_API_KEY", "")
        if not key.startswith(API_KEY_PREFIX) and not environ.get("WICKET_API_KEY"):
            return LOCAL  # a key of another service is not ours to check
        return await self._holder(key)

    async def act_for_key(self) -> None:
        """Act for the holder of WICKET_API_KEY from now on, if it is set. Raises ConfigError."""
        self.principal = await self._principal(os.environ)

    async def _holder(self, key: str) -> Principal:
        """The holder of an API key. Raises ConfigError."""
        principal = await self.registry.keys.principal(key)
        if principal is None:
            raise ConfigError(
                "Authentication failed: the API key is unknown, expired or revoked",
                hint="Make one with: wicket keys create NAME. WICKET_API_KEY is where it is read from.",
            )
        return self.place(principal)

    def place(self, principal: Principal) -> Principal:
        """The principal with the profile that it is bound to; every surface does this where it makes one."""
        return self.catalogue.now.policy.place(principal)

    def _admit(self, principal: Principal, kind: str) -> Awaitable[None] | None:
        """Count a request against the limit of its API key."""
        keys = self.registry.keys
        return keys.take(principal, kind) if keys.allowance(principal, kind) else None

    async def _give_back(self, principal: Principal, kind: str) -> None:
        await self.registry.keys.give_back(principal, kind)

    def attend(self) -> None:
        """Start the background work beside serving."""
        self._attending = True
        self.accounts.stay()
        self.catalogue.answer_within(FIRST_ANSWER)
        self._probe()
        if self.config.path is not None:
            self.tasks.start(watch(self.config.path, lambda: self.config, self.apply), "watch configuration")
        self.tasks.start(self._prepare(), "prepare for what may come")

    async def _prepare(self) -> None:
        await asyncio.sleep(AFTER_START)
        from wicket_mcp.heap import give_back_when_idle  # loads ctypes

        self.tasks.start(give_back_when_idle(lambda: not self.pool.calls), "give back memory")
        await self.scripting.announce()
        await self.finder.resume()

    def _probe(self) -> None:
        if self._facade is not None:
            self._facade.probes.start()

    async def _follow(self, server: str, session: str, principal: Principal) -> None:
        """Connect again if resources are watched: the new connection subscribes to them."""
        with suppress(WicketError):  # it subscribes when it does connect
            await self.pool.start(server, session, principal)

    def _take_account(self, server: str, owner: str) -> None:
        """A user signed in or out: drop the old connections, and list the server again."""
        self.tasks.start(self._reconnect(server, owner), f"account at {server}")

    async def _reconnect(self, server: str, owner: str) -> None:
        if server in self.catalogue.servers:
            account = Principal(owner)  # only who it is matters here
            await asyncio.gather(self.pool.renounce(server, owner), self.catalogue.renew(server, account))

    async def _start_eagerly(self, server: str) -> None:
        await self.catalogue.renew(server)

    def _on_event(self, event: UpstreamEvent) -> None:
        if event.method == ROOTS_WITHHELD:
            if any(map(_takes_paths, self.catalogue.now.by_server.get(event.server, ()))):
                words = f"{event.server} is shared by clients, so it does not get the folders that a client has open"
                log.warning('%s; isolation = "session" gives each client one of its own', words)
                self.audit.act("gateway", ROOTS_WITHHELD, words)
            return
        if event.method == "notifications/message":
            self.audit.hear(event.server, event.params["level"], event.params["data"])
            return
        if event.audience is not None:
            self._announce(event, event.audience)
        else:
            if event.method.endswith("/list_changed"):
                config = self.pool.config(event.server)
                self._notices.hear(event, shared=not event.session and config is not None and not config.is_per_user)
            super()._on_event(event)
            self.watches.hear(event)
        for hear in self.on_event:
            hear(event)
        if self.tracing is not None:
            self.tracing.hear(event.method, (event.server, event.session, event.principal.id))

    def _announce(self, event: UpstreamEvent, audience: str) -> None:
        """Tell clients that declare an extension of the server what it says by it."""
        listing, config = self.catalogue.now.listings.get(event.server), self.pool.config(event.server)
        extensions = frozenset(unknown(listing.capabilities)) if listing is not None else frozenset[str]()
        if extensions and config is not None:
            owner = audience or (event.principal.id if config.is_per_user else "")
            self.feed.announce(Announcement(event.server, event.session, owner, extensions, event.method, event.params))

    def _publish_changes(self, old: Snapshot, new: Snapshot) -> None:
        kinds: list[Changed] = []
        accounts = [[listing.accounts for listing in snapshot.listings.values()] for snapshot in (old, new)]
        if accounts[0] != accounts[1] or _definitions(old) != _definitions(new):
            kinds.append("tools")
        for kind in ("resources", "prompts"):
            before, after = (
                [
                    (name, item)
                    for name, listing in snapshot.listings.items()
                    for item in (*getattr(listing, kind), *listing.fields.get(kind, ()))
                ]
                for snapshot in (old, new)
            )
            if before != after:
                kinds.append(kind)
        read = [name for name, listing in new.listings.items() if listing is not old.listings.get(name)]
        notices = self._notices.take(read)
        self.feed.publish([*kinds, *(notice.kind for notice in notices)], notices)
        for server, listing in new.listings.items():
            before = old.listings.get(server)
            if before is not None and (names := changed_tools(before.tools, listing.tools)):
                self.audit.act("gateway", "tools changed", f"{server}: {', '.join(names)}", server=server)

    async def close(self) -> None:
        self._stop_following()
        await self.tasks.close()
        await self.local_tasks.close()
        await self.held.close()
        await self.scripting.close()
        if self._facade is not None:
            await self._facade.close()
        self.audit.flush()
        await self.audit_file.close()
        await super().close()
        if self.tracing is not None:  # last, so that it records the end of every connection
            await self.tracing.close()


def _takes_paths(tool: Tool) -> bool:
    """Whether a tool works on files: its server may need a client's roots."""
    return not _PATHS.isdisjoint(as_object(tool.input_schema.get("properties")))


def _definitions(snapshot: Snapshot) -> list[JsonObject]:
    return [tool.definition for tool in snapshot.tools]


def _open_tracing(config: Config) -> "Tracing | None":
    options = config.trace
    if options.endpoint is None:
        return None
    from wicket_mcp.telemetry.trace import Tracing  # for those who export

    return Tracing(options.endpoint, percent=options.percent, content=options.content)


def read_config(source: Config | Mapping[str, Any] | str | Path) -> Config:
    if isinstance(source, Config):
        return source
    return Config.from_dict(source) if isinstance(source, Mapping) else load(Path(source))
