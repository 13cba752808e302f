"""What all upstreams offer: immutable snapshots, stored on disk, renewed in the background.

A new process answers from the stored listings without connecting to anything. A server that was never listed is asked
once, when its listing is needed. After that a listing is renewed when the server reports a change, when it reconnects,
or when its time to live is over; no call waits for it, except one to a server whose changes are held. What another
process lists or accepts is taken in before the next such call, and soon by itself.
"""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack, suppress

from wicket_mcp.catalog.failures import STILL_STARTING, is_news
from wicket_mcp.catalog.listing import fingerprint, log_rejections, read_listing
from wicket_mcp.catalog.lookup import Lookup
from wicket_mcp.catalog.pace import RENEW_EVERY, Pace
from wicket_mcp.catalog.readers import Readers
from wicket_mcp.catalog.reported import Reported
from wicket_mcp.catalog.retries import Retries
from wicket_mcp.catalog.reviews import Reviews
from wicket_mcp.catalog.shares import merge, of_present_holders
from wicket_mcp.catalog.snapshot import Snapshot
from wicket_mcp.catalog.storage import ListingStorage
from wicket_mcp.catalog.view import View
from wicket_mcp.config.model.config import LimitsConfig, ProfileConfig, ServerConfig
from wicket_mcp.errors import CannotStart, ConfigError, NeedsSignIn, Unavailable, WicketError
from wicket_mcp.extensions import TASKS, declares
from wicket_mcp.model import LOCAL, Caller, JsonObject, Listing, Principal
from wicket_mcp.request import GATEWAY, Handler, internal
from wicket_mcp.store.base import ListingStore
from wicket_mcp.store.listings import alike
from wicket_mcp.store.model import StoredListing
from wicket_mcp.tasks import Tasks
from wicket_mcp.trust.pins import Entry, Held, Pins
from wicket_mcp.trust.policy import Policy
from wicket_mcp.upstream.announcements import heard_at
from wicket_mcp.upstream.events import UpstreamEvent
from wicket_mcp.upstream.lifecycle import State
from wicket_mcp.upstream.pool import Pool

log = logging.getLogger(__name__)

LISTING_TIMEOUT = 30.0
OTHERS_PATIENCE = 1.0  # seconds that a call waits for what other processes have stored
OWNER_PATIENCE = 5.0  # seconds until we list a server whose owner has heard of a change and has stored nothing
MAX_PAGES = 200  # of one of a server's lists


