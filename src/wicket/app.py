"""The composition root: builds the rooms from a configuration, wires them, and ends them in order.

The only module that knows every room. `Gateway` is also the library's door.
"""

import asyncio
import hashlib
import logging
import os
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, closing, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from wicket.codec import encode
from wicket.config.favourites import favourites
from wicket.config.formats import load
from wicket.config.model import Config
from wicket.core.calls import Calls
from wicket.core.catalog import Catalogue, Snapshot, fingerprint
from wicket.core.finder import Finder
from wicket.core.instructions import instructions
from wicket.core.offers import Offers
from wicket.core.policy import Policy
from wicket.core.results import Results
from wicket.core.scripting import Scripting
from wicket.core.verbs import Verbs
from wicket.dialects.base import Dialect, Menu
from wicket.dialects.broker import Broker
from wicket.dialects.chain import Chain
from wicket.dialects.flat import Flat
from wicket.dialects.guides import guide
from wicket.dialects.lua import LUA
from wicket.dialects.meta import Meta
from wicket.dialects.native import NATIVE
from wicket.errors import ConfigError
from wicket.model import (
    API_KEY_PREFIX,
    LOCAL,
    CallRequest,
    Hit,
    JsonObject,
    ListKind,
    Principal,
    ServerStatus,
    Silent,
    Tool,
)
from wicket.reload import watch
from wicket.store.sqlite import SqliteStore
from wicket.surface.feed import Feed
from wicket.surface.held import HeldCalls
from wicket.surface.protocol import Protocol
from wicket.tasks import Tasks
from wicket.upstream.pool import Pool

if TYPE_CHECKING:
    from wicket.registry.desk import Desk

log = logging.getLogger(__name__)

DIALECTS: Mapping[str, Callable[["Gateway"], Dialect]] = {
    "native": lambda gateway: NATIVE,
    "flat": lambda gateway: Flat(unprefixed=gateway.config.unprefixed),
    "lua": lambda gateway: LUA,
    "meta": lambda gateway: Meta(upper=gateway.config.meta.upper),
    "chain": lambda gateway: Chain(lambda: gateway.registry),
    "broker": lambda gateway: Broker(favourites(gateway.config.base_dir), dotted=gateway.config.dotted_names),
    "bridge": lambda gateway: gateway.bridge(),
}


