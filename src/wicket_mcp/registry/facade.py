"""The registry's facade: everything that the `bridge` dialect, the REST API and the command line use.

Builds the parts of this package from the configuration, checks each request (scope, rate), and combines what several
parts know about one server. `app.py` creates it and closes it.
"""

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from wicket_mcp.catalog.catalogue import Catalogue
from wicket_mcp.config.model.config import Config
from wicket_mcp.errors import UnknownName
from wicket_mcp.identity.keys import Keys
from wicket_mcp.model import LOCAL, Caller, JsonObject, Principal
from wicket_mcp.registry import server_json
from wicket_mcp.registry.adhoc import Guests, label_of
from wicket_mcp.registry.advisor import advisor_of, reorder
from wicket_mcp.registry.discovery import Advice, advise
from wicket_mcp.registry.domains import Domains, timestamp
from wicket_mcp.registry.health import MAIN_WINDOW, Health, Measurement
from wicket_mcp.registry.index import RecordIndex
from wicket_mcp.registry.managed import Managed
from wicket_mcp.registry.onboarding import Onboarding, Progress
from wicket_mcp.registry.probes import Probes
from wicket_mcp.registry.service import Registry
from wicket_mcp.registry.settings import read
from wicket_mcp.request import Handler
from wicket_mcp.spelling import nearest
from wicket_mcp.store.base import Store
from wicket_mcp.store.model import StoredRecord
from wicket_mcp.tasks import Tasks
from wicket_mcp.upstream.egress_rules import EgressRules
from wicket_mcp.upstream.pool import Pool

USAGE_WINDOW = 30 * 86400.0
MAX_HEALTH = 100


@dataclass(frozen=True, slots=True)
class RatedRecord:
    """A record with its local measurements."""

    id: str
    record: StoredRecord
    health_score: int | None
    usage_count: int


@dataclass(frozen=True, slots=True)
class ServerHealth:
    """A server that runs here or is registered, and its health over each window."""

    id: str
    title: str
    windows: Mapping[str, Measurement]

    @property
    def main(self) -> Measurement:
        return self.windows[MAIN_WINDOW]


