"""All upstreams: finds the one for a request, and creates it if needed.

`key_of` decides which requests share an upstream: one for all clients, one for each client session if the server has
`isolation = "session"`, one for each user if it has `credentials = "user"` or `placement = "user"`, one for each set of
extensions that a legacy server must know of (`declarations.py`). Upstreams of single sessions and users are removed
once they were stopped for idleness, and count only while they run. `connector.py` decides how a server is reached,
`supervisor.py` when it starts and stops.
"""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from wicket_mcp.codec import encode
from wicket_mcp.config.model.config import ServerConfig
from wicket_mcp.errors import Overloaded, UnknownName, WicketError
from wicket_mcp.extensions import AS_CLIENT
from wicket_mcp.model import LOCAL, LOG_LEVELS, JsonObject, Listing, Principal, as_list, as_object
from wicket_mcp.tasks import Tasks
from wicket_mcp.upstream.connection import NO_CALLBACKS, Callbacks
from wicket_mcp.upstream.connector import BeforeStart, Connector
from wicket_mcp.upstream.credentials import CredentialSource
from wicket_mcp.upstream.declarations import MOST, Declarations
from wicket_mcp.upstream.era import Greeting
from wicket_mcp.upstream.events import OnEvent, UpstreamEvent
from wicket_mcp.upstream.http import HttpClient
from wicket_mcp.upstream.key import Key, shared_key
from wicket_mcp.upstream.lifecycle import State
from wicket_mcp.upstream.load import Load, measure
from wicket_mcp.upstream.owner import Vouch
from wicket_mcp.upstream.ownership import Ownership
from wicket_mcp.upstream.supervisor import Opener, Upstream

if TYPE_CHECKING:
    from wicket_mcp.upstream.kept_sessions import KeptSessions

SESSIONS_PER_SERVER = 64
SESSIONS_PER_PRINCIPAL = 32  # of one server, so that one principal cannot take them all
ROOTS_WITHHELD = "roots withheld"
"""The event for a client with roots that uses a server to which they are not offered."""


def key_of(config: ServerConfig, principal: Principal, session: str, source: CredentialSource | None = None) -> Key:
    """The only place that decides which clients share an upstream."""
    own = config.credentials == "user"
    # A command that all clients share has no account to sign in to.
    signed_in = source is not None and (own or config.url is not None)
    per_user = "user" in (config.credentials, config.placement)  # `is_per_user`, on every call
    if not (signed_in or per_user or config.isolation == "session"):
        return shared_key(config.name)
    return Key(
        config.name,
        session if config.isolation == "session" else "",
        principal.id if per_user else "",
        source.version(config, principal) if source is not None and signed_in else "",
    )


