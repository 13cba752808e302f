"""Probes servers in the background: few at a time, at jittered intervals, and only those that are in use or monitored.

In use are servers with a call in the last minutes; monitored are running installed ones, and those whose health was
requested within a day. A local server that does not run is never started for this, and one that runs with its users'
keys is not probed. A record that is not installed is probed at its public address, under the egress rules.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable

from wicket_mcp.errors import NeedsSignIn, WicketError
from wicket_mcp.model import LOCAL
from wicket_mcp.registry import server_json
from wicket_mcp.registry.adhoc import Guests
from wicket_mcp.registry.managed import Managed
from wicket_mcp.registry.service import Registry
from wicket_mcp.request import Handler, internal
from wicket_mcp.store.base import HealthStore
from wicket_mcp.store.model import Observation
from wicket_mcp.tasks import Tasks
from wicket_mcp.upstream.lifecycle import State
from wicket_mcp.upstream.pool import Pool

log = logging.getLogger(__name__)

IN_USE = 300.0  # seconds after its last call for which a server counts as in use
WATCH_FOR = 86400.0
KEEP = 8 * 86400.0
AT_ONCE = 4
TIMEOUT = 5.0
JITTER = 0.2  # of the interval, either way


class Probes:
    """Probes servers in the background, a few at a time; `use` changes the interval, `close` ends it."""

    def __init__(
        self,
        store: HealthStore,
        pool: Pool,
        managed: Managed,
        registry: Registry,
        guests: Guests,
        forward: Handler,
        *,
        every: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._pool = pool
        self._managed = managed
        self._registry = registry
        self._guests = guests
        self._forward = forward
        self._every = every
        self._clock = clock
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._tasks = Tasks()
        self._wanted = False
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start probing, unless the configuration disables it."""
        self._wanted = True
        if self._every and self._running is None:
            self._running = self._tasks.start(self._run(self._every), "health probes")

    @property
    def running(self) -> bool:
        return self._running is not None

    def use(self, every: float) -> None:
        """Change the time between two rounds; 0 ends them."""
        if every == self._every:
            return
        self._every = every
        if self._running is not None:
            self._running.cancel()
            self._running = None
        if self._wanted:
            self.start()

    async def close(self) -> None:
        await self._tasks.close()

    async def watch(self, server: str) -> None:
        """A user asked about this server: monitor it for a day."""
        await self._store.watch(server, self._clock() + WATCH_FOR)

    async def round(self) -> frozenset[str]:
        """Probe everything that is due, once; returns the names."""
        due = await self._due()
        probed = await asyncio.gather(*(self._probe(server) for server in sorted(due)))
        return frozenset(server for server in probed if server)

    async def _run(self, every: float) -> None:
        while True:
            await asyncio.sleep(every * random.uniform(1 - JITTER, 1 + JITTER))
            try:
                await self.round()
            except WicketError as problem:
                log.warning("a round of health probes failed: %s", problem)

    async def _due(self) -> set[str]:
        now = self._clock()
        used = set(await self._store.call_counts(now - IN_USE))
        return used | set(self._managed.running) | set(await self._store.watched_servers(now))

    async def _probe(self, server: str) -> str:
        async with self._slots:
            started, ok = time.monotonic(), True
            try:
                async with asyncio.timeout(TIMEOUT):
                    if not await self._ask(server):
                        return ""
            except NeedsSignIn:
                pass  # it answered: a missing account does not make it unhealthy
            except (WicketError, TimeoutError) as problem:
                ok = False
                log.info("probe of '%s' failed: %s", server, problem)
            elapsed = (time.monotonic() - started) * 1000
            now = self._clock()
            await self._store.save_probe(server, Observation(now, ok, not ok, elapsed), now - KEEP)
            return server

    async def _ask(self, server: str) -> bool:
        """Whether the server could be probed. Raises if it does not answer."""
        config = self._pool.config(server)
        if config is not None:
            runs = self._pool.state(server)[0] is State.READY or server in self._managed.running
            if config.url is None and (not runs or config.credentials == "user"):
                return False
            greeting = self._pool.greeting(server) or await self._pool.start(server)
            method = "server/discover" if greeting.modern else "ping"
            await self._forward(internal(server, method, {}, TIMEOUT))
            return True
        record = (await self._registry.index()).records.get(server)
        addresses = server_json.remotes(record.body) if record else []
        if not addresses:
            return False
        await self._guests.probe(addresses[0], LOCAL)
        return True
