"""Serving a gateway over HTTP: the applications at its addresses, its sessions, its start and its end.

Loaded only when HTTP is served. Knows the gateway's public parts and the surface; decides nothing about a call.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, closing
from functools import partial
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING

from msgspec.structs import replace

from wicket_mcp.config.model.config import Config
from wicket_mcp.dialects import factory
from wicket_mcp.model import Principal
from wicket_mcp.observing import Surroundings, clients_of, limit_tools, look_here, observe, source_of
from wicket_mcp.rooms import profile_name
from wicket_mcp.surface.admission import Admission
from wicket_mcp.surface.asgi import App, Health, Mount
from wicket_mcp.surface.callback import Callback
from wicket_mcp.surface.cards import Cards
from wicket_mcp.surface.dashboard.lazy import LazyDashboard, Preparable
from wicket_mcp.surface.dashboard.sessions import UiSessions
from wicket_mcp.surface.guard import Guard, check_exposure
from wicket_mcp.surface.metrics import PEER_PATH, MetricsPage, PeerMetricsPage, WorkerMetrics
from wicket_mcp.surface.neighbours import Neighbours
from wicket_mcp.surface.rest import Rest
from wicket_mcp.surface.result_page import ResultPage
from wicket_mcp.surface.server import LAST_CALL, Server, address_of, listen, listen_beside
from wicket_mcp.surface.sessions import Sessions
from wicket_mcp.surface.sign_in import SignIn
from wicket_mcp.surface.streamable_http import StreamableHttp
from wicket_mcp.surface.under_way import ConnectedClient, UnderWayPage
from wicket_mcp.telemetry.loop_lag import LoopLag
from wicket_mcp.telemetry.metrics import Values

if TYPE_CHECKING:
    from wicket_mcp.app import Gateway
    from wicket_mcp.identity.grants import Grants
    from wicket_mcp.replicas import Replicas


LOAD_DASHBOARD_AFTER = 0.5
"""Seconds from being ready."""


async def serve_http(
    gateway: "Gateway",
    stop: asyncio.Event,
    dialects: tuple[str, ...],
    token: str | None,
    on_ready: Callable[[str], None],
    listener: socket | None = None,
    workers: Path | None = None,
    metrics: tuple[str, int] | None = None,
) -> None:
    """Serve until `stop` is set; then finish the calls in flight. `on_ready` is called with our address.

    With a `listener`, connections are accepted there; it belongs to another process, which keeps listening. `workers`
    is the folder in which processes on the same socket find each other. `metrics` is an additional host and port, where
    everyone who can reach it may read the metrics.
    """
    http = gateway.config.http
    check_exposure(http, authenticated=token is not None)
    gateway.pool.serve_many()
    sessions = _follow_sessions(gateway)
    replicas = await _join_others(gateway, sessions, alone=gateway.config.store is None and workers is None)
    front = Front(gateway, dialects, token, sessions, replicas, workers)
    gateway.on_reload.append(front.reconfigure)
    gateway.attend()
    async with AsyncExitStack() as ending:
        ending.push_async_callback(front.close)
        sock = ending.enter_context(closing(listener or listen(http.host, http.port)))
        inner = None
        if workers is not None and replicas is not None:
            inner = ending.enter_context(closing(listen_beside(workers, replicas.me)))
        last_call = 0.0 if listener is None else LAST_CALL
        server = Server(front.app, last_call=last_call, shared=workers is not None)
        front.lag.start()
        front.serve_at(address_of(sock))
        await front.around.gate.open()
        ending.push_async_callback(front.around.gate.close)
        if replicas is not None:
            ending.push_async_callback(replicas.close)
            if workers is not None and inner is not None:  # before the first call: it must know who owns what
                await replicas.join_workers(workers, address_of(inner))
        reachable = [inner] if inner is not None else [sock] if replicas is not None else []
        public = [] if sock in reachable else [sock]
        serving = gateway.tasks.start(server.serve(public, reachable), "http", awaited=True)
        if metrics is not None:
            metrics_sock = ending.enter_context(closing(listen(*metrics, shared=workers is not None)))
            ending.push_async_callback(_serve_metrics(gateway, front, metrics_sock))
        if replicas is not None and workers is None:  # the balancer sends nothing before `/readyz` agrees
            await replicas.join(http, sock.getsockname()[1])
        on_ready(f"{front.address}/mcp")
        ending.callback(gateway.tasks.start(_load_later(front.dashboard), "load the dashboard later").cancel)
        waiting = gateway.tasks.start(stop.wait(), "stop")
        await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
        front.leaving.set()
        if replicas is not None:
            await replicas.leave()
        if gateway.config.http.leave_after and not serving.done():
            await asyncio.wait({serving}, timeout=gateway.config.http.leave_after)
        front.end_conversations()
        server.stop()
        await serving


async def _load_later(dashboard: LazyDashboard) -> None:
    """Load the dashboard once the first clients are served, so that it need not be loaded when it is opened."""
    await asyncio.sleep(LOAD_DASHBOARD_AFTER)
    await dashboard.load()


async def serve_dashboard(
    gateway: "Gateway",
    stop: asyncio.Event,
    token: str,
    listener: socket,
    clients: Callable[[], Sequence[ConnectedClient]],
    daemon: Path,
) -> None:
    """Serve the dashboard alone until `stop` is set, for the daemon with this socket."""
    http = gateway.config.http
    here, ui_sessions = look_here(gateway, clients), UiSessions(gateway.store)

    def make() -> Preparable:
        from wicket_mcp.surface.dashboard.mount import Dashboard  # noqa: PLC0415  (for those who open it)

        neighbours = Neighbours(gateway.config.state_path, daemon, alone=False)
        source = source_of(gateway, here, lambda: f"http://{http.host}:{http.port}/mcp", [neighbours])
        return Dashboard(source, ui_sessions, app.identify, token, lambda: None, lambda: address_of(listener))

    guard = Guard(replace(http, host=listener.getsockname()[0]), token, gateway.registry.keys, place=gateway.place)
    app = App((LazyDashboard(make, gateway.tasks),), guard, gateway.audit.reject)
    server = Server(app)
    with closing(listener):
        serving = gateway.tasks.start(server.serve([listener]), "dashboard", awaited=True)
        await stop.wait()
        server.stop()
        await serving


def _serve_metrics(gateway: "Gateway", front: "Front", sock: socket) -> Callable[[], Awaitable[None]]:
    """Answer Prometheus on a separate port; returns the function that ends this."""
    guard = Guard(replace(gateway.config.http, host=sock.getsockname()[0]), None)
    server = Server(App((MetricsPage(front.read_metrics, "none"),), guard))
    serving = gateway.tasks.start(server.serve([sock]), "metrics", awaited=True)

    async def end() -> None:
        server.stop()
        await serving

    return end


def _follow_sessions(gateway: "Gateway") -> Sessions:
    def end(session: str, principal: Principal) -> None:
        gateway.tasks.start(gateway.pool.close_session(session, principal), "end session")

    on_duration = gateway.tracing.end_session if gateway.tracing else None
    sessions = Sessions(end, gateway.outbox_counters, on_duration=on_duration)
    gateway.feed.subscribe(sessions.notify_changes)
    return sessions


async def _join_others(gateway: "Gateway", sessions: Sessions, *, alone: bool) -> "Replicas | None":
    if alone:
        return None
    from wicket_mcp.replicas import Replicas  # noqa: PLC0415  (for those who have some)

    return await Replicas.open(gateway, sessions)


class Front:
    """What is served at which address, by the current configuration."""

    def __init__(
        self,
        gateway: "Gateway",
        dialects: tuple[str, ...],
        token: str | None,
        sessions: Sessions,
        replicas: "Replicas | None",
        workers: Path | None,
    ) -> None:
        self.address = ""
        """Known once we listen."""
        self.leaving = asyncio.Event()
        self.lag = LoopLag()
        self._gateway = gateway
        self._token = token
        self._sessions = sessions
        self._replicas = replicas
        self._protocols = {"/mcp": gateway.protocol(*dialects, transport="tcp")}
        self._protocols |= {f"/mcp/{name}": gateway.protocol(name, transport="tcp") for name in factory.NAMES}
        self._card_paths = tuple(self._protocols)  # those of the dialects: which profiles there are is not public
        self._add_profiles(gateway.config)
        self._admission = Admission(self.lag)
        self._metrics = observe(gateway, sessions, self.lag, self._admission)
        self._worker_metrics = None
        if replicas is not None and workers is not None:
            ask = partial(replicas.ask_workers, PEER_PATH)
            self._worker_metrics = WorkerMetrics(workers, replicas.me, self._metrics.read, ask)
        audit = gateway.audit
        self._ui_sessions = UiSessions(gateway.store, ring=replicas.ring if replicas else None)
        self._here = look_here(gateway, lambda: clients_of(sessions))
        self.around = Surroundings(gateway, self._here, replicas, has_workers=workers is not None)
        self._under_way = UnderWayPage(self.around.look_for_member, self.around.stop_for_member)
        self._sign_in = SignIn(
            gateway.config,
            self._protocols.keys(),
            lambda: self.address,
            gateway.tasks,
            self._make_grants,
            gateway.store,
            gateway.accounts.waiting,
            audit.act,
            audit.reject,
            self._ui_sessions,
        )
        self.dashboard = LazyDashboard(self._make_dashboard, gateway.tasks)
        self.app = App(
            self._mounts(gateway.config),
            self._guard(gateway.config),
            audit.reject,
            vouched=replicas.statements.admit if replicas else None,
            max_body=gateway.config.http.max_body,
        )

    async def read_metrics(self) -> Values:
        """Ours, or those of all workers of this machine; each replica reports its own."""
        return limit_tools(await self._worker_metrics.read()) if self._worker_metrics else self._metrics.read()

    def reconfigure(self, config: Config) -> None:
        """Serve another configuration from the next request on."""
        self._add_profiles(config)
        self._sign_in.reconfigure(config)
        self.app.reconfigure(self._mounts(config), self._guard(config))

    def serve_at(self, address: str) -> None:
        """Record the address at which we are reached."""
        self.address = address
        self._gateway.accounts.serve_at((self._gateway.config.http.public_url or address).rstrip("/"))

    def end_conversations(self) -> None:
        """Tell listening clients that we stop."""
        for protocol in self._protocols.values():
            protocol.closing.set()
        if self._replicas is not None:
            self._replicas.hand_over_sessions()
        self._sessions.end_all()

    async def close(self) -> None:
        if self._worker_metrics is not None:
            await asyncio.to_thread(self._worker_metrics.leave)
        self.lag.stop()
        await self._sign_in.close()

    def _add_profiles(self, config: Config) -> None:
        """Add an address for each new profile; a removed one keeps its address and shows nothing there."""
        for profile in config.profiles:
            if (path := f"/mcp/p/{profile.name}") not in self._protocols:
                self._protocols[path] = self._gateway.protocol(profile_name(profile.name), transport="tcp")

    def _guard(self, config: Config) -> Guard:
        keys, public = self._gateway.registry.keys, config.registry.public
        place = self._gateway.place if config.profiles else None
        return Guard(config.http, self._token, keys, door=self._sign_in.door, public=public, place=place)

    def _mounts(self, config: Config) -> tuple[Mount, ...]:
        replicas, protocols = self._replicas, self._protocols
        router = replicas and replicas.router
        most = config.http.max_body
        return (
            StreamableHttp(protocols, self._sessions, most, self._admission, self._sign_in.door, router),
            Health(self.leaving, lambda: replicas.problem if replicas else "", self._warn),
            Cards(self._card_paths, config.http.public_url),
            Callback(self._gateway.accounts),
            *self._sign_in.mounts,
            Rest(self._gateway.registry),
            MetricsPage(self.read_metrics),
            self.dashboard,
            *self._peer_mounts(config),
        )

    def _warn(self) -> str:
        if self._replicas is not None and self._replicas.warning:
            return self._replicas.warning
        problem = self._gateway.store.records_problem
        return f"Records of calls are lost: {problem}" if problem else ""

    def _peer_mounts(self, config: Config) -> tuple[Mount, ...]:
        """The mounts for the other members."""
        if self._replicas is None:
            return ()
        owned = self._replicas.mount(self._protocols["/mcp"], config.limits.max_message)
        results = ResultPage(self._gateway.results.load_here)
        return owned, self._under_way, PeerMetricsPage(self._metrics.read), results

    def _make_grants(self) -> "Grants":
        from wicket_mcp.identity.grants import Grants  # noqa: PLC0415  (for those who turn it on)
        from wicket_mcp.identity.holders import CredentialHolders  # noqa: PLC0415
        from wicket_mcp.identity.people import People  # noqa: PLC0415

        gateway = self._gateway
        people = People(gateway.store, lambda: gateway.config.http.issuers)
        holders = CredentialHolders(self._token, gateway.registry.keys, people)
        return Grants(gateway.store, holders, gateway.audit.act, ring=gateway.ring)

    def _make_dashboard(self) -> Preparable:
        from wicket_mcp.surface.dashboard.mount import Dashboard  # noqa: PLC0415  (for those who open it)

        def address() -> str:
            return f"{(self._gateway.config.http.public_url or self.address).rstrip('/')}/mcp"

        needs_token = self._token is not None
        source = source_of(self._gateway, self._here, address, self.around.others, needs_token=needs_token)
        return Dashboard(
            source,
            self._ui_sessions,
            self.app.identify,
            self._token,
            lambda: self._sign_in.people,
            lambda: self.address,
        )
