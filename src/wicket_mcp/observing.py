"""Observing a served gateway: metrics from the audit and the live parts, and the data of the dashboard.

Created by `serving.py`, so that a gateway over stdio does not load it. Knows the gateway's public parts; decides
nothing about a call.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import to_builtins
from msgspec.structs import replace

from wicket_mcp.catalog.listing import fingerprint
from wicket_mcp.catalog.snapshot import Snapshot, changed_tools
from wicket_mcp.errors import ConfigError, Unavailable
from wicket_mcp.identity.approver import Approver
from wicket_mcp.model import JsonObject, Principal, Tool
from wicket_mcp.reload import read_again
from wicket_mcp.store.model import CallRecord, StoredPin
from wicket_mcp.store.records import is_call
from wicket_mcp.surface.admission import Admission
from wicket_mcp.surface.neighbours import Gate, Neighbours, Question
from wicket_mcp.surface.sessions import Sessions
from wicket_mcp.surface.under_way import (
    LOOK_BESIDE,
    LOOK_BEYOND,
    LOOK_WITHIN,
    ConnectedClient,
    Glimpse,
    Here,
    Load,
    merge,
)
from wicket_mcp.tasks import Tasks
from wicket_mcp.telemetry.loop_lag import LoopLag
from wicket_mcp.telemetry.metrics import Metrics, Reading, Values

if TYPE_CHECKING:
    from wicket_mcp.app import Gateway
    from wicket_mcp.surface.dashboard.source import Source

MAX_TOOLS = 500
"""The most tools with their own label; above this number no tool has one."""
CHARS_PER_TOKEN = 4


class CallCounter:
    """Counts the records of the audit."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._calls: dict[tuple[str, str, str], int] = {}
        self._tools: set[tuple[str, str]] = set()

    def __call__(self, records: Sequence[CallRecord]) -> None:
        by_server: dict[str, list[CallRecord]] = {}
        for record in records:
            if not is_call(record):
                continue
            # Callers can make up unknown names and resource addresses, so these get no label.
            is_known = record.server and record.method == "tools/call" and record.outcome != Unavailable.code
            tool = record.tool if is_known else ""
            if tool and len(self._tools) <= MAX_TOOLS:
                self._tools.add((record.server, tool))
            key = record.server, tool if len(self._tools) <= MAX_TOOLS else "", record.outcome
            self._calls[key] = self._calls.get(key, 0) + 1
            by_server.setdefault(record.server, []).append(record)
        observe = self._metrics.observe
        for server, calls in by_server.items():
            observe("wicket_call_duration_seconds", [call.duration_ms / 1000 for call in calls], server)
            own_seconds = [(call.duration_ms - call.upstream_ms) / 1000 for call in calls]
            observe("wicket_gateway_duration_seconds", own_seconds)
            observe("wicket_results_bytes", [call.result_bytes for call in calls])

    def read(self) -> Iterable[Reading]:
        """The calls by server, tool and outcome; without tools if there are too many."""
        many = len(self._tools) > MAX_TOOLS
        totals: dict[tuple[str, str, str], int] = {}
        for (server, tool, outcome), count in self._calls.items():
            key = server, "" if many else tool, outcome
            totals[key] = totals.get(key, 0) + count
        return [("wicket_calls_total", key, count) for key, count in totals.items()]


def observe(gateway: "Gateway", sessions: Sessions, lag: LoopLag, admission: Admission) -> Metrics:
    """Register the metrics of `gateway`."""
    metrics = Metrics()
    calls = CallCounter(metrics)
    gateway.audit.listen(calls)

    def read_calls() -> Iterable[Reading]:
        gateway.audit.flush()
        return calls.read()

    metrics.read_from(read_calls)
    metrics.read_from(lambda: _read_upstreams(gateway))
    metrics.read_from(lambda: _read_gateway(gateway, sessions, lag, admission))

    def count_changes(old: Snapshot, new: Snapshot) -> None:
        for server, listing in new.listings.items():
            before = old.listings.get(server)
            if before is not None and (names := changed_tools(before.tools, listing.tools)):
                metrics.add("wicket_tools_changed_total", server, by=len(names))

    gateway.catalogue.watch(count_changes)
    return metrics


def _read_upstreams(gateway: "Gateway") -> Iterable[Reading]:
    loads = {load.server: load for load in gateway.pool.loads()}
    for server in gateway.catalogue.servers:
        load = loads.get(server)
        yield "wicket_upstream_up", (server,), float(load is not None and load.state == "ready")
        yield "wicket_upstream_breaker_open", (server,), float(load is not None and load.state == "broken")
        own = None if load is None or load.relayed else load  # the member that runs a server counts for all
        yield "wicket_upstream_in_flight", (server,), own.calls if own else 0
        yield "wicket_upstream_waiting", (server,), own.waiting if own else 0
        yield "wicket_upstream_restarts_total", (server,), gateway.pool.restarts(server)
        yield "wicket_upstream_strays_total", (server,), gateway.pool.strays(server)


