"""What all upstreams offer: immutable snapshots, stored on disk, renewed in the background.

A new process answers from the stored listings without connecting to anything. A server that was never listed is asked
once, when its listing is needed. After that a listing is renewed when the server reports a change, when it reconnects,
or when its time to live is over; never while a call waits.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping

from wicket_mcp.budget import MAX_NAME, MAX_NAMES, check_length
from wicket_mcp.catalog.failures import STILL_STARTING, ask_again, is_news
from wicket_mcp.catalog.listing import fingerprint, log_rejections, read_listing
from wicket_mcp.catalog.pace import RENEW_EVERY, Pace
from wicket_mcp.catalog.readers import Readers
from wicket_mcp.catalog.retries import Retries
from wicket_mcp.catalog.shares import merge, of_present_holders
from wicket_mcp.catalog.snapshot import Snapshot
from wicket_mcp.catalog.view import View
from wicket_mcp.config.model.config import LimitsConfig, ProfileConfig, ServerConfig
from wicket_mcp.errors import CannotStart, ConfigError, NeedsSignIn, Unavailable, UnknownName, WicketError
from wicket_mcp.extensions import TASKS, declares
from wicket_mcp.lanes import Lane
from wicket_mcp.model import LOCAL, JsonObject, Listing, Principal, Tool
from wicket_mcp.request import GATEWAY, Handler, internal
from wicket_mcp.store.base import ListingStore
from wicket_mcp.store.listings import alike
from wicket_mcp.store.model import StoredListing
from wicket_mcp.tasks import Tasks
from wicket_mcp.trust.pins import Entry, Held, Pins
from wicket_mcp.trust.policy import Policy
from wicket_mcp.upstream.events import UpstreamEvent
from wicket_mcp.upstream.lifecycle import State
from wicket_mcp.upstream.pool import Pool

log = logging.getLogger(__name__)

LISTING_TIMEOUT = 30.0
PIN_PATIENCE = 1.0  # seconds that a new listing waits for its pins to be stored
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
        self._store = store
        self._limits = limits
        self._pins = pins
        self._unreviewed: dict[str, Listing] = {}
        """Each server's own listing, if it differs from the shown one."""
        self._held: dict[str, Mapping[Entry, Held]] = {}
        self.now = Snapshot(0, {}, self.servers, self._aliases, self.failures, self._policy())
        self._segments: dict[str, tuple[Listing, bytes]] = {}
        self._loading: asyncio.Task[None] | None = None
        self._running: dict[str, asyncio.Task[None]] = {}
        self._pace = Pace(lambda server: self._tasks.start(self.renew(server), f"renew {server}"))
        self._retries = Retries(self._schedule)
        self.unauthenticated: dict[str, str] = {}
        """Servers that could not be listed because a sign-in is missing, and why."""
        self._readers = Readers()
        self._watchers: list[Callable[[Snapshot, Snapshot], None]] = []
        self._tasks = Tasks()
        self._reviews = Lane("listings that are looked through", width=1, share=1, waiting=MAX_NAMES)
        self._lookups = Lane("names that are looked up", width=2, share=1, waiting=MAX_NAMES * 4)

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
            self._loading = self._tasks.start(self._load(), "load catalogue", awaited=True)
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
        snapshot = await self.load()
        if self._held:
            await self.reconsider()
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
        return self._held.get(server, {})

    def listings_as_said(self) -> list[Listing]:
        """The servers' own listings, even if something else is shown."""
        return [self._unreviewed.get(name, listing) for name, listing in self.now.listings.items()]

    async def approve(self, held: Held, by: str) -> None:
        """Accept an entry of a server as it is now."""
        if self._pins is not None:
            await self._pins.approve(held, fingerprint(self.servers[held.server]), by)
            await self._review_again()

    async def reconsider(self) -> None:
        """Check whether held entries were accepted meanwhile, perhaps in another process."""
        if self._pins is not None and self._unreviewed and await self._pins.load():
            await self._review_again()

    async def _review_again(self) -> None:
        for server, listing in list(self._unreviewed.items()):
            if server not in self.servers:
                continue
            reviewed = await self._review(listing)
            if reviewed != self.now.listings.get(server):
                self._publish({**self.now.listings, server: reviewed})
                await self._keep(listing)  # without the search segment, which was built from the shown listing

    async def _review(self, listing: Listing) -> Listing:
        """The listing as it may be shown: entries that are not accepted are held."""
        server = listing.server
        if self._pins is None or server not in self.servers:
            return listing
        await self._pins.load_once()
        config = self.servers[server]
        review_of = self._pins.reviewer(config, fingerprint(config), self.now.tools)
        review = await self._reviews.compute(server, lambda: review_of(listing))
        if review.held != self._held.get(server) or review.pins:
            for words in review.told:
                log.warning("%s", words)
        self._unreviewed.pop(server, None)
        self._held.pop(server, None)
        if review.listing is not listing:
            self._unreviewed[server] = listing
        if review.held:
            self._held[server] = review.held
        try:
            async with asyncio.timeout(PIN_PATIENCE):
                await self._pins.save(review.pins)
        except (WicketError, TimeoutError) as problem:
            log.warning("what '%s' offers could not be pinned: %s", server, str(problem) or "the state is busy")
        return review.listing

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

    async def resolve(self, name: str, principal: Principal = LOCAL) -> Tool:
        """The tool that `name` means for `principal`. Asks servers that were never listed before giving up.

        Raises UnknownName, AmbiguousName, Denied, and Unavailable if the server in the name could not be asked.
        """
        check_length(name, MAX_NAME, "A name")
        snapshot = await self.load()
        try:
            return await self._find(snapshot.view(principal), name, principal)
        except UnknownName:
            meant = snapshot.aliases.get(name, name)
            visible = [server for server in snapshot.servers if snapshot.policy.shows(principal, server)]
            unseen = [server for server in visible if server not in snapshot.listings]
            likely = [server for server in unseen if meant.startswith((f"{server}.", f"{server}__"))]
            open_still = [server for server in unseen if server in self._running or server not in self.failures]
        if unseen:  # a call that names its server waits as long as that takes; otherwise any of them may have the tool
            patience = None if likely else self.patience
            snapshot = await self.complete(likely or open_still, principal, patience=patience)
        view = snapshot.view(principal)
        try:
            return await self._find(view, name, principal)
        except UnknownName as problem:
            failing = [server for server in self.failures if server in visible]
            silent = next((server for server in failing if meant.startswith(f"{server}.")), None)
            if silent is None or not unseen:
                near = await self._lookups.compute(principal.id, lambda: view.names.near(name))
                starting = sum(self.failures.get(server) == STILL_STARTING for server in visible)
                hint = ask_again(starting) if starting else problem.hint
                unknown = UnknownName(problem.kind, problem.name, near, hint=hint)
                hidden = await self.find_hidden(name, principal)
                unknown.rule = hidden[1] if hidden is not None else ""
                raise unknown from None
            if silent in self.unauthenticated:
                raise NeedsSignIn(silent, self.unauthenticated[silent]) from None
            raise Unavailable(silent, f"'{name}' is not known: {self.failures[silent]}") from None

    async def find_hidden(self, name: str, principal: Principal) -> tuple[Tool, str] | None:
        """The tool of this name that an option keeps from `principal`, and the option. Asks no server."""
        snapshot = await self.load()
        if snapshot.policy.visibility(principal).unrestricted:
            return None
        return await self._lookups.compute(principal.id, lambda: snapshot.find_hidden(name, principal))

    async def _find(self, view: View, name: str, principal: Principal) -> Tool:
        """`view.resolve`, with slow work done in a thread."""
        if not view.is_quick(name):
            await self._lookups.compute(principal.id, view.prepare)
        return view.resolve(name, suggest=False)

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
        self.failures.pop(server, None)
        self._forget_retries(server)
        self._pace.cancel(server)
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
        same = {
            name
            for name, server in self.servers.items()
            if name in old and fingerprint(server) == fingerprint(old[name])
        }
        for name in old.keys() - same:
            self.failures.pop(name, None)
            self._forget_retries(name)
            self._pace.cancel(name)
        unchanged = {name: listing for name, listing in self.now.listings.items() if name in same}
        self._publish(unchanged, self._policy())

    def on_event(self, event: UpstreamEvent) -> None:
        """An upstream sent an unsolicited message, or has just connected."""
        config = self.servers.get(event.server)
        if config is not None and event.method.endswith("/list_changed"):
            self._readers.request(config, event.principal)
            self._schedule(event.server)
        elif event.method == "connected":
            self._readers.offer(config, event.principal)
            self._schedule(event.server)

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

    def _schedule(self, server: str) -> None:
        """Renew `server` soon, unless a reading is under way."""
        if server not in self._running and server in self.servers:
            self._pace.schedule(server)

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
        if reader is not GATEWAY:
            before = self._unreviewed.get(server) or self.now.listings.get(server)
            listing = merge(before, listing, reader.id)
        reviewed = await self._review(listing)
        if self._has_changed(server, identity):
            return False
        # Only now, with its tools: a search in between would neither find them nor name the server as starting.
        self.failures.pop(server, None)
        self.unauthenticated.pop(server, None)
        self._forget_retries(server)
        self._publish({**self.now.listings, server: reviewed})
        await self._keep(listing)
        return True

    async def _ask(self, server: str, method: str, params: JsonObject, reader: Principal) -> JsonObject:
        return (await self._forward(internal(server, method, params, LISTING_TIMEOUT, reader))).body

    def hand_over(self, owner: str) -> None:
        """`owner` has their name now: what an earlier key of this name listed is nobody's any more."""
        holders = self._readers.hand_over(owner)
        self._unreviewed = of_present_holders(self._unreviewed, holders)
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

    async def _keep(self, listing: Listing) -> None:
        try:
            await self._store.save_listing(StoredListing(listing, fingerprint(self.servers[listing.server])))
        except WicketError as problem:
            log.warning("the listing of '%s' could not be stored: %s", listing.server, problem)

    def segment(self, listing: Listing) -> bytes:
        """The search segment that is stored with exactly this listing; empty if there is none."""
        made_of, segment = self._segments.get(listing.server, (None, b""))
        return segment if made_of is listing else b""

    def note_segment(self, listing: Listing, segment: bytes) -> None:
        self._segments[listing.server] = (listing, segment)

    async def take_stored(self) -> None:
        """Load listings that other gateways have stored since: they are newer than ours."""
        if self._loading is not None and self._loading.done():
            await self._load(again=True)

    async def _load(self, *, again: bool = False) -> None:
        try:
            stored = {entry.listing.server: entry for entry in await self._store.load_listings()}
        except WicketError as problem:
            log.warning("what is stored about servers could not be read; they are listed again: %s", problem)
            return
        known = {
            name: stored[name].listing
            for name, config in self.servers.items()
            if name in stored
            and stored[name].fingerprint == fingerprint(config)
            and (not again or (config.credentials == "shared" and self._is_news(stored[name].listing)))
        }
        self._segments |= {name: (listing, stored[name].segment) for name, listing in known.items()}
        known = {name: await self._review(listing) for name, listing in known.items()}
        if known:
            self._publish({**self.now.listings, **known} if again else {**known, **self.now.listings})

    def _is_news(self, listing: Listing) -> bool:
        current = self._unreviewed.get(listing.server) or self.now.listings.get(listing.server)
        return current is None or not alike(current, listing)
