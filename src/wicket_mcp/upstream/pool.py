"""All upstreams: finds the one a request is for, and knows how each is reached.

Servers with `isolation = "session"` get one upstream for each client session; all others share one. At most a few
start at the same time, so that fifty cold servers do not starve each other of the processor.
"""

import asyncio
import os
from collections.abc import Awaitable, Iterable, Mapping
from pathlib import Path

import msgspec

from wicket_mcp.config.model.config import ResolvedServer, ServerConfig
from wicket_mcp.config.read.secrets import resolve
from wicket_mcp.errors import Overloaded, Unavailable, UnknownName
from wicket_mcp.model import LOG_LEVELS, JsonObject
from wicket_mcp.tasks import uninterrupted
from wicket_mcp.upstream.connection import NO_CALLBACKS, Callbacks, Connection, Host
from wicket_mcp.upstream.era import Greeting, Session, envelope, negotiate
from wicket_mcp.upstream.http import HttpClient, HttpConnection
from wicket_mcp.upstream.lifecycle import State
from wicket_mcp.upstream.sse import SseConnection
from wicket_mcp.upstream.stdio import StdioConnection
from wicket_mcp.upstream.supervisor import OnEvent, Upstream

STARTS_AT_ONCE = 8
SESSIONS_PER_SERVER = 64