def _read_gateway(gateway: "Gateway", sessions: Sessions, lag: LoopLag, admission: Admission) -> Iterable[Reading]:
    audit, counters = gateway.audit, gateway.outbox_counters
    yield "wicket_calls_in_flight", (), len(audit.running)
    yield "wicket_sessions", (), len(sessions)
    yield "wicket_held_calls", (), len(gateway.held)
    yield "wicket_event_loop_lag_seconds", (), lag.take()
    yield "wicket_event_loop_held_total", (), lag.held_times
    yield "wicket_requests_rejected_total", (), admission.rejected
    yield "wicket_audit_lost_total", (), gateway.lost_records
    yield "wicket_audit_waiting", (), gateway.store.waiting_records
    yield "wicket_auth_failures_total", (), audit.rejections
    yield "wicket_background_failures_total", (), Tasks.failed
    yield "wicket_outbox_dropped_total", (), counters.dropped
    yield "wicket_outbox_replaced_total", (), counters.replaced
    if gateway.tracing is not None:
        yield "wicket_export_lost_total", (), gateway.tracing.lost
    for labels, count in gateway.scripting.outcomes.items():
        yield "wicket_scripts_total", labels, count
    for labels, count in gateway.accounts.refreshes.items():
        yield "wicket_oauth_refresh_total", labels, count
    for labels, characters in audit.disclosed.items():
        yield "wicket_tokens_disclosed_total", labels, -(-characters // CHARS_PER_TOKEN)


def _write_enabled(path: Path, server: str, enabled: bool) -> None:
    from wicket_mcp.config.edit import wicket_toml  # noqa: PLC0415  (for those who change something)

    wicket_toml.save(path, wicket_toml.set_enabled(path.read_text("utf-8"), server, enabled, path))


def look_here(gateway: "Gateway", clients: Callable[[], Sequence[ConnectedClient]]) -> Here:
    """The activity in this process; `clients` returns those that are connected."""
    pool = gateway.pool

    def loads() -> dict[str, Load]:
        return {
            load.server: Load(
                load.calls,
                load.waiting,
                load.restarts,
                load.state,
                pool.state(load.server)[1],
                greeting.protocol_version if (greeting := pool.greeting(load.server)) else "",
                load.relayed,
                load.hint,
            )
            for load in pool.loads()
        }

    return Here(gateway.audit, gateway.held, loads, clients, lambda: gateway.lost_records, pool.stderr)


def clients_of(sessions: Sessions) -> list[ConnectedClient]:
    """The clients with a session over HTTP."""
    now = time.monotonic()
    return [
        ConnectedClient(session.principal.id, session.client.name, session.client.version, "http", now - session.began)
        for session in sessions.list()
    ]


async def stop_server(gateway: "Gateway", server: str) -> None:
    """Close the server's connections here once their calls have ended."""
    for upstream in gateway.pool.release_connections(server):
        gateway.tasks.start(upstream.retire(), f"stop {server}")


def limit_tools(values: Values) -> Values:
    """Without the label `tool` if all processes together have called too many."""
    calls = "wicket_calls_total"
    tools = {labels[:2] for name, labels, _ in values.readings if name == calls and labels[1]}
    if len(tools) <= MAX_TOOLS:
        return values
    totals: dict[tuple[str, ...], float] = {}
    for _, (server, _, outcome), value in (reading for reading in values.readings if reading[0] == calls):
        totals[server, "", outcome] = totals.get((server, "", outcome), 0) + value
    others = [reading for reading in values.readings if reading[0] != calls]
    return Values([*others, *((calls, labels, value) for labels, value in totals.items())], values.histograms)


class Others(Protocol):
    """The other members of a gateway that has several, or its neighbours on this machine."""

    async def look_around(
        self, principal: Principal, server: str = "", within: float = LOOK_WITHIN
    ) -> Sequence[Glimpse]: ...

    async def stop_elsewhere(self, server: str, principal: Principal) -> None: ...


class Surroundings:
    """The other processes that a gateway over HTTP shows, and what it reports to them.

    A page asks the members and the neighbours. A neighbour that asks us knows no replicas on other machines, so we ask
    them for it; a replica knows no neighbours of ours. Workers are each other's neighbours: nobody must ask for them.
    """

    def __init__(self, gateway: "Gateway", here: Here, members: Others | None, *, has_workers: bool) -> None:
        self._gateway = gateway
        self._here = here
        self._replicas = None if has_workers else members
        state = gateway.config.state_path
        self.gate = Gate(state, self._answer)
        self._neighbours = Neighbours(state, self.gate.path, alone=True)
        self.others: Sequence[Others] = [self._neighbours, *filter(None, [members])]

    async def look_for_member(self, principal: Principal, server: str) -> Glimpse:
        glimpse = self._here.look(principal, server)
        if self._replicas is None:
            return glimpse
        return replace(glimpse, beside=tuple(await self._neighbours.look_around(principal, server, LOOK_BESIDE)))

    async def stop_for_member(self, server: str, principal: Principal) -> None:
        await stop_server(self._gateway, server)
        if self._replicas is not None:
            await self._neighbours.stop_elsewhere(server, principal)

    async def _answer(self, question: Question) -> JsonObject:
        asker, server = question.asker, question.server
        replicas = None if question.alone else self._replicas
        if not question.stop:
            glimpse = self._here.look(asker, server)
            beside = () if replicas is None else await replicas.look_around(asker, server, LOOK_BEYOND)
            return to_builtins(replace(glimpse, beside=tuple(beside)))
        if asker.may("admin"):
            await stop_server(self._gateway, server)
            if replicas is not None:
                await replicas.stop_elsewhere(server, asker)
        return {}


def source_of(
    gateway: "Gateway",
    here: Here,
    address: Callable[[], str],
    others: Sequence[Others],
    *,
    needs_token: bool = True,
) -> "Source":
    """The gateway as the dashboard sees it, together with the `others`."""
    from wicket_mcp.identity.grants import Grants  # noqa: PLC0415  (for those who open it)
    from wicket_mcp.identity.holders import CredentialHolders  # noqa: PLC0415
    from wicket_mcp.surface.dashboard.source import Source  # noqa: PLC0415
    from wicket_mcp.trust.always import FILE as ALWAYS_FILE  # noqa: PLC0415
    from wicket_mcp.trust.always import Always  # noqa: PLC0415

    catalogue = gateway.catalogue

    async def sign_in(server: str, principal: Principal) -> str:
        return (await gateway.accounts.sign_ins.begin(catalogue.servers[server], principal)).link

    async def give(server: str, principal: Principal, keys: dict[str, str]) -> None:
        await gateway.accounts.give(catalogue.servers[server], principal, keys)

    async def under_way(principal: Principal, server: str = "") -> Glimpse:
        elsewhere = await asyncio.gather(*(part.look_around(principal, server) for part in others))
        return merge([here.look(principal, server), *(glimpse for glimpses in elsewhere for glimpse in glimpses)])

    async def pins(tool: Tool) -> Sequence[StoredPin]:
        name, source = tool.own_name or tool.name, fingerprint(catalogue.servers[tool.server])
        every = await gateway.store.pins(tool.server)
        return [pin for pin in every if (pin.source, pin.kind, pin.name) == (source, "tool", name)]

    async def stop(server: str, principal: Principal) -> None:
        await stop_server(gateway, server)
        for part in others:
            await part.stop_elsewhere(server, principal)

    async def enable(server: str, enabled: bool) -> None:
        path = gateway.config.path
        if path is None or path.suffix != ".toml":
            hint = "Change them where they are configured."
            raise ConfigError("The servers of this gateway do not come from a wicket.toml.", hint=hint)
        await asyncio.to_thread(_write_enabled, path, server, enabled)
        if (config := await read_again(path, gateway.config)) is not None:
            gateway.apply(config)

    return Source(
        config=lambda: gateway.config,
        verbs=lambda: gateway.verbs,
        store=gateway.store,
        approvals=gateway.store,
        approver=Approver(gateway.store),
        always=lambda: Always(gateway.store, gateway.config.state_path / ALWAYS_FILE),
        audit=gateway.audit,
        keys=gateway.registry.keys,
        grants=lambda: Grants(gateway.store, CredentialHolders(None, gateway.registry.keys), gateway.audit.act),
        credentials=gateway.store.secrets,
        place=gateway.place,
        needs_token=needs_token,
        address=address,
        under_way=under_way,
        pins=pins,
        explain=gateway.finder.explain,
        signed_out=lambda principal: gateway.accounts.missing(catalogue.servers.values(), principal),
        sign_in=sign_in,
        give=give,
        held=lambda: [held for server in catalogue.servers for held in catalogue.held_entries(server).values()],
        failures=lambda: catalogue.failures,
        accept=catalogue.approve,
        enable=enable,
        start=catalogue.renew,
        stop=stop,
    )
