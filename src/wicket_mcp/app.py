"""The composition root: builds the rooms from a configuration, wires them, and ends them in order.

The only module that knows every room. `Gateway` is also the library's door.
"""

import asyncio
import hashlib
import logging
import os
import secrets
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, closing, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wicket_mcp.calls.cache import Cache
from wicket_mcp.calls.limits import ServerBuckets
from wicket_mcp.calls.pipeline import Parts, Pipeline
from wicket_mcp.calls.watches import Watches
from wicket_mcp.catalog.addresses import Addresses
from wicket_mcp.catalog.catalogue import Snapshot, fingerprint
from wicket_mcp.catalog.instructions import instructions
from wicket_mcp.codec import encode
from wicket_mcp.config.model.config import Config, RegistryConfig
from wicket_mcp.config.read.formats import load
from wicket_mcp.dialects import factory
from wicket_mcp.errors import ConfigError, WicketError
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
)
from wicket_mcp.reload import staying, watch
from wicket_mcp.request import tool_call
from wicket_mcp.results.results import Results
from wicket_mcp.scripting import Scripting
from wicket_mcp.store.base import Store
from wicket_mcp.store.open import STATE_FILE, open_store
from wicket_mcp.surface.feed import Feed
from wicket_mcp.surface.held_calls import HeldCalls, Seal
from wicket_mcp.surface.outbox import Counters
from wicket_mcp.surface.protocol import Protocol
from wicket_mcp.tasks import Tasks
from wicket_mcp.trust.policy import demand
from wicket_mcp.upstream.supervisor import UpstreamEvent
from wicket_mcp.verbs import Verbs

if TYPE_CHECKING:
    from wicket_mcp.dialects.base import Menu
    from wicket_mcp.registry.facade import Desk

log = logging.getLogger(__name__)