class RegistryFacade:
    """Everything that callers request from the registry; each request is checked against scope and rate first."""

    def __init__(
        self,
        config: Config,
        store: Store,
        pool: Pool,
        catalogue: Catalogue,
        forward: Handler,
        guard: Callable[[], Callable[[Handler], Handler]],
        clock: Callable[[], float] = time.time,
        pinned: Callable[[], bool] = lambda: False,
        act: Callable[[str, str, str], None] = lambda principal, act, detail: None,
        act_on: Callable[[str, str, str], None] = lambda principal, act, server: None,
        on_holder: Callable[[str, str], None] = lambda owner, earlier: None,
    ) -> None:
        """`pinned` returns whether the user has favourite tools; `act` and `act_on` are called for the audit;
        `on_holder`: see `Keys`.
        """
        self.act_on = act_on
        settings = config.registry
        terms = read(settings)
        self.rules = EgressRules(terms.allowed)
        self.store = store
        self._pool = pool
        self._catalogue = catalogue
        self._clock = clock
        self._pinned = pinned
        self.guests = Guests(self.rules, guard)
        self.advisor = advisor_of(os.environ)
        self.keys = Keys(store, terms.rates, clock, on_holder)
        self.domains = Domains(store, terms, clock)
        self.registry = Registry(store, store, self.domains, act, clock)
        self.health = Health(store, clock)
        self.onboarding = Onboarding(store, clock)
        self.managed = Managed(store, store, pool, catalogue, self.guests.client, self.rules, config, clock)
        self.probes = Probes(
            store, pool, self.managed, self.registry, self.guests, forward, every=settings.probe_every, clock=clock
        )

        self._tasks = Tasks()

    def reconfigure(self, config: Config) -> None:
        """Use another configuration from now on; call it before the pool and the catalogue apply its servers.

        Raises ConfigError if it cannot be used, and then nothing has changed.
        """
        terms = read(config.registry)
        self.domains.use(terms)
        self.keys.use(terms.rates)
        self.rules.use(terms.allowed)
        self.guests.client.recheck()
        self.probes.use(config.registry.probe_every)
        if self.managed.use(config):
            self._tasks.start(self.managed.restore(), "restore installed servers")

    async def wait_until_settled(self) -> None:
        """Wait for the background work of a new configuration."""
        await self._tasks.wait()

    async def close(self) -> None:
        await self._tasks.close()
        await self.probes.close()
        await self.guests.close()
        if self.advisor is not None:
            await self.advisor.close()

    # Finding

    async def discover(
        self, query: str, principal: Principal, *, limit: int, category: str = "", tags: tuple[str, ...] = ()
    ) -> tuple[list[RatedRecord], int]:
        """The matching records, and their total number."""
        await self.keys.admit(principal, "discover", "discovery")
        index = await self.registry.index()
        names = index.filter(category, tags) if category or tags else None
        matches = await asyncio.to_thread(index.search, query, names)
        await self.onboarding.took(principal, "first_discovery")
        return await self._describe(index, [match.record for match in matches[:limit]], principal), len(matches)

    async def advise(
        self, query: str, context: str, limit: int, principal: Principal
    ) -> tuple[Advice, list[RatedRecord]]:
        """Recommendations for a need, and what is known about each, in the same order."""
        await self.keys.admit(principal, "discover", "discovery")
        index = await self.registry.index()
        scores = await self._scores(index)
        advice = await asyncio.to_thread(advise, index, query, context, limit, scores)
        await self.onboarding.took(principal, "first_discovery")
        known = await self._describe(index, [known_server.record for known_server in advice.recommendations], principal)
        if self.advisor is None or len(known) < 2:
            return advice, known
        about = {known_server.id: server_json.long_description(known_server.record.body) for known_server in known}
        order = await self.advisor.order(f"{query} {context}".strip(), about)
        ids = [known_server.id for known_server in known]
        ordered = tuple(reorder(list(zip(ids, advice.recommendations, strict=True)), order))
        return replace(advice, recommendations=ordered), reorder(list(zip(ids, known, strict=True)), order)

    async def progress(self, principal: Principal) -> Progress:
        """The onboarding progress of a principal."""
        if principal == LOCAL and self._pinned():
            await self.onboarding.took(principal, "favourite_pinned")
        return await self.onboarding.progress(principal)

    async def suggestions(self, limit: int = 2) -> list[str]:
        """Suggested servers that are not here yet: the most used, then the first of the seed file."""
        index = await self.registry.index()
        linked = self.links(index)
        calls = await self.store.call_counts(self._clock() - USAGE_WINDOW)
        absent = [record for name, record in index.records.items() if not linked[name]]
        absent.sort(key=lambda record: (-calls.get(record.name, 0), _place(record), record.name))
        return [index.ids[record.name] for record in absent[:limit]]

    async def describe(self, record: StoredRecord, principal: Principal) -> RatedRecord | None:
        """The measurements of a record, of servers that `principal` may see; None if it is not the latest version."""
        index = await self.registry.index()
        if record.name not in index.records:
            return None
        (known,) = await self._describe(index, [record], principal)
        return known

    async def _describe(
        self, index: RecordIndex, records: list[StoredRecord], principal: Principal
    ) -> list[RatedRecord]:
        shows = self._catalogue.now.policy.shows
        linked = self.links(index)
        calls = await self.store.call_counts(self._clock() - USAGE_WINDOW)
        known: list[RatedRecord] = []
        for record in records:
            servers = (record.name, *(name for name in linked[record.name] if shows(principal, name)))
            scores = [score for server in servers if (score := await self.health.score(server)) is not None]
            usage = sum(calls.get(server, 0) for server in servers)
            known.append(RatedRecord(index.ids[record.name], record, max(scores, default=None), usage))
        return known

    async def _scores(self, index: RecordIndex) -> dict[str, int | None]:
        seen = set(await self.store.observed_servers(self._clock() - 86400.0))
        linked = self.links(index) if seen else {}
        scores: dict[str, int | None] = {}
        for name, servers in linked.items():
            for server in seen & {name, *servers}:
                scores[name] = await self.health.score(server)
        return scores

    def links(self, index: RecordIndex) -> dict[str, list[str]]:
        """Which servers here were started from which record: by its package or its address."""
        by_package: dict[str, list[str]] = {}
        for name, config in self._catalogue.servers.items():
            for word in (config.url or "", *config.args):
                by_package.setdefault(word.rstrip("/"), []).append(name)
                by_package.setdefault(_strip_version(word), []).append(name)
        return {
            name: sorted({server for key in _identities(record.body) for server in by_package.get(key, ())})
            for name, record in index.records.items()
        }

    # Health

    async def measure(self, server: str | None, limit: int, principal: Principal) -> list[ServerHealth]:
        """One server's health, which is monitored from now on; or that of all servers here. Raises UnknownName."""
        await self.keys.admit(principal, "discover", "health")
        if server is not None:
            return [await self._measure_one(server, principal)]
        seen = await self._visible_servers(principal)
        names = list(dict.fromkeys([*self._catalogue.servers, *sorted(seen)]))[: min(limit, MAX_HEALTH)]
        index = await self.registry.index()
        return [await self._measure(name, index) for name in names]

    async def _visible_servers(self, principal: Principal) -> set[str]:
        """The servers that were called or probed recently: those of this gateway and of the registry, and what the
        principal called.

        Addresses that another principal used are not shown.
        """
        index = await self.registry.index()
        own = {key.rpartition(".")[0] for key in await self.store.usage(principal)}
        public = {*self._catalogue.servers, *index.records, *own}
        return {name for name in await self.store.observed_servers(self._clock() - USAGE_WINDOW) if name in public}

    async def _measure_one(self, server: str, principal: Principal) -> ServerHealth:
        index = await self.registry.index()
        record = index.get(server)
        target = server if self._pool.config(server) is not None else ""
        if not target and record is not None:
            target = next(iter(self.links(index)[record.name]), record.name)
        if not target:
            if server in await self._visible_servers(principal):
                target = server
            else:
                known = [*self._catalogue.servers, *index.ids.values()]
                raise UnknownName("server", server, nearest(server, known), hint="Check that it is in the registry.")
        await self.probes.watch(target)
        measured = await self._measure(target, index)
        if record is not None:
            return ServerHealth(index.ids[record.name], server_json.title(record.body), measured.windows)
        return measured

    async def _measure(self, server: str, index: RecordIndex) -> ServerHealth:
        config = self._catalogue.servers.get(server)
        record = index.records.get(server)
        title = config.title if config else server_json.title(record.body) if record else server
        shown_id = index.ids[server] if record else server
        return ServerHealth(shown_id, title, await self.health.measure(server))

    # Calling

    async def invoke(
        self, endpoint: str, tool: str, arguments: JsonObject, headers: Mapping[str, str], caller: Caller
    ) -> JsonObject:
        """Call a tool at an address. Raises WicketError."""
        index = await self.registry.index()
        label = next(
            (name for name, record in index.records.items() if endpoint in server_json.remotes(record.body)), ""
        )
        result = await self.guests.call(endpoint, tool, arguments, headers, caller, label or label_of(endpoint))
        await self.onboarding.took(caller.principal, "first_invocation")
        return result


def response(record: StoredRecord, known: RatedRecord | None = None) -> JsonObject:
    """A record in the format of the registry's API."""
    about: JsonObject = {
        "status": record.status,
        "publishedAt": timestamp(record.published_at),
        "updatedAt": timestamp(record.updated_at),
        "isLatest": record.latest,
    }
    meta: JsonObject = {server_json.OFFICIAL: about}
    if known is not None:
        meta["wicket/registry"] = {"health_score": known.health_score, "usage_count": known.usage_count}
    return {"server": record.body, "_meta": meta}


def _identities(body: JsonObject) -> list[str]:
    packages: Any = body.get("packages") or []
    return [
        *(str(package.get("identifier", "")) for package in packages),
        *(a.rstrip("/") for a in server_json.remotes(body)),
    ]


def _strip_version(word: str) -> str:
    """A package without its version: `@scope/name@1.2` and `name==1.2` name the same package as without."""
    head, at, _ = word.rpartition("@")
    return head if at and head else word.partition("==")[0]


def _place(record: StoredRecord) -> int:
    place: Any = server_json.publisher_meta(record.body).get("place")
    return place if isinstance(place, int) else 1000