class Catalogue:
    """The current snapshot, and everything that creates a newer one."""

    def __init__(
        self,
        servers: Iterable[ServerConfig],
        pool: Pool,
        forward: Handler,
        store: ListingStore,
        limits: LimitsConfig,
        aliases: Mapping[str, str] | None = None,
        pins: Pins | None = None,
        profiles: Iterable[ProfileConfig] = (),
    ) -> None:
        self._profiles = tuple(profiles)
        self.servers: Mapping[str, ServerConfig] = {server.name: server for server in servers if server.enabled}
        self.failures: dict[str, str] = {}
        """Servers whose last listing failed, and why."""
        self.patience: float | None = None
        """Seconds that a search waits for servers that were never listed; None for no limit."""
        self._hopeless: set[str] = set()
        """Servers that cannot start until the user changes something: asked only by name."""
        self._aliases: Mapping[str, str] = aliases or {}
        """The user's short names for tools."""
        self._pool = pool
        self._forward = forward
        self.storage = ListingStorage(store)
        self._limits = limits
        self._reviews = Reviews(pins)
        self.now = Snapshot(0, {}, self.servers, self._aliases, self.failures, self._policy())
        self._loading: asyncio.Task[None] | None = None
        self._catching_up: asyncio.Task[None] | None = None
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """Held while a server's listing is reviewed, published and stored: what is older cannot come last."""
        self._reported = Reported()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._pace = Pace(lambda server: self._tasks.start(self.renew(server), f"renew {server}"))
        self._retries = Retries(self._schedule)
        self.unauthenticated: dict[str, str] = {}
        """Servers that could not be listed because a sign-in is missing, and why."""
        self._readers = Readers()
        self._watchers: list[Callable[[Snapshot, Snapshot], None]] = []
        self._tasks = Tasks()
        self.lookup = Lookup(self)

    def answer_within(self, seconds: float) -> None:
        """Limit how long a search waits for servers that were never listed."""
        self.patience = seconds

    def view(self, principal: Principal) -> View:
        """What is known now and `principal` may see."""
        return self.now.view(principal)

    def watch(self, watcher: Callable[[Snapshot, Snapshot], None]) -> None:
        """Call `watcher(old, new)` whenever a listing changed."""
        self._watchers.append(watcher)

    async def load(self) -> Snapshot:
        """The snapshot, after loading the stored listings. Cheap after the first time."""
        if self._loading is None:
            self._loading = self._tasks.start(self._take_in(), "load catalogue", awaited=True)
        if not self._loading.done():
            await asyncio.shield(self._loading)
        return self.now

    async def complete(
        self,
        servers: Iterable[str] | None = None,
        principal: Principal | None = None,
        *,
        patience: float | None = None,
    ) -> Snapshot:
        """The snapshot, after every server (of `servers`) that was never listed has been asked once, in parallel; of
        those that the profile of `principal` shows, if it has one.

        It waits at most `patience` seconds; slower servers are then reported as starting. Those in `servers` start
        before others. A server that fails is named in `failures` and never fails the others. It is asked again the
        next time, but only requests that name it wait for it. A server with user accounts is asked on behalf of
        `principal`.
        """
        await self.load()
        await self.catch_up()
        snapshot = self.now
        names = self.servers if servers is None else [name for name in servers if name in self.servers]
        if principal is not None and snapshot.policy.is_restricted(principal):
            names = [name for name in names if snapshot.policy.shows(principal, name)]
        unseen = [name for name in names if name not in snapshot.listings]
        starting = self._running if patience is None else ()
        awaited = [name for name in unseen if servers is not None or name not in self.failures or name in starting]
        if principal is not None:
            for name in unseen:
                self._readers.offer(self.servers[name], principal)
        for name in set(unseen) - set(awaited) - self._hopeless:
            self._schedule(name)
        if awaited:
            with self._pool.prefer(awaited if servers is not None else ()):
                await self._wait_for(awaited, principal, patience)
        self._renew_expired()
        return self.now

    async def _wait_for(self, servers: Iterable[str], principal: Principal | None, patience: float | None) -> None:
        """List these servers and wait this long; slower ones are reported, and available the next time."""
        tasks = {name: self._reading_for(name, principal) for name in servers}
        await asyncio.wait(tasks.values(), timeout=patience)
        for name, task in tasks.items():
            if task.done():
                task.result()
            elif name not in self.now.listings:
                self.failures[name] = STILL_STARTING

    def held_entries(self, server: str) -> Mapping[Entry, Held]:
        """The entries of a server that are not accepted yet and so cannot be called."""
        return self._reviews.held_entries(server)

    def listings_as_said(self) -> list[Listing]:
        """The servers' own listings, even if something else is shown."""
        return [self._reviews.as_said(listing) for listing in self.now.listings.values()]

    async def approve(self, held: Held, by: str) -> None:
        """Accept an entry of a server as it is now."""
        config = self.servers[held.server]
        await self._reviews.approve(held, config, by)
        for listing in await self._review_again([held.server]):
            await self.storage.keep(
                listing, fingerprint(config)
            )  # without the search segment, which was built from the shown listing

    async def _review_again(self, servers: Iterable[str]) -> list[Listing]:
        """Look through what these servers offer; the listings of which something else is shown."""
        changed: list[Listing] = []
        for server in servers:
            async with self._turns[server]:
                listing = self._find_own(server)
                if listing is None or server not in self.servers:
                    continue
                reviewed = await self._review(listing)
                if server in self.servers and reviewed != self.now.listings.get(server):
                    self._publish({**self.now.listings, server: reviewed})
                    changed.append(listing)
        return changed

    # What other processes decide, and what servers report

    async def catch_up(self) -> None:
        """Take in what other processes have listed and accepted. A state that does not answer holds nobody up."""
        if not self.storage.is_behind or self._loading is None or not self._loading.done():  # which reads everything
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(OTHERS_PATIENCE):
                for _ in range(2):  # what is under way may have begun too early
                    if not self.storage.is_behind:
                        return
                    if self._catching_up is None or self._catching_up.done():
                        self._catching_up = self._tasks.start(self._take_in(), "take in listings", awaited=True)
                    await asyncio.shield(self._catching_up)

    def is_current(self, server: str, caller: Caller) -> bool:
        """Whether everything is known that other processes decided, and that the server can have changed."""
        if self.storage.is_behind or self._reported.is_open(server):
            return False
        return self._pool.is_open(server, caller.principal, caller.session)

    async def settle(self, server: str, caller: Caller) -> None:
        """Wait until what others decided, and what the server has changed so far, is reviewed. A server that is not
        running is started first: it may be another version. Raises WicketError; then nothing was sent.
        """
        await self.catch_up()
        config = self.servers[server]
        await self._pool.start(server, caller.session, caller.principal)
        reports = self._reported.number(server)
        with suppress(TimeoutError):
            async with asyncio.timeout(config.timeout):
                for _ in range(2):  # a reading that is under way may have begun too early
                    if self._reported.is_open(server, reports):
                        self._readers.offer(config, caller.principal)
                        await asyncio.shield(self._reading(server))
        if self._reported.is_open(server, reports) and server in self.servers:
            text = f"Server '{server}' may have changed, and its tools could not be listed again; nothing was sent."
            raise Unavailable(server, text, hint=self.failures.get(server, "Try again in a moment."))

    async def _take_in(self) -> None:
        """Read, review and publish what was stored since the last time."""
        version = self.storage.version
        try:
            news = await self.storage.read()
            accepted = await self._reviews.read_accepted()
        except WicketError as problem:
            log.warning("what other processes stored about servers could not be read: %s", problem)
            return
        async with AsyncExitStack() as turns:
            reviews: dict[str, Listing] = {}
            for number, stored in news:
                server = stored.listing.server
                await turns.enter_async_context(self._turns[server])
                if self._is_wanted(number, stored):
                    reviews[server] = await self._review(self._choose_known(stored.listing))
            for number, stored in news:
                server = stored.listing.server
                if server in reviews and self._has_changed(server, stored.fingerprint):
                    del reviews[server]
                elif server in reviews:
                    self.storage.use(number, stored, known=self._find_own(server))
                    if self._reported.is_open(server) and self._reported.answer_all(server, stored.listing.listed_at):
                        self._pace.cancel(server)
            if any(listing != self.now.listings.get(server) for server, listing in reviews.items()):
                self._publish({**self.now.listings, **reviews})
        await self._review_again(server for server in accepted if server not in reviews)
        self.storage.catch_up_with(version)

    def _is_wanted(self, number: int, stored: StoredListing) -> bool:
        """Whether a stored listing is to be used in place of ours, if we have one."""
        server = stored.listing.server
        if self._has_changed(server, stored.fingerprint) or not self.storage.is_newer(server, number):
            return False
        return server not in self.now.listings or self.servers[server].credentials == "shared"

    def _find_own(self, server: str) -> Listing | None:
        """What a server said of itself when it was last listed."""
        listing = self.now.listings.get(server)
        return None if listing is None else self._reviews.as_said(listing)

    def _choose_known(self, listing: Listing) -> Listing:
        """The listing as we have it already, if it has the same content: its search segment stays valid."""
        current = self._find_own(listing.server)
        return current if current is not None and alike(current, listing) else listing

    async def _review(self, listing: Listing) -> Listing:
        """The listing as it may be shown."""
        config = self.servers.get(listing.server)
        return listing if config is None else await self._reviews.look_through(listing, config, self.now.tools)

    async def renew(self, server: str, principal: Principal | None = None) -> None:
        """Read the lists of `server` now; one reading at a time. Failures are recorded, not raised.

        With `principal`, who has an account there if each user has their own, a reading that has begun before, perhaps
        for another account, does not count.
        """
        config = self.servers.get(server)
        reader = self._readers.request(config, principal) if config is not None and principal is not None else ""
        await self._turn_of(server, reader)

    async def _turn_of(self, server: str, reader: str) -> None:
        """Wait for the reading that is under way, and for further ones until that of `reader` has ended."""
        await asyncio.shield(self._reading(server))
        while reader and self._readers.awaits(server, reader):
            await asyncio.shield(self._reading(server))

    def _reading_for(self, server: str, principal: Principal | None) -> "asyncio.Task[None]":
        """The first reading of `server`; if each user has an account there, that of the account of `principal`."""
        config = self.servers[server]
        if principal is None or config.credentials != "user":
            return self._reading(server)
        reader = self._readers.request_first(config, principal)
        return self._tasks.start(self._turn_of(server, reader), f"list {server} for {reader}", awaited=True)

    def _reading(self, server: str) -> "asyncio.Task[None]":
        task = self._running.get(server)
        if task is None:
            task = self._running[server] = self._tasks.start(self._renew(server), f"list {server}", awaited=True)
            task.add_done_callback(lambda _: self._end_renewal(server))
        return task

    def is_listing(self, server: str) -> bool:
        """Whether the lists of a server are being read."""
        return server in self._running

    def has_tasks(self, server: str) -> bool:
        """Whether a server declares that it may answer calls with tasks."""
        listing = self.now.listings.get(server)
        return listing is not None and declares(listing.capabilities, TASKS)

    def server(self, name: str) -> ServerConfig:
        """The configuration of the server that `name` means. Raises UnknownName with similar names."""
        return self.view(LOCAL).server(name)

    def add(self, server: ServerConfig) -> None:
        """Add a server; it is listed when its tools are needed."""
        self.servers = {**self.servers, server.name: server}
        self._publish(self.now.listings, self._policy())

    def remove(self, server: str) -> None:
        """Remove a server: its tools disappear from every list at once."""
        self.servers = {name: config for name, config in self.servers.items() if name != server}
        self._forget(server)
        self._publish(self.now.listings, self._policy())

    def _policy(self) -> Policy:
        return Policy(self.servers.values(), self._profiles)

    def swap(
        self,
        servers: Iterable[ServerConfig],
        aliases: Mapping[str, str],
        limits: LimitsConfig,
        profiles: Iterable[ProfileConfig] = (),
    ) -> None:
        """Apply another configuration: listings of servers with an unchanged connection stay."""
        self._aliases, self._limits, self._profiles = aliases, limits, tuple(profiles)
        old, self.servers = self.servers, {server.name: server for server in servers if server.enabled}
        same = {name for name in old if not self._has_changed(name, fingerprint(old[name]))}
        for name in old.keys() - same:
            self._forget(name)
        unchanged = {name: listing for name, listing in self.now.listings.items() if name in same}
        self._publish(unchanged, self._policy())
        others = [name for name in unchanged if self.servers[name] != old[name]]  # what is held may change
        self._tasks.start(self._review_again(others), "look again at what servers offer")

    def on_event(self, event: UpstreamEvent) -> None:
        """An upstream sent an unsolicited message, or has just connected."""
        server, config = event.server, self.servers.get(event.server)
        is_new = event.method == "connected"
        if config is None or not (is_new or event.method.endswith("/list_changed")):
            return
        self._readers.offer(config, event.principal)
        if server in self.now.listings and self._pool.is_relayed(server):  # its owner lists it, once for all
            self._reported.add(server, heard_at(event.params) or time.time())
            if not is_new:
                self._schedule(server, OWNER_PATIENCE)
            return
        self._reported.add(server, time.time())
        if not is_new:
            self._readers.request(config, event.principal)
        self._schedule(server)

    async def close(self) -> None:
        self._pace.close()
        self._retries.close()
        await self._tasks.close()

    # Renewal

    def _end_renewal(self, server: str) -> None:
        """Record that a renewal has ended; start another if the server changed meanwhile."""
        self._running.pop(server, None)
        self._readers.end(server)
        listing = self.now.listings.get(server) if server not in self.failures else None
        waiting = self._readers.unread(listing) if listing is not None else ()
        if waiting:  # principals that came while another's list was read
            self._readers.offer(self.servers.get(server), waiting[0])
        if waiting or self._readers.awaits(server):
            self._schedule(server)

    def _schedule(self, server: str, after: float = 0.0) -> None:
        """Renew `server` soon, unless a reading is under way."""
        if server not in self._running and server in self.servers:
            self._pace.schedule(server, after)

    def _forget(self, server: str) -> None:
        self.failures.pop(server, None)
        self._forget_retries(server)
        self._pace.cancel(server)
        self._reported.forget(server)

    def _renew_expired(self) -> None:
        """Renew listings past their time to live, but only of running servers: this does not start one."""
        now = time.time()
        for name, listing in self.now.listings.items():
            expired = listing.ttl is not None and now > listing.listed_at + max(listing.ttl, RENEW_EVERY)
            if expired and self._pool.state(name)[0] is State.READY:
                self._schedule(name)

    async def _renew(self, server: str) -> None:
        while (config := self.servers.get(server)) is not None:
            reader = self._readers.begin(config)
            if await self._read_lists(server, fingerprint(config), reader):
                return
            if self._has_changed(server, fingerprint(config)) and server in self.servers:
                self._readers.request(self.servers[server], reader)  # the result may be the old server's
        self._readers.forget(server)

    async def _read_lists(self, server: str, identity: str, reader: Principal) -> bool:
        """Read and publish what a server offers to `reader`; False if the server was replaced meanwhile, or if another
        principal may be able to list it.
        """
        try:
            greeting = await self._pool.start(server, principal=reader)
            reports = self._reported.number(server)  # with the one that this connection is new
            listing = await read_listing(
                server,
                greeting,
                lambda method, params: self._ask(server, method, params, reader),
                self._limits.max_tools,
                MAX_PAGES,
            )
        except WicketError as problem:
            if self._has_changed(server, identity):
                return False
            if isinstance(problem, NeedsSignIn) and reader is not GATEWAY:
                if self._readers.dismiss(server, reader):
                    return False
                if server in self.now.listings:
                    return True  # what is known stays valid, and users with an account can use it
            if is_news(self.failures.get(server), str(problem)):
                log.warning("server '%s' could not be listed: %s", server, problem)
            self.failures[server] = str(problem)
            self.unauthenticated.pop(server, None)
            if isinstance(problem, NeedsSignIn):
                self.unauthenticated[server] = problem.why
            elif isinstance(problem, ConfigError | CannotStart):
                self._hopeless.add(server)
            else:
                self._retries.try_again(server)
            return True
        if self._has_changed(server, identity):
            return False
        log_rejections(listing)
        async with self._turns[server]:
            if reader is not GATEWAY:
                listing = merge(self._find_own(server), listing, reader.id)
            reviewed = await self._review(listing)
            if self._has_changed(server, identity):
                return False
            # Only now, with its tools: a search in between would neither find them nor name the server as starting.
            self.failures.pop(server, None)
            self.unauthenticated.pop(server, None)
            self._forget_retries(server)
            self._reported.answer(server, reports)
            self._publish({**self.now.listings, server: reviewed})
            await self.storage.keep(listing, identity)
        return True

    async def _ask(self, server: str, method: str, params: JsonObject, reader: Principal) -> JsonObject:
        return (await self._forward(internal(server, method, params, LISTING_TIMEOUT, reader))).body

    def hand_over(self, owner: str) -> None:
        """`owner` has their name now: what an earlier key of this name listed is nobody's any more."""
        holders = self._readers.hand_over(owner)
        self._reviews.keep_present_holders(holders)
        if of_present_holders(self.now.listings, holders) != self.now.listings:
            self._publish(self.now.listings)

    def _has_changed(self, server: str, identity: str) -> bool:
        return server not in self.servers or fingerprint(self.servers[server]) != identity

    def _forget_retries(self, server: str) -> None:
        self._hopeless.discard(server)
        self._retries.forget(server)

    def _publish(self, listings: Mapping[str, Listing], policy: Policy | None = None) -> None:
        old = self.now
        listings = of_present_holders(listings, self._readers.holders)
        ordered = {name: listings[name] for name in self.servers if name in listings}
        self.now = Snapshot(old.version + 1, ordered, self.servers, self._aliases, self.failures, policy or old.policy)
        self._pool.distinguish(ordered)
        for watcher in self._watchers:
            watcher(old, self.now)