class Gateway(Library):
    """A running gateway. Open it with `Gateway.open(...)`."""

    def __init__(self, config: Config, store: Store) -> None:
        super().__init__(config, store)
        self.feed = Feed()
        self.principal = LOCAL
        """In whose name the library acts."""
        self.on_reload: list[Callable[[Config], None]] = []
        """Called with every configuration that is taken up while we run."""
        self.catalogue.watch(self._changed)
        self.results = Results(self.store, config.results)
        self.scripting = Scripting(config.scripts)
        self.watches = Watches(self.catalogue, self.pool)
        self.cache = Cache()
        self.buckets = ServerBuckets()
        self._build(config)
        self.outbox_counters = Counters()
        self.held = HeldCalls(Seal(secrets.token_bytes(32)), self.outbox_counters)
        self._protocols: list[tuple[Protocol, tuple[str, ...]]] = []
        """What is served, and the dialects it was asked for by name; the configured ones where by none."""
        self._attending = False
        self._tasks = Tasks()

    def _build(self, config: Config) -> None:
        addresses = Addresses(self.catalogue, unprefixed=config.unprefixed)
        self.pipeline = Pipeline(
            Parts(
                self.catalogue,
                addresses,
                self.results,
                self.store,
                self._admit,
                self.cache,
                self.buckets,
                self.forward,
                self.watches.subscribe,
            )
        )
        self.verbs = Verbs(
            self.catalogue,
            self.pool,
            self.finder,
            self.pipeline,
            self.results,
            self.scripting,
            self.store,
            self.store,
            addresses,
            self.watches,
            config.base_dir,
        )

    def __repr__(self) -> str:
        return f"<Gateway {len(self.catalogue.servers)} servers, {self.pool!r}>"

    @classmethod
    @asynccontextmanager
    async def open(
        cls, source: "Config | Mapping[str, Any] | str | Path", *, api_key: str | None = None
    ) -> AsyncGenerator["Gateway"]:
        """A gateway for a configuration file, a `Config`, or the content of a file as a mapping.

        With `api_key`, its methods act for whom the key belongs to; else for its owner.
        """
        config = read_config(source)
        _check(config)
        store = await open_store(config.state_path / STATE_FILE)
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
            if self.config.allow_runtime_servers:
                await self.registry.managed.restore()
            for server in self.catalogue.servers.values():
                if server.start == "eager":
                    self._tasks.start(self._start_eagerly(server.name), f"start {server.name}")
            yield self
        finally:
            await self.close()

    @cached_property
    def registry(self) -> "Desk":
        """The registry of servers. Made when somebody needs it: a plain gateway does not pay for it."""
        from wicket_mcp.registry.facade import Desk

        return Desk(
            self.config,
            self.store,
            self.pool,
            self.catalogue,
            self.forward,
            self.pipeline.guard,
            pinned=lambda: bool(self.config.favourites),
        )

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
        """The upstream's result, whole and untouched. Raises WicketError when there is none."""
        return (await self.verbs.call(tool_call(name, dict(arguments or {}), Silent(self.principal), whole=True))).body

    # Serving

    def apply(self, config: Config) -> None:
        """Use another configuration from now on: build what it asks for, swap, let calls in flight end on the old.

        Where it cannot be used ConfigError is raised, and nothing has changed. Servers that were added while we run
        stay, unless the configuration has one of that name or allows none.
        """
        _check(config)
        menus = [self._menu(names, config) for _, names in self._protocols]
        if "registry" in self.__dict__:
            self.registry.reconfigure(config)
        old, self.config = self.config, staying(self.config, config)
        self._swap_servers(old, config)
        self.results.config = config.results
        self.scripting.use(config.scripts)
        self.finder.use(config.favourites)
        self._build(config)
        for (protocol, _), menu in zip(self._protocols, menus, strict=True):
            protocol.reconfigure(menu, self.verbs)
        if _shown(old) != _shown(config):
            self.feed.publish(["menu"])
        if old.unprefixed != config.unprefixed:  # every address and name is another one
            self.feed.publish(["tools", "resources", "prompts"])
        if self._attending:
            self._probe()
        for hear in self.on_reload:
            hear(self.config)
        shown = ", ".join(config.dialects)
        log.info("the configuration was reloaded: %d servers, dialects %s", len(self.catalogue.servers), shown)

    def _swap_servers(self, old: Config, new: Config) -> None:
        configured = {server.name for server in (*old.servers, *new.servers)}
        added = [server for name, server in self.catalogue.servers.items() if name not in configured]
        servers = (*new.servers, *added) if new.allow_runtime_servers else new.servers
        before, limits = self.catalogue.servers, new.limits
        leaving = self.pool.swap(servers, max_message=limits.max_message, max_call=limits.max_call)
        self.catalogue.swap(servers, new.aliases, limits)
        for upstream in leaving:
            name = upstream.config.name
            self._tasks.start(upstream.retire(), f"retire {name}")
            if upstream.watched and name in self.catalogue.servers:
                self._tasks.start(self._follow(name, upstream.session), f"watch resources of {name}")
        for server in self.catalogue.servers.values():
            if server.start == "eager" and server != before.get(server.name):
                self._tasks.start(self._start_eagerly(server.name), f"start {server.name}")
        if new.allow_runtime_servers and "registry" not in self.__dict__:
            self._tasks.start(self.registry.managed.restore(), "restore installed servers")

    def _menu(self, names: tuple[str, ...], config: Config) -> "Menu":
        return factory.menu(names or config.dialects, config, lambda: self.registry)

    def protocol(self, *names: str) -> Protocol:
        """The MCP methods over the dialects of these names; over those that are configured, without any."""
        protocol = Protocol(
            self.verbs,
            self._menu(names, self.config),
            lambda: self.instructions(*names),
            self.feed,
            self.held,
            named=bool(names),
        )
        self._protocols.append((protocol, names))
        return protocol

    async def instructions(self, *dialects: str) -> str:
        """The capability index for clients: fixed for a configuration once every server has been seen."""
        servers = self.catalogue.servers
        words = factory.guide(dialects or self.config.dialects)
        identity = [
            (server.name, server.description, server.allowed_tools, server.denied_tools, fingerprint(server))
            for server in servers.values()
        ]
        key = f"instructions {hashlib.blake2b(encode([words, *identity]), digest_size=16).hexdigest()}"
        kept = await self.store.load_note(key)
        if kept is not None:
            return kept
        snapshot = await self.catalogue.load()
        text = instructions(snapshot.view(LOCAL), words)
        if len(snapshot.listings) == len(servers):
            await self.store.save_note(key, text)
        return text

    async def serve_stdio(self, stop: asyncio.Event, *dialects: str) -> None:
        """Serve one client over stdin and stdout, until it leaves or `stop` is set."""
        from wicket_mcp.surface.stdio import serve_stdio

        protocol = self.protocol(*dialects)
        self._attend()
        await serve_stdio(protocol, stop, await self._principal(os.environ), self.outbox_counters)

    async def serve_http(
        self, stop: asyncio.Event, *dialects: str, token: str | None, on_ready: Callable[[str], None]
    ) -> None:
        """Serve over HTTP until `stop` is set; then finish what is in flight. `on_ready` gets our address."""
        from wicket_mcp.surface.asgi import App, Health, Mount
        from wicket_mcp.surface.guard import Guard, check_exposure
        from wicket_mcp.surface.rest import Rest
        from wicket_mcp.surface.server import listen, make_server
        from wicket_mcp.surface.sessions import Sessions
        from wicket_mcp.surface.streamable_http import StreamableHttp

        http = self.config.http
        check_exposure(http, authenticated=token is not None)
        protocols = {"/mcp": self.protocol(*dialects)}
        protocols |= {f"/mcp/{name}": self.protocol(name) for name in factory.NAMES}
        closing_down = asyncio.Event()
        sessions = Sessions(
            lambda session: (self._tasks.start(self.pool.close_session(session), "end session"), None)[1],
            self.outbox_counters,
        )
        self.feed.subscribe(sessions.changed)

        def guard(config: Config) -> Guard:
            return Guard(config.http, token, self.registry.keys, public=config.registry.public)

        def mounts(config: Config) -> tuple[Mount, ...]:
            mcp = StreamableHttp(protocols, sessions, config.http.max_body)
            return mcp, Health(closing_down), Rest(self.registry)

        app = App(mounts(self.config), guard(self.config))
        self.on_reload.append(lambda config: app.reconfigure(mounts(config), guard(config)))
        self._attend()
        with closing(listen(http.host, http.port)) as sock:
            server = make_server(app)
            serving = self._tasks.start(server.serve([sock]), "http")
            host, port = sock.getsockname()[:2]
            on_ready(f"http://{f'[{host}]' if ':' in host else host}:{port}/mcp")
            waiting = self._tasks.start(stop.wait(), "stop")
            await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
            closing_down.set()
            for protocol in protocols.values():
                protocol.closing.set()
            sessions.end_all()
            server.should_exit = True
            await serving

    async def _principal(self, environ: Mapping[str, str]) -> Principal:
        """Who the client of a pipe is: the owner of this gateway, or whose API key it was started with."""
        key = environ.get("WICKET_API_KEY") or environ.get("MCPLOOKUP_API_KEY", "")
        if not key.startswith(API_KEY_PREFIX) and not environ.get("WICKET_API_KEY"):
            return LOCAL  # a key of another service is not ours to judge
        return await self._holder(key)

    async def _holder(self, key: str) -> Principal:
        """Whose API key it is. Raises ConfigError."""
        principal = await self.registry.keys.principal(key)
        if principal is None:
            raise ConfigError(
                "Authentication failed: the API key is unknown, expired or revoked",
                hint="Make one with: wicket keys create NAME. WICKET_API_KEY is where it is read from.",
            )
        return principal

    async def _admit(self, principal: Principal, kind: str) -> None:
        """The holder of an API key asks for something: the key's own limit counts."""
        await self.registry.keys.take(principal, kind)

    def _attend(self) -> None:
        """What goes on beside serving."""
        self._attending = True
        self._probe()
        if self.config.path is not None:
            self._tasks.start(watch(self.config.path, lambda: self.config, self.apply), "watch configuration")
        self._tasks.start(self.scripting.announce(), "look at the jail")

    def _probe(self) -> None:
        if "registry" in self.__dict__:
            self.registry.probes.start()

    async def _follow(self, server: str, session: str) -> None:
        """Connect anew where somebody watches resources: a new connection is told which."""
        with suppress(WicketError):  # it is told when it does connect
            await self.pool.start(server, session)

    async def _start_eagerly(self, server: str) -> None:
        await self.catalogue.renew(server)

    def _heard(self, event: UpstreamEvent) -> None:
        super()._heard(event)
        self.watches.hear(event)

    def _changed(self, old: Snapshot, new: Snapshot) -> None:
        kinds: list[Changed] = []
        if [tool.definition for tool in old.tools] != [tool.definition for tool in new.tools]:
            kinds.append("tools")
        for kind in ("resources", "prompts"):
            before, after = (
                [(name, item) for name, one in each.listings.items() for item in getattr(one, kind)]
                for each in (old, new)
            )
            if before != after:
                kinds.append(kind)
        self.feed.publish(kinds)

    async def close(self) -> None:
        await self._tasks.close()
        await self.held.close()
        await self.scripting.close()
        if "registry" in self.__dict__:
            await self.registry.close()
        await super().close()


