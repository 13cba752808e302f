"""Serving a gateway over HTTP: the applications at its addresses, its sessions, its start and its end.

Loaded only when HTTP is served. Knows the gateway's public parts and the surface; decides nothing about a call.
"""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack, closing
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING

from wicket_mcp.config.model.config import Config
from wicket_mcp.dialects import factory
from wicket_mcp.observing import observe, source_of
from wicket_mcp.rooms import profile_name
from wicket_mcp.surface.admission import Admission
from wicket_mcp.surface.asgi import App, Health, Mount
from wicket_mcp.surface.callback import Callback
from wicket_mcp.surface.cards import Cards
from wicket_mcp.surface.dashboard.lazy import LazyDashboard
from wicket_mcp.surface.guard import Guard, check_exposure
from wicket_mcp.surface.metrics import MetricsPage
from wicket_mcp.surface.rest import Rest
from wicket_mcp.surface.server import LAST_CALL, address_of, listen, make_server
from wicket_mcp.surface.sessions import Sessions
from wicket_mcp.surface.sign_in import SignIn
from wicket_mcp.surface.streamable_http import StreamableHttp
from wicket_mcp.telemetry.loop_lag import LoopLag

if TYPE_CHECKING:
    from wicket_mcp.app import Gateway
    from wicket_mcp.identity.grants import Grants
    from wicket_mcp.replicas import Replicas as AllReplicas


async def serve_http(
    gateway: "Gateway",
    stop: asyncio.Event,
    dialects: tuple[str, ...],
    token: str | None,
    on_ready: Callable[[str], None],
    listener: socket | None = None,
    workers: Path | None = None,
) -> None:
    """Serve until `stop` is set; then finish what is in flight. `on_ready` gets our address.

    With a `listener`, connections are accepted there; it belongs to somebody else, who goes on listening. `workers` is
    the folder in which those who accept at the same socket find each other.
    """
    http = gateway.config.http
    check_exposure(http, authenticated=token is not None)
    protocols = {"/mcp": gateway.protocol(*dialects)}
    protocols |= {f"/mcp/{name}": gateway.protocol(name) for name in factory.NAMES}

    def add_profiles(config: Config) -> None:
        """An address for each profile that has none; one that is gone keeps its address and shows nothing there."""
        for profile in config.profiles:
            if (path := f"/mcp/p/{profile.name}") not in protocols:
                protocols[path] = gateway.protocol(profile_name(profile.name))
        for protocol in protocols.values():
            protocol.trace = gateway.tracing.server("tcp") if gateway.tracing else None

    add_profiles(gateway.config)
    leaving = asyncio.Event()
    gateway.pool.serve_many()

    def end_session(session: str) -> None:
        gateway.tasks.start(gateway.pool.close_session(session), "end session")

    sessions = Sessions(end_session, gateway.outbox_counters)
    sessions.on_duration = gateway.tracing.end_session if gateway.tracing else None
    gateway.feed.subscribe(sessions.changed)
    replicas: AllReplicas | None = None
    if gateway.config.store is not None or workers is not None:
        from wicket_mcp.replicas import Replicas  # noqa: PLC0415  (for those who have some)

        replicas = await Replicas.open(gateway, sessions)
    lag = LoopLag()
    admission = Admission(lag)
    metrics = observe(gateway, sessions, lag, admission)

    def grants() -> "Grants":
        from wicket_mcp.identity.grants import Grants  # noqa: PLC0415  (for those who turn it on)
        from wicket_mcp.identity.holders import CredentialHolders  # noqa: PLC0415
        from wicket_mcp.identity.people import People  # noqa: PLC0415

        people = People(gateway.store, lambda: gateway.config.http.issuers)
        holders = CredentialHolders(token, gateway.registry.keys, people)
        seal = replicas.ring.derive("grants")[0] if replicas else b""
        return Grants(gateway.store, holders, gateway.audit.act, seal=seal)

    sign_in = SignIn(
        gateway.config, tuple(protocols), gateway.tasks, grants, gateway.store, gateway.audit.act, gateway.audit.reject
    )

    def guard(config: Config) -> Guard:
        return Guard(config.http, token, gateway.registry.keys, door=sign_in.door, public=config.registry.public)

    def mounts(config: Config) -> tuple[Mount, ...]:
        mcp = StreamableHttp(
            protocols, sessions, config.http.max_body, admission, sign_in.door, replicas and replicas.router
        )
        return (
            mcp,
            Health(leaving, lambda: replicas.problem if replicas else ""),
            Cards(tuple(protocols)),
            Callback(gateway.accounts),
            *sign_in.mounts,
            Rest(gateway.registry),
            MetricsPage(metrics),
            dashboard,
            *((replicas.mount(protocols["/mcp"], config.http.max_body),) if replicas else ()),
        )

    def make_dashboard() -> Mount:
        from wicket_mcp.surface.dashboard.mount import Dashboard  # noqa: PLC0415  (for those who open it)
        from wicket_mcp.surface.dashboard.sessions import UiSessions  # noqa: PLC0415

        people = UiSessions(ring=replicas.ring if replicas else None)
        return Dashboard(source_of(gateway, lambda: f"{address}/mcp"), people, app.identify, token)

    address = ""
    dashboard = LazyDashboard(make_dashboard)

    def reconfigure(config: Config) -> None:
        add_profiles(config)
        sign_in.reconfigure(config)
        app.reconfigure(mounts(config), guard(config))

    app = App(mounts(gateway.config), guard(gateway.config), gateway.audit.reject)
    if replicas is not None:
        app.vouched = replicas.relay.admit
    gateway.on_reload.append(reconfigure)
    gateway.attend()
    async with AsyncExitStack() as ending:
        ending.push_async_callback(sign_in.close)
        sock = ending.enter_context(closing(listener or listen(http.host, http.port)))
        server = make_server(app, last_call=0.0 if listener is None else LAST_CALL)
        lag.start()
        ending.callback(lag.stop)
        inner = None if workers is None else ending.enter_context(closing(listen("127.0.0.1", 0)))
        sockets = [sock] if inner is None else [sock, inner]
        serving = gateway.tasks.start(server.serve(sockets), "http", awaited=True)
        address = address_of(sock)
        gateway.accounts.address = (http.public_url or address).rstrip("/")
        if replicas is not None:
            ending.push_async_callback(replicas.close)
            if workers is not None and inner is not None:
                await replicas.join_workers(workers, address_of(inner))
            else:
                await replicas.join(http, sock.getsockname()[1])
        on_ready(f"{address}/mcp")
        waiting = gateway.tasks.start(stop.wait(), "stop")
        await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
        leaving.set()
        if replicas is not None:
            await replicas.leave()
        if gateway.config.http.leave_after and not serving.done():
            await asyncio.wait({serving}, timeout=gateway.config.http.leave_after)
        for protocol in protocols.values():
            protocol.closing.set()
        sessions.end_all()
        server.should_exit = True
        await serving