class Pool:
    """Every configured, enabled upstream."""

    def __init__(
        self,
        servers: Iterable[ServerConfig],
        *,
        on_event: OnEvent,
        max_message: int,
        max_call: float,
        base_dir: Path | None = None,
        http: HttpClient | None = None,
    ) -> None:
        self._configs = {server.name: server for server in servers if server.enabled}
        self._clients: dict[str, HttpClient] = {}
        """Servers that are reached through another client than the others."""
        self._on_event = on_event
        self._max_message = max_message
        self._max_call = max_call
        self._base_dir = base_dir or Path.cwd()
        self._http = http or HttpClient()
        self._starting = asyncio.Semaphore(STARTS_AT_ONCE)
        self._upstreams: dict[tuple[str, str], Upstream] = {}
        self._log_level = ""
        self._watched: dict[tuple[str, str], set[str]] = {}
        """The resources that somebody watches, by server and session: they outlive an upstream that is replaced."""

    def __repr__(self) -> str:
        states = [upstream.state for upstream in self._upstreams.values()]
        counted = ", ".join(f"{states.count(state)} {state}" for state in State if state in states) or "idle"
        return f"<Pool {counted} | {sum(upstream.calls for upstream in self._upstreams.values())} calls>"

    @property
    def calls(self) -> int:
        return sum(upstream.calls for upstream in self._upstreams.values())

    def state(self, server: str) -> tuple[State, str]:
        """The state and last problem of a server (of its worst session, where it has several)."""
        found = [upstream for (name, _), upstream in self._upstreams.items() if name == server]
        if not found:
            return State.IDLE, ""
        worst = max(found, key=lambda upstream: list(State).index(upstream.state))
        return worst.state, worst.problem

    def failing(self) -> dict[str, str]:
        """The servers that are broken now, each with its last problem."""
        upstreams = self._upstreams.items()
        return {name: upstream.problem for (name, _), upstream in upstreams if upstream.state is State.BROKEN}

    def config(self, server: str) -> ServerConfig | None:
        return self._configs.get(server)

    def greeting(self, server: str) -> Greeting | None:
        return next((u.greeting for (name, _), u in self._upstreams.items() if name == server and u.greeting), None)

    async def start(self, server: str, session: str = "") -> Greeting:
        return await self._find(server, session).start()

    async def request(
        self,
        server: str,
        method: str,
        params: JsonObject,
        *,
        session: str = "",
        callbacks: Callbacks = NO_CALLBACKS,
        headers: Mapping[str, str] | None = None,
        capabilities: JsonObject | None = None,
        timeout: float | None = None,
    ) -> JsonObject:
        """One request to `server`, on the connection that belongs to the client session `session`."""
        return await self._find(server, session).request(
            method, params, callbacks=callbacks, headers=headers, capabilities=capabilities, timeout=timeout
        )

    def add(self, server: ServerConfig, http: HttpClient | None = None) -> None:
        """Know one more server from now on; with `http`, reached through that client."""
        self._configs[server.name] = server
        if http is not None:
            self._clients[server.name] = http

    def release(self, server: str) -> None:
        """Reach a server like the configured ones from now on."""
        self._clients.pop(server, None)

    async def remove(self, server: str) -> None:
        """Forget a server and end its connections; calls in flight end with it."""
        self._configs.pop(server, None)
        self._clients.pop(server, None)
        leaving = [self._upstreams.pop(key) for key in list(self._upstreams) if key[0] == server]
        await asyncio.gather(*(upstream.close() for upstream in leaving))

    def swap(self, servers: Iterable[ServerConfig], *, max_message: int, max_call: float) -> list[Upstream]:
        """Take another configuration at once. Upstreams that are reached as before go on; the others are returned,
        to be retired: no new call finds them. A new `max_message` holds for connections from now on.
        """
        self._max_message, self._max_call = max_message, max_call
        new = {server.name: server for server in servers if server.enabled}
        old, self._configs = self._configs, new
        leaving: list[Upstream] = []
        for key in list(self._upstreams):
            server = new.get(key[0])
            if server is not None and _connection_of(server) == _connection_of(old[key[0]]):
                self._upstreams[key].config, self._upstreams[key].max_call = server, max_call
            else:
                leaving.append(self._upstreams.pop(key))
        return leaving

    async def watch(self, server: str, uri: str, *, session: str = "") -> None:
        """Have `server` tell of changes to a resource, now and after every reconnect."""
        await self._find(server, session).watch(uri)

    def unwatch(self, server: str, uri: str, *, session: str = "") -> None:
        """The last one who watched a resource for this client session has gone."""
        config = self._configs.get(server)
        shared = config is None or config.isolation != "session"
        if upstream := self._upstreams.get((server, "" if shared else session)):
            upstream.unwatch(uri)

    async def set_log_level(self, level: str) -> None:
        """Have every legacy upstream send log messages from this level on, those that connect later too.

        It only ever gets lower: upstreams are shared, and each client is given no more than it wants.
        """
        if self._log_level and LOG_LEVELS.index(level) >= LOG_LEVELS.index(self._log_level):
            return
        self._log_level = level
        await asyncio.gather(*(upstream.set_log_level(level) for upstream in self._upstreams.values()))

    async def close_session(self, session: str) -> None:
        """Stop the upstreams that served this client session alone."""
        keys = [key for key in self._upstreams if key[1] == session and session]
        for key in keys:
            self._watched.pop(key, None)
        leaving = [self._upstreams.pop(key) for key in keys]
        await asyncio.gather(*(upstream.close() for upstream in leaving))

    async def close(self) -> None:
        await asyncio.gather(*(upstream.close() for upstream in self._upstreams.values()))
        await self._http.close()

    def _find(self, server: str, session: str) -> Upstream:
        config = self._configs.get(server)
        if config is None:
            raise UnknownName("server", server)
        key = (server, session if config.isolation == "session" else "")
        upstream = self._upstreams.get(key)
        if upstream is None:
            if sum(name == server for name, _ in self._upstreams) >= SESSIONS_PER_SERVER:
                raise Overloaded(f"Server '{server}' already runs for {SESSIONS_PER_SERVER} client sessions.")
            watched = self._watched.setdefault(key, set())
            upstream = self._upstreams[key] = Upstream(
                config, self._connect, self._on_event, self._max_call, key[1], watched
            )
            upstream.log_level = self._log_level
        return upstream

    async def _connect(self, config: ServerConfig, host: Host) -> Session:
        server = resolve(config, os.environ, self._base_dir)
        async with self._starting:
            if server.url is None:
                connection = await StdioConnection.open(server, host, self._max_message)
                return await _met(connection, config.name)
            return await self._connect_http(server, server.url, host)

    async def _connect_http(self, server: ResolvedServer, url: str, host: Host) -> Session:
        name, transport = server.config.name, server.config.transport
        client = self._clients.get(name, self._http)

        def streamable() -> Connection:
            return HttpConnection(name, url, server.headers, client, host, max_message=self._max_message)

        def sse() -> Connection:
            return SseConnection(name, url, server.headers, client, host, max_message=self._max_message)

        if transport == "sse":
            return await _met(sse(), name)
        try:
            return await _met(streamable(), name)
        except Unavailable as problem:
            # What the specification asks of clients: a POST refused with 4xx may be a server of the older transport.
            if transport == "http" or getattr(problem, "status", None) not in (400, 404, 405, 415):
                raise
            return await _or_first(_met(sse(), name), problem)


def _connection_of(server: ServerConfig) -> ServerConfig:
    """A configuration without what does not touch the connection."""
    return msgspec.structs.replace(
        server,
        title="",
        description="",
        tags=(),
        allowed_tools=(),
        denied_tools=(),
        calls_per_minute=0,
        cache={},
        fallback=(),
        listing_retries=0,
        start="lazy",
    )


async def _met(connection: Connection, server: str) -> Session:
    connection.envelope = envelope()
    try:
        session = await negotiate(connection, server)
        await connection.listen()
    except BaseException:
        await uninterrupted(connection.close())
        raise
    return session


async def _or_first(second: Awaitable[Session], first: Unavailable) -> Session:
    """The second way's session; when that fails too, the first way's error is the one worth reading."""
    try:
        return await second
    except Unavailable:
        raise first from None