def _check(config: Config) -> None:
    """What no single option shows to be wrong. Raises ConfigError."""
    enabled = sum(server.enabled for server in config.servers)
    if config.unprefixed and enabled != 1:
        raise ConfigError(
            f"names can only pass without a prefix when there is one server, not {enabled}",
            key="unprefixed",
            hint="Leave it out, or leave one server enabled.",
        )
    if config.unprefixed and config.allow_runtime_servers:
        raise ConfigError(
            "names can only pass without a prefix when no server can be added",
            key="unprefixed",
            hint="Leave out this or allow_runtime_servers.",
        )
    if config.registry != RegistryConfig():
        from wicket_mcp.registry.settings import check

        check(config.registry)


def _shown(config: Config) -> tuple[object, ...]:
    """What decides which tools of ours a client sees."""
    return config.dialects, config.dotted_names, config.unprefixed, config.meta, config.favourites


def read_config(source: Config | Mapping[str, Any] | str | Path) -> Config:
    if isinstance(source, Config):
        return source
    return Config.from_dict(source) if isinstance(source, Mapping) else load(Path(source))


async def run_until_signalled(work: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    """Run `work(stop)`; SIGTERM or SIGINT sets `stop`, a second one ends the process at once.

    The handlers stand before `work` begins, so whatever it prints may already say that Ctrl-C leaves.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def signalled(number: signal.Signals) -> None:
        if stop.is_set():
            raise SystemExit(128 + number)
        log.info("%s: finishing calls in flight; once more ends at once", number.name)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError):  # Windows
            loop.add_signal_handler(number, signalled, number)
    await work(stop)
