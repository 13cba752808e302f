"""Connects to a server: fills in its secrets, chooses its transport, connects and negotiates.

Knows nothing about life cycles: `supervisor.py` requests a session, with a deadline, and owns it from then on.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from wicket_mcp.config.model.config import ResolvedServer, ServerConfig
from wicket_mcp.config.read.secrets import fill_in
from wicket_mcp.errors import Moved, NotSent, Unavailable
from wicket_mcp.model import JsonObject, Principal
from wicket_mcp.request import GATEWAY
from wicket_mcp.tasks import Tasks, run_uninterrupted
from wicket_mcp.telemetry.known import KNOWN
from wicket_mcp.upstream.connection import Connection, Host
from wicket_mcp.upstream.credentials import CredentialSource
from wicket_mcp.upstream.era import Session, legacy_capabilities, meet_gateway, negotiate, settle
from wicket_mcp.upstream.http import HttpClient, HttpConnection
from wicket_mcp.upstream.keeper import Keeper
from wicket_mcp.upstream.owned_child import ChildHost, OwnedChild
from wicket_mcp.upstream.owner import OwnerLink, OwnerLost, Vouch, ownership_key
from wicket_mcp.upstream.ownership import Ownership
from wicket_mcp.upstream.sse import SseConnection
from wicket_mcp.upstream.starts import Starts
from wicket_mcp.upstream.stdio import StdioConnection

if TYPE_CHECKING:
    from wicket_mcp.upstream.kept_sessions import KeptSession

OWNER_WAIT = 2.0  # seconds in one attempt to connect; whoever needs the server tries again
OWNER_PAUSE = 0.05  # seconds between two attempts to find the owner of a server


BeforeStart = Callable[[ServerConfig], Awaitable[None]]
"""Raises CannotStart if a command must not be run."""


class Connector:
    """Opens connections over stdio, Streamable HTTP and SSE."""

    def __init__(
        self,
        *,
        max_message: int,
        base_dir: Path | None = None,
        http: HttpClient | None = None,
        credentials: CredentialSource | None = None,
        before_start: BeforeStart | None = None,
    ) -> None:
        self._credentials = credentials
        self._before_start = before_start
        self._max_message = max_message
        self._base_dir = base_dir or Path.cwd()
        self._http = http or HttpClient()
        self._clients: dict[str, HttpClient] = {}
        """Servers that use their own HTTP client."""
        self.starts = Starts()
        self._keeper = Keeper()
        self._many_clients = False
        """Whether clients share connections: then the roots of a single client must not decide what a shared server
        works on.
        """
        self._shared: tuple[Ownership, Vouch] | None = None
        """How the gateways that share our servers agree on an owner for each."""
        self._endings = Tasks()
        """Claims that are released once their child has ended."""
        self._children: dict[str, dict[object, StdioConnection | None]] = {}
        """The children of each claim of ours; None for one that is being started."""
        self.past_strays: Counter[str] = Counter()
        """By server: the strays of connections that are gone."""

    def share(self, ownership: Ownership, vouch: Vouch) -> None:
        """From now on, a command that clients share is run by one owner among several gateways."""
        self._shared = ownership, vouch

    def limit_messages(self, max_message: int) -> None:
        """Limit the message size of new connections."""
        self._max_message = max_message

    def assign(self, server: str, client: HttpClient) -> None:
        """Use this HTTP client for `server` from now on."""
        self._clients[server] = client

    def serve_many(self) -> None:
        """From now on many clients share the connections: offer no client's roots."""
        self._many_clients = True

    def unassign(self, server: str) -> None:
        """Use the common HTTP client for `server` from now on."""
        self._clients.pop(server, None)

    async def open(
        self,
        config: ServerConfig,
        host: Host,
        principal: Principal,
        extensions: JsonObject | None = None,
        record: "KeptSession | None" = None,
    ) -> Session:
        """Connect on behalf of `principal`, with its own credentials unless they are shared.

        `extensions` are declared to a legacy server; by default our own. `record` is that of the session at an HTTP
        server, for a client whose session other replicas may continue.
        """
        environ: Mapping[str, str] = os.environ
        if self._credentials is not None and config.credentials == "user" and config.url is None:
            environ = {**os.environ, **await self._credentials.environment(config, principal)}
        server = await fill_in(config, environ, self._base_dir)
        credentials = (value.partition(" ")[2] for value in server.headers.values())  # what follows "Bearer"
        KNOWN.remember((*server.secrets, *credentials))
        if server.url is None and self._before_start is not None:
            await self._before_start(config)
        async with self.starts.slot(config.name, lambda: host.is_called):
            if server.url is None and self._shared is not None and _has_owner(config):
                return await self._open_owned(server, host, principal, extensions, *self._shared)
            if server.url is None:
                child = await StdioConnection.open(server, host, self._max_message, self._keeper)
                return await self._greet(child, config.name, self._capabilities(config, extensions))
            return await self._open_http(server, server.url, host, principal, extensions, record)

    async def _open_owned(
        self,
        server: ResolvedServer,
        host: Host,
        principal: Principal,
        extensions: JsonObject | None,
        ownership: Ownership,
        vouch: Vouch,
    ) -> Session:
        """Become the owner of the server and start it, or connect to it through its owner.

        An owner may run several children of a server, which differ in the extensions that they were told of.
        """
        name, key = server.config.name, ownership_key(server.config, principal)

        def on_lost() -> None:
            for child in list(self._children.get(key, {}).values()):
                if child is not None:
                    child.abandon(f"Server '{name}' has another owner now.")

        sender = principal if server.config.is_per_user else GATEWAY
        most, until = self._max_message, asyncio.get_running_loop().time() + OWNER_WAIT
        while not (claim := await ownership.claim(key, on_lost)).ours:
            try:
                link = await OwnerLink.open(
                    name,
                    claim,
                    host,
                    principal=sender,
                    max_message=most,
                    vouch=vouch,
                    doubt=partial(ownership.doubt, key),
                )
                return await self._greet(link, name)
            except (NotSent, OwnerLost) as problem:  # it is stopping or dead: soon there is another one, or it is us
                if asyncio.get_running_loop().time() > until:
                    raise Moved(name, problem.message, hint="Try again; its owner is looked up again.") from None
                await asyncio.sleep(OWNER_PAUSE)
        place = object()
        self._children.setdefault(key, {})[place] = None  # the claim is held from now on

        async def release() -> None:
            children = self._children.get(key, {})
            if place in children:
                del children[place]
                if not children:
                    del self._children[key]
                    await ownership.release(key, claim.epoch)

        def on_ended() -> None:
            if (child := self._children.get(key, {}).get(place)) is not None:
                self._endings.start(_end(child, release), f"release {name}")

        try:
            owned_host = ChildHost(host, on_ended)
            child = await StdioConnection.open(server, owned_host, self._max_message, self._keeper)
            self._children[key][place] = child
            if ownership.epoch(key) != claim.epoch:  # lost while the child was being started
                on_lost()
            session = await self._greet(child, name, self._capabilities(server.config, extensions))
        except BaseException:
            await run_uninterrupted(release())
            raise
        owned = OwnedChild(name, child, lambda: ownership.epoch(key) == claim.epoch, release)
        return Session(cast("Connection", owned), session.greeting)

    def _capabilities(self, config: ServerConfig, extensions: JsonObject | None = None) -> JsonObject:
        roots = config.isolation == "session" or not self._many_clients
        return legacy_capabilities(roots=roots, extensions=extensions)

    async def _greet(self, connection: Connection, server: str, capabilities: JsonObject | None = None) -> Session:
        """Negotiate and listen. A server is told `capabilities`; the gateway that runs a server is told none."""
        try:
            session = await (
                meet_gateway(connection, server)
                if capabilities is None
                else negotiate(connection, server, capabilities)
            )
            await connection.listen()
        except BaseException:
            self.past_strays[server] += connection.strays
            await run_uninterrupted(connection.close())
            raise
        return session

    async def close(self) -> None:
        await self._endings.wait()
        await self._http.close()
        await self._keeper.close()

    async def _open_http(
        self,
        server: ResolvedServer,
        url: str,
        host: Host,
        principal: Principal,
        extensions: JsonObject | None,
        record: "KeptSession | None",
    ) -> Session:
        name, transport = server.config.name, server.config.transport
        capabilities = self._capabilities(server.config, extensions)
        client, most = self._clients.get(name, self._http), self._max_message
        source = self._credentials
        own = None if source is None else await source.find(server, url, principal)

        def streamable() -> HttpConnection:
            return HttpConnection(
                name, url, server.headers, client, host, max_message=most, credentials=own, record=record
            )

        def sse() -> Connection:
            return SseConnection(name, url, server.headers, client, host, max_message=most, credentials=own)

        if transport == "sse":
            return await self._greet(sse(), name, capabilities)
        if record is not None and (earlier := await record.find(url)) is not None:
            connection = streamable()
            connection.resume(earlier.session)
            session = settle(connection, earlier.greeting)
            await connection.listen()
            return session
        try:
            connection = streamable()
            session = await self._greet(connection, name, capabilities)
            if record is not None and connection.session:
                await record.keep(connection.session, url, session.greeting)
            return session
        except Unavailable as problem:
            # Required by the specification: a POST rejected with 4xx may be a server with the older transport.
            if transport == "http" or getattr(problem, "status", None) not in (400, 404, 405, 415):
                raise
            return await _or_first(self._greet(sse(), name, capabilities), problem)


async def _end(child: StdioConnection, release: Callable[[], Awaitable[None]]) -> None:
    await child.close()
    await release()


def _has_owner(config: ServerConfig) -> bool:
    """Whether one gateway runs the process for all; not if each session or each replica has its own."""
    return config.isolation == "shared" and config.placement != "each"


async def _or_first(second: Awaitable[Session], first: Unavailable) -> Session:
    """The session of the second way; if that fails too, the error of the first is the useful one, unless the server
    asks us to wait.
    """
    try:
        return await second
    except Unavailable as problem:
        raise (first if problem.retry_after is None else problem) from None