class Gateway:
    """A running gateway. Open it with `Gateway.open(...)`."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.feed = Feed()
        self.store = SqliteStore(config.state_path / "wicket.db")
        self.pool = Pool(
            config.servers,
            on_event=self._heard,
            max_message=config.limits.max_message,
            max_call=config.limits.max_call,
            base_dir=config.base_dir,
        )
        self.catalogue = Catalogue(config.servers, Policy(config.servers), self.pool, self.store, config.limits)
        self.catalogue.aliases = config.aliases
        self.catalogue.watch(self._changed)
        results = Results(self.store, config.results)
        self.calls = Calls(self.catalogue, self.pool, results, self.store)
        self.scripting = Scripting(config.scripts)
        self.offers = Offers(self.catalogue, self.pool, unprefixed=config.unprefixed)
        self.finder = Finder(self.catalogue, self.pool, self.store, config.base_dir, semantic=config.search.semantic)
        self.verbs = Verbs(
            self.catalogue,
            self.pool,
            self.finder,
            self.calls,
            results,
            self.scripting,
            self.store,
            self.offers,
            config.base_dir,
        )
        if config.unprefixed and len(self.catalogue.servers) != 1:
            raise ConfigError(
                f"names can only pass without a prefix when there is one server, not {len(self.catalogue.servers)}",
                key="unprefixed",
                hint="Leave it out, or leave one server enabled.",
            )
        self.held = HeldCalls()
        self._tasks = Tasks()

    def __repr__(self) -> str:
        return f"<Gateway {len(self.catalogue.servers)} servers, {self.pool!r}>"

    @classmethod
    @asynccontextmanager
    async def open(cls, source: "Config | Mapping[str, Any] | str | Path") -> AsyncGenerator["Gateway"]:
        """A gateway for a configuration file, a `Config`, or the content of a file as a mapping."""
        gateway = cls(read_config(source))
        if gateway.config.allow_runtime_servers:
            await gateway.registry.managed.restore()
        for server in gateway.catalogue.servers.values():
            if server.start == "eager":
                gateway._tasks.start(gateway._start_eagerly(server.name), f"start {server.name}")
        try:
            yield gateway
        finally:
            await gateway._close()

    @cached_property
    def registry(self) -> "Desk":
        """The registry of servers. Made when somebody needs it: a plain gateway does not pay for it."""
        from wicket.registry.desk import Desk
        from wicket.store.registry import SqliteRegistry

        return Desk(
            self.config,
            self.store,
            SqliteRegistry(self.store),
            self.pool,
            self.catalogue,
            pinned=lambda: bool(favourites(self.config.base_dir)),
        )

    def bridge(self) -> Dialect:
        from wicket.dialects.bridge import Bridge

        return Bridge(self.registry)

    # The library

    async def servers(self) -> list[ServerStatus]:
        return await self.verbs.servers(connect=True)

    async def tools(self, server: str | None = None) -> tuple[Tool, ...]:
        return await self.verbs.tools(server)

    async def search(self, query: str, limit: int = 5) -> tuple[Hit, ...]:
        return (await self.verbs.search(query, limit=limit)).hits

    async def call(self, name: str, arguments: Mapping[str, Any] | None = None) -> JsonObject:
        """The upstream's result, whole and untouched. Raises WicketError when there is none."""
        return (await self.verbs.call(CallRequest(name, dict(arguments or {}), Silent(), whole=True))).body

    # Serving

    def apply(self, config: Config) -> None:
        """Use another configuration from now on: swap what the servers are, let calls in flight end on the old ones.

        Servers that were added while Wicket runs stay, unless the configuration has one of that name.
        """
        configured = {server.name for server in self.config.servers} | {server.name for server in config.servers}
        added = [server for name, server in self.catalogue.servers.items() if name not in configured]
        known = set(self.catalogue.servers)
        for upstream in self.pool.swap((*config.servers, *added)):
            self._tasks.start(upstream.retire(), f"retire {upstream.config.name}")
        self.catalogue.aliases = config.aliases
        self.catalogue.swap((*config.servers, *added))
        self.config = msgspec.structs.replace(self.config, servers=config.servers, aliases=config.aliases)
        log.info("the configuration was reloaded: %r", self)
        for server in self.catalogue.servers.values():
            if server.start == "eager" and server.name not in known:
                self._tasks.start(self._start_eagerly(server.name), f"start {server.name}")

    def _watch_config(self) -> None:
        if self.config.path is not None:
            self._tasks.start(watch(self.config.path, self.apply), "watch configuration")

    def protocol(self, *names: str) -> Protocol:
        """The MCP methods over the dialects of these names."""
        unknown = [name for name in names if name not in DIALECTS]
        if unknown:
            raise ConfigError(
                f"dialect '{unknown[0]}' is not built in",
                key="dialects",
                hint=f"Known are {', '.join(DIALECTS)}.",
            )
        menu = Menu(tuple(DIALECTS[name](self) for name in names))
        return Protocol(self.verbs, menu, self.offers, lambda: self.instructions(*names), self.feed, self.held)

    async def instructions(self, *dialects: str) -> str:
        """The capability index for clients: fixed for a configuration once every server has been seen."""
        servers = self.catalogue.servers
        words = guide(dialects or self.config.dialects)
        identity = [
            (server.name, server.description, server.allowed_tools, server.denied_tools, fingerprint(server))
            for server in servers.values()
        ]
        key = f"instructions {hashlib.blake2b(encode([words, *identity]), digest_size=16).hexdigest()}"
        kept = await self.store.load_note(key)
        if kept is not None:
            return kept
        snapshot = await self.catalogue.load()
        text = instructions(servers, snapshot, words)
        if len(snapshot.listings) == len(servers):
            await self.store.save_note(key, text)
        return text

    async def serve_stdio(self, stop: asyncio.Event, *dialects: str) -> None:
        """Serve one client over stdin and stdout, until it leaves or `stop` is set."""
        from wicket.surface.stdio import serve_stdio

        protocol = self.protocol(*(dialects or self.config.dialects))
        self._watch_health()
        self._watch_config()
        await serve_stdio(protocol, stop, await self._principal(os.environ))

    async def serve_http(
        self, stop: asyncio.Event, *dialects: str, token: str | None, on_ready: Callable[[str], None]
    ) -> None:
        """Serve over HTTP until `stop` is set; then finish what is in flight. `on_ready` gets our address."""
        from wicket.surface.asgi import App
        from wicket.surface.guard import Guard, check_exposure
        from wicket.surface.rest import Rest
        from wicket.surface.server import listen, make_server
        from wicket.surface.sessions import Sessions

        http = self.config.http
        check_exposure(http, authenticated=token is not None)
        protocols = {"/mcp": self.protocol(*(dialects or self.config.dialects))}
        protocols |= {f"/mcp/{name}": self.protocol(name) for name in DIALECTS}
        sessions = Sessions(
            lambda session: (self._tasks.start(self.pool.close_session(session), "end session"), None)[1]
        )
        self.feed.subscribe(sessions.changed)
        guard = Guard(http, token, self.registry.keys, public=self.config.registry.public)
        app = App(protocols, guard, sessions, http.max_body, Rest(self.registry))
        self._watch_health()
        self._watch_config()
        with closing(listen(http.host, http.port)) as sock:
            server = make_server(app)
            serving = self._tasks.start(server.serve([sock]), "http")
            host, port = sock.getsockname()[:2]
            on_ready(f"http://{f'[{host}]' if ':' in host else host}:{port}/mcp")
            waiting = self._tasks.start(stop.wait(), "stop")
            await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
            app.ready = False
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
        principal = await self.registry.keys.principal(key)
        if principal is None:
            raise ConfigError(
                "Authentication failed: the API key in WICKET_API_KEY is unknown, expired or revoked",
                hint="Unset it, or make one with: wicket keys create NAME.",
            )
        return principal

    def _watch_health(self) -> None:
        if "registry" in self.__dict__:
            self.registry.probes.start()

    async def _start_eagerly(self, server: str) -> None:
        await self.catalogue.renew(server)

    def _heard(self, server: str, method: str, params: JsonObject) -> None:
        self.catalogue.heard(server, method, params)
        self.offers.heard(server, method, params)

    def _changed(self, old: Snapshot, new: Snapshot) -> None:
        kinds: list[ListKind] = []
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

    async def _close(self) -> None:
        await self._tasks.close()
        await self.held.close()
        await self.scripting.close()
        if "registry" in self.__dict__:
            await self.registry.close()
        await self.finder.close()
        await self.catalogue.close()
        await self.pool.close()
        await self.store.close()


def read_config(source: Config | Mapping[str, Any] | str | Path) -> Config:
    if isinstance(source, Config):
        return source
    return Config.from_dict(source) if isinstance(source, Mapping) else load(Path(source))


async def run_until_signalled(work: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    """Run `work(stop)`; SIGTERM or SIGINT sets `stop`, a second one ends the process at once."""
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