class _Watch(NamedTuple):
    """Watched resources of a server. They outlive the upstream, which may be stopped or replaced meanwhile."""

    server: str
    session: str
    principal: Principal


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
        opener: Opener | None = None,
        credentials: CredentialSource | None = None,
        before_start: BeforeStart | None = None,
    ) -> None:
        """`opener` connects to servers; by default over the transports of this package, where `before_start` may refuse
        to run a command.
        """
        self._credentials = credentials
        self._configs = {server.name: server for server in servers if server.enabled}
        self._on_event = on_event
        self._max_call = max_call
        self._connector = Connector(
            max_message=max_message, base_dir=base_dir, http=http, credentials=credentials, before_start=before_start
        )
        self._opener = opener or self._connector.open
        self._upstreams: dict[Key, Upstream] = {}
        self._owners: dict[Key, str] = {}
        """The name of the principal that each upstream of a single session or user was created for."""
        self._past_restarts: Counter[str] = Counter()
        """By server: the restarts of upstreams that were removed."""
        self._watched: dict[_Watch, set[str]] = {}
        self._log_level = ""
        self._kept: KeptSessions | None = None
        self._owners_elsewhere = False
        """Whether other gateways may run our servers."""
        self._roots: dict[str, tuple[str, JsonObject | None]] = {}
        """The roots of client sessions, if several clients share us: their key and the list."""
        self._withheld: set[str] | None = None
        """The servers for which withheld roots were reported; None if roots are offered."""
        self._declarations = Declarations()
        self._tasks = Tasks()

    def __repr__(self) -> str:
        states = [upstream.state for upstream in self._upstreams.values()]
        counted = ", ".join(f"{states.count(state)} {state}" for state in State if state in states) or "idle"
        return f"<Pool {counted} | {self.calls} calls>"

    def __len__(self) -> int:
        return len(self._upstreams)

    @property
    def calls(self) -> int:
        return sum(upstream.calls for upstream in self._upstreams.values())

    def state(self, server: str) -> tuple[State, str]:
        """The state and last problem of a server (of its worst session, if it has several)."""
        upstreams = [upstream for key, upstream in self._upstreams.items() if key.server == server]
        if not upstreams:
            return State.IDLE, ""
        worst = max(upstreams, key=lambda upstream: list(State).index(upstream.state))
        return worst.state, worst.problem

    def failing(self) -> dict[str, str]:
        """The servers that are broken now, each with its last problem."""
        upstreams = self._upstreams.items()
        return {key.server: upstream.problem for key, upstream in upstreams if upstream.state is State.BROKEN}

    def loads(self) -> list[Load]:
        """Every used server, with the activity of all its connections."""
        by_server: dict[str, list[Upstream]] = {}
        for key, upstream in self._upstreams.items():
            by_server.setdefault(key.server, []).append(upstream)
        return [measure(name, self.state(name)[0], group, self.restarts(name)) for name, group in by_server.items()]

    def restarts(self, server: str) -> int:
        """How often a server was started or connected to again, on all its connections so far."""
        now = sum(upstream.restarts for key, upstream in self._upstreams.items() if key.server == server)
        return self._past_restarts[server] + now

    def strays(self, server: str) -> int:
        """How many inputs from a server were not messages or matched no request, on all its connections so far."""
        now = sum(upstream.strays for key, upstream in self._upstreams.items() if key.server == server)
        return self._connector.past_strays[server] + now

    def is_relayed(self, server: str) -> bool:
        """Whether another gateway runs the server for us, on all its connections."""
        group = [upstream for key, upstream in self._upstreams.items() if key.server == server]
        return measure(server, State.IDLE, group, 0).relayed

    def is_open(self, server: str, principal: Principal, session: str) -> bool:
        """Whether the connection for this principal and client session is open."""
        config = self._configs.get(server)
        upstream = self._upstreams.get(self._key(config, principal, session)) if config is not None else None
        return upstream is not None and upstream.state is State.READY

    def config(self, server: str) -> ServerConfig | None:
        return self._configs.get(server)

    def stderr(self, server: str) -> Sequence[str]:
        """The last stderr lines of a server."""
        return next(
            (upstream.stderr for key, upstream in self._upstreams.items() if key.server == server and upstream.stderr),
            (),
        )

    def greeting(self, server: str) -> Greeting | None:
        upstreams = self._upstreams.items()
        return next(
            (upstream.greeting for key, upstream in upstreams if key.server == server and upstream.greeting), None
        )

    def prefer(self, servers: Iterable[str]) -> AbstractContextManager[None]:
        """Meanwhile, these servers start before others that wait for their turn."""
        return self._connector.starts.prefer(servers)

    async def start(self, server: str, session: str = "", principal: Principal = LOCAL) -> Greeting:
        return await self._find(server, principal, session).start()

    def request(
        self,
        server: str,
        method: str,
        params: JsonObject,
        *,
        principal: Principal = LOCAL,
        session: str = "",
        callbacks: Callbacks = NO_CALLBACKS,
        headers: Mapping[str, str] | None = None,
        capabilities: JsonObject | None = None,
        timeout: float | None = None,
    ) -> Awaitable[JsonObject]:
        """One request to `server` on behalf of `principal`, over the connection for the client session `session`."""
        if self._owners_elsewhere:
            callbacks = Callbacks(callbacks.notification, callbacks.request, principal)
        if capabilities is not None and self._withheld is not None and "roots" in capabilities:
            self._say_withheld(server, principal)
        return self._find(server, principal, session, capabilities).request(
            method,
            params,
            callbacks=callbacks,
            headers=headers,
            capabilities=capabilities,
            timeout=timeout,
            principal=principal.id,
        )

    async def notify(
        self, server: str, method: str, params: JsonObject, principal: Principal, session: str, able: JsonObject
    ) -> None:
        """Send a notification for `principal`, whose client has the capabilities `able`."""
        await self._find(server, principal, session, able).notify(method, params, able, principal)

    def distinguish(self, listings: Mapping[str, Listing]) -> None:
        """From now on, servers whose listings show that they use extensions know those of the client of a request."""
        self._declarations.renew(listings)

    # Adding and removing servers

    def share(self, ownership: Ownership, vouch: Vouch) -> None:
        """From now on run only what we own, and reach the other servers through their owners (`owner.py`)."""
        self._owners_elsewhere = True
        self._connector.share(ownership, vouch)

    def keep_sessions(self, records: "KeptSessions") -> None:
        """From now on record sessions at HTTP servers that belong to one client, for other replicas."""
        self._kept = records

    def add(self, server: ServerConfig, http: HttpClient | None = None) -> None:
        """Add a server; with `http`, it is reached through that client."""
        self._configs[server.name] = server
        if http is not None:
            self._connector.assign(server.name, http)

    def release(self, server: str) -> None:
        """Reach a server like the configured ones from now on."""
        self._connector.unassign(server)

    def release_connections(self, server: str) -> list[Upstream]:
        """Remove a server's upstreams, to be retired: the next call creates a new one."""
        return [self._forget(key) for key in list(self._upstreams) if key.server == server]

    async def remove(self, server: str) -> None:
        """Remove a server and end its connections, including calls in flight."""
        self._configs.pop(server, None)
        self._connector.unassign(server)
        leaving = [self._forget(key) for key in list(self._upstreams) if key.server == server]
        await asyncio.gather(*(upstream.close() for upstream in leaving))

    def swap(self, servers: Iterable[ServerConfig], *, max_message: int, max_call: float) -> list[Upstream]:
        """Apply another configuration at once. Upstreams whose connection settings are unchanged continue. The others
        are returned, to be retired: no new call uses them. A new `max_message` applies to new connections.
        """
        self._connector.limit_messages(max_message)
        self._max_call = max_call
        new = {server.name: server for server in servers if server.enabled}
        old, self._configs = self._configs, new
        leaving: list[Upstream] = []
        for key, upstream in list(self._upstreams.items()):
            server = new.get(key.server)
            if server is not None and server.connects_like(old[key.server]):
                upstream.reconfigure(server, max_call)
            else:
                leaving.append(self._forget(key))
        return leaving

    async def renounce(self, server: str, owner: str) -> None:
        """A user has signed in or out: end the connections with the earlier credentials once their calls have ended."""
        config = self._configs.get(server)
        shared = config is None or config.credentials == "shared"
        keys = [key for key in self._upstreams if key.server == server and (shared or key.owner == owner)]
        if config is not None:  # connections opened since are already current
            now = self._key(config, Principal(owner), "")
            keys = [key for key in keys if not now.version or key.version != now.version]
        await asyncio.gather(*(self._retire(key) for key in keys))

    async def _retire(self, key: Key) -> None:
        if key in self._upstreams:  # removed in the step that ends it, so that no cancellation comes between
            await self._forget(key).retire()

    async def close_session(self, session: str, principal: Principal = LOCAL) -> None:
        """A client session has ended: stop the upstreams that served only this session, and its watches."""
        if not session:
            return
        if self._kept is not None:  # what another replica began for it and we did not use must be ended too
            own = {self._key(config, principal, session): config for config in self._configs.values()}
            for key in await self._kept.find_others(own, self._upstreams):
                with suppress(WicketError):
                    await self._make(key, own[key], principal).start()
        for watch in [watch for watch in self._watched if watch.session == session]:
            for uri in list(self._watched[watch]):
                self.unwatch(watch.server, uri, session=session, principal=watch.principal)
        mark, _ = self._roots.pop(session, ("", None))
        alone = mark and mark not in {other for other, _ in self._roots.values()}
        leaving = [
            self._forget(key)
            for key in list(self._upstreams)
            if key.session == session or (alone and key.roots == mark)
        ]
        await asyncio.gather(*(upstream.close() for upstream in leaving))

    def settle_roots(self, session: str, roots: JsonObject | None) -> None:
        """From now on this client shares servers only with clients that have the same roots, and with none if its roots
        are unknown (None). A session without this call has no roots.
        """
        listed = [str(as_object(root).get("uri")) for root in as_list((roots or {}).get("roots"))]
        if roots is None:
            self._roots[session] = session, None
        elif listed:
            mark = hashlib.blake2b(encode(sorted(listed)), digest_size=12).hexdigest()
            self._roots[session] = mark, roots
        else:
            self._roots.pop(session, None)

    def serve_many(self) -> None:
        """From now on many clients share the connections: offer no client's roots."""
        self._connector.serve_many()
        self._withheld = set()

    def _say_withheld(self, server: str, principal: Principal) -> None:
        """Report, once for each server, that a client's roots are withheld from it."""
        config = self._configs.get(server)
        if self._withheld is None or server in self._withheld or config is None or config.isolation == "session":
            return
        self._withheld.add(server)
        self._on_event(UpstreamEvent(server, "", ROOTS_WITHHELD, {}, principal))

    async def stop(self, server: str) -> None:
        """End the connections to a server at once; the next request looks up its owner again."""
        keys = [key for key in self._upstreams if key.server == server]
        await asyncio.gather(*(self._forget(key).close() for key in keys))

    async def close(self) -> None:
        await self._tasks.close()
        await asyncio.gather(*(upstream.close() for upstream in self._upstreams.values()))
        await self._connector.close()

    # Watched resources, log level

    async def watch(self, server: str, uri: str, *, session: str = "", principal: Principal = LOCAL) -> None:
        """Have `server` report changes of a resource, now and after every reconnect, until `unwatch` or a failure."""
        upstream = self._find(server, principal, session)
        self._watched.setdefault(_Watch(server, session, principal), set()).add(uri)
        try:
            for watching in (upstream, *self._beside(self._key(self._configs[server], principal, session))):
                await watching.watch(uri)
        except BaseException:
            self.unwatch(server, uri, session=session, principal=principal)
            raise

    def unwatch(self, server: str, uri: str, *, session: str = "", principal: Principal = LOCAL) -> None:
        """The last watcher of a resource for this client session has left."""
        watch = _Watch(server, session, principal)
        uris = self._watched.get(watch, set())
        uris.discard(uri)
        if not uris:
            self._watched.pop(watch, None)
        if (config := self._configs.get(server)) is None:
            return
        key = self._key(config, principal, session)
        upstream = self._upstreams.get(key)
        if upstream is not None and uri not in self._watched_uris(key):
            for watching in (upstream, *self._beside(key)):
                watching.unwatch(uri)

    def _beside(self, key: Key) -> list[Upstream]:
        """The connections that differ from this one in what they declare: a client may change a resource over any of
        them, so all of them watch it.
        """
        others = self._upstreams.items()
        return [upstream for other, upstream in others if other.extensions and other._replace(extensions="") == key]

    def _watched_uris(self, key: Key) -> set[str]:
        """The watched resources of the connection with this key."""
        config, key = self._configs[key.server], key._replace(extensions="")
        return {
            uri
            for watch, uris in self._watched.items()
            if watch.server == key.server and self._key(config, watch.principal, watch.session) == key
            for uri in uris
        }

    def lacks_log_level(self, level: str) -> bool:
        """Whether messages of this level are not asked for yet."""
        return not self._log_level or LOG_LEVELS.index(level) < LOG_LEVELS.index(self._log_level)

    async def set_log_level(self, level: str) -> None:
        """Have every legacy upstream, now and later, send log messages of this level and above.

        The level only ever gets lower: upstreams are shared, and messages are filtered for each client.
        """
        if not self.lacks_log_level(level):
            return
        self._log_level = level
        await asyncio.gather(*(upstream.set_log_level(level) for upstream in self._upstreams.values()))

    # Finding

    def _find(
        self, server: str, principal: Principal, session: str, capabilities: JsonObject | None = AS_CLIENT
    ) -> Upstream:
        config = self._configs.get(server)
        if config is None:
            raise UnknownName("server", server)
        key = self._key(config, principal, session)
        if server in self._declarations.spoken and capabilities is not AS_CLIENT:
            return self._find_declaring(key, config, principal, capabilities or {})
        if (upstream := self._upstreams.get(key)) is not None:
            return upstream
        if self._roots and not session:  # our own listing can use any existing connection
            for other, upstream in self._upstreams.items():
                if other._replace(roots="") == key:
                    return upstream
        return self._make(key, config, principal)

    def _find_declaring(
        self, key: Key, config: ServerConfig, principal: Principal, capabilities: JsonObject
    ) -> Upstream:
        """The upstream over which a server knows the extensions that a client with these capabilities declares."""
        common = self._upstreams.get(key)
        greeting = common.greeting if common is not None else None
        modern = greeting.modern if greeting is not None else None
        declared = self._declarations.choose(config.name, capabilities, modern=modern)
        if declared is None:
            return common or self._make(key, config, principal)
        key = key._replace(extensions=declared.mark)
        if (upstream := self._upstreams.get(key)) is not None:
            return upstream
        self._make_room(config.name)
        return self._make(key, config, principal, declared.extensions)

    def _make_room(self, server: str) -> None:
        """End an unused connection if there are too many that differ in what they declare. Raises Overloaded."""
        keys = [key for key in self._upstreams if key.server == server and key.extensions]
        if len(keys) < MOST:
            return
        unused = (key for key in keys if not self._upstreams[key].calls and not self._upstreams[key].waiting)
        if (oldest := next(unused, None)) is None:
            text = f"Clients with {len(keys)} different sets of extensions use server '{server}' now."
            raise Overloaded(text, hint="Try again in a moment.")
        self._tasks.start(self._forget(oldest).retire(), f"retire {server}")

    def _key(self, config: ServerConfig, principal: Principal, session: str) -> Key:
        key = key_of(config, principal, session, self._credentials)
        if not self._roots or key.session or session not in self._roots:
            return key
        return key._replace(roots=self._roots[session][0])

    def _make(
        self, key: Key, config: ServerConfig, principal: Principal, extensions: JsonObject | None = None
    ) -> Upstream:
        single = bool(key.session or key.owner)
        if single:
            self._admit(config, principal)
            self._owners[key] = principal.id
        upstream = self._upstreams[key] = Upstream(
            config,
            self._opener_for(key, config, extensions),
            self._on_event,
            max_call=self._max_call,
            session=key.session,
            principal=principal,
            watched=self._watched_uris(key),
            log_level=self._log_level,
            on_rest=(lambda: self._evict(key)) if single or any(key[3:]) else None,
            withhold_roots=self._withheld is not None and config.isolation != "session",
            roots=next((roots for mark, roots in self._roots.values() if key.roots and mark == key.roots), None),
        )
        plain = key._replace(roots="")
        if key.roots and (unused := self._upstreams.get(plain)) is not None and unused.unused:
            self._tasks.start(self._forget(plain).retire(), f"retire {config.name}")  # it was only opened for listing
        return upstream

    def _opener_for(self, key: Key, config: ServerConfig, extensions: JsonObject | None) -> Opener:
        record = None if self._kept is None else self._kept.of(key, config)
        if extensions is None and record is None:
            return self._opener
        return partial(self._connector.open, extensions=extensions, record=record)

    def _admit(self, config: ServerConfig, principal: Principal) -> None:
        """Check that one more client session may have its own upstream. Raises Overloaded."""
        for key in [key for key in self._owners if key.server == config.name]:
            self._evict(key)
        owners = [owner for key, owner in self._owners.items() if key.server == config.name]
        hint = "Try again later: a session's server is stopped when the session ends, or was idle for 'idle_stop'."
        if len(owners) >= SESSIONS_PER_SERVER:
            raise Overloaded(f"Server '{config.name}' already runs for {len(owners)} client sessions.", hint=hint)
        if (own := owners.count(principal.id)) >= SESSIONS_PER_PRINCIPAL:
            raise Overloaded(
                f"Server '{config.name}' already runs for {own} client sessions of '{principal.name}'.", hint=hint
            )

    def _evict(self, key: Key) -> None:
        """Remove the upstream of a single session that does not run and has no waiting calls."""
        if (upstream := self._upstreams.get(key)) is not None and upstream.at_rest:
            self._forget(key)

    def _forget(self, key: Key) -> Upstream:
        self._owners.pop(key, None)
        upstream = self._upstreams.pop(key)
        self._connector.past_strays[key.server] += upstream.strays
        self._past_restarts[key.server] += upstream.restarts
        return upstream
