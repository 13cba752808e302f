"""The search index over the current catalogue: loaded from the store, updated on demand.

Indexing and ranking run on a separate thread, never on the event loop: a search takes milliseconds of arithmetic, and
the first one loads numpy. A server is indexed again only when its listing has changed, and the result is stored with
the listing, so that the next process loads it instead of building it. While somebody searches, listings that come later
are indexed as they come; what an earlier process has left unread is read when there is time.
"""

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import TypeVar
from weakref import WeakKeyDictionary

import msgspec

from wicket_mcp.catalog.catalogue import Catalogue
from wicket_mcp.catalog.snapshot import Snapshot
from wicket_mcp.catalog.view import View
from wicket_mcp.config.model.config import Config, SearchConfig, ServerConfig
from wicket_mcp.config.read.favourites import Favourite
from wicket_mcp.config.read.secrets import known_missing
from wicket_mcp.errors import WicketError
from wicket_mcp.lanes import Lane
from wicket_mcp.model import Listing, Principal, Tool
from wicket_mcp.search import Answer, Explanation, SearchIndex
from wicket_mcp.search.index import FEW_TOOLS
from wicket_mcp.search.learning import Learning
from wicket_mcp.search.long_listings import LongListings
from wicket_mcp.search.segment import is_unread
from wicket_mcp.search.usage import Usage
from wicket_mcp.search.user_model import UserModel, find_model
from wicket_mcp.store.base import ChoiceStore, ListingStore, UsageStore
from wicket_mcp.store.model import CallRecord
from wicket_mcp.tasks import Tasks
from wicket_mcp.upstream.pool import Pool

log = logging.getLogger(__name__)
T = TypeVar("T")
_MOST_NARROW = 32
"""Indexes of views that do not show everything, at once."""
_JOIN_EVERY = 1.0
_STAYS_WANTED = 600.0
"""Seconds after a search in which new listings are indexed without another one."""
Unsigned = Callable[[Iterable[ServerConfig], Principal], Awaitable[frozenset[str]]]
"""The servers that a principal cannot use before a sign-in."""


class Finder:
    """Answers searches over the catalogue, each limited to what its principal may see."""

    def __init__(
        self,
        catalogue: Catalogue,
        pool: Pool,
        listings: ListingStore,
        usage: UsageStore,
        choices: ChoiceStore,
        base_dir: Path,
        *,
        favourites: Iterable[Favourite] = (),
        options: SearchConfig,
        unsigned: Unsigned,
    ) -> None:
        self._unsigned = unsigned
        self._favourites = _tool_keys(favourites)
        self._catalogue = catalogue
        self._pool = pool
        self._listings = listings
        self._base_dir = base_dir
        self._index = SearchIndex.build(())
        self._indexed: dict[str, Listing] = {}
        self._narrow: WeakKeyDictionary[View, tuple[SearchIndex, SearchIndex]] = WeakKeyDictionary()
        """The indexes of views that do not show every tool as it is, and what each was built from."""
        self._lock = asyncio.Lock()
        self._tasks = Tasks()
        self._usage = Usage(usage.usage)
        self._learning = Learning(choices, enabled=options.learn)
        self._model_name: str | None = options.model
        self._model = _open_model(options.model, base_dir)
        # One thread: searches queue instead of competing with the event loop for the interpreter.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="search")
        self._lane = Lane("searches", width=1, share=1, waiting=256, executor=self._thread)
        # A second thread for the encoder's vectors of new tools: searches work without them until they are ready.
        self._encoding = ThreadPoolExecutor(1, thread_name_prefix="encode")
        self._is_encoding = self._closing = False
        self._long = LongListings(catalogue)
        self._searched_at = float("-inf")
        self._index_took = 0.0
        self._catching_up: asyncio.TimerHandle | asyncio.Task[None] | None = None
        catalogue.watch(lambda _old, _new: self._catch_up_soon())

    async def search(
        self, query: str, principal: Principal, *, limit: int, servers: Collection[str] | None = None
    ) -> Answer:
        snapshot, unindexed = await self._current(servers, principal)
        view = snapshot.view(principal)
        visible = view.visible
        usage, favourites = await self._usage.counts(principal), self._favourites
        lifts = await self._learning.lifts(query, principal.id)
        index = await self._index_of(view)
        if view.presented:  # a profile that renames tools: search uses its names and descriptions
            usage, lifts = _rename(view, usage), _rename(view, lifts)
            favourites = frozenset(_rename(view, dict.fromkeys(favourites, 1)))
        trouble = self._trouble(await self._unsigned(snapshot.servers.values(), principal))
        answer = await self._lane.compute(
            principal.id,
            lambda: index.search(
                query,
                limit=limit,
                servers=servers,
                visible=visible,
                usage=usage,
                favourites=favourites,
                lifts=lifts,
                trouble=lambda tool: trouble(tool.server),
                size=len(view.tools),
            ),
        )
        self._learning.note_search(query, principal.id, (hit.tool.own_key for hit in answer.hits))
        searched = view.by_server.keys() if servers is None else view.by_server.keys() & servers
        seen = tuple(sorted(unindexed.intersection(view.servers if servers is None else servers)))
        unread = sum(len(view.by_server[server]) for server in index.unlearned & searched)
        if not seen and not unread:
            return answer
        every = sum(len(view.by_server[server]) for server in searched)
        return msgspec.structs.replace(answer, unindexed=seen, unread=(unread, every) if unread else (0, 0))

    async def _index_of(self, view: View) -> SearchIndex:
        """The index of what a view shows, as it shows it: whatever is counted in an answer tells of nothing else."""
        known = self._narrow.get(view)
        if known is not None and known[0] is self._index:
            return known[1]
        if not view.presented and not self._index.has_more_than(view.by_server):
            return self._index
        return await self._compute(lambda: self._cut(view))

    def _cut(self, view: View) -> SearchIndex:
        index = self._index
        if len(self._narrow) >= _MOST_NARROW:
            self._narrow.clear()
        self._narrow[view] = index, (own := _warm(index.narrow(view.by_server)))
        return own

    def hear(self, records: Sequence[CallRecord]) -> None:
        """Learn from calls that may have followed a search. Never waits."""
        self._learning.hear(records)

    async def explain(self, query: str, principal: Principal, tool: Tool) -> Explanation:
        """Why a tool has its rank in the answer to `query`."""
        snapshot, _ = await self._current(None, principal)
        usage, favourites = await self._usage.counts(principal), self._favourites
        index = await self._index_of(snapshot.view(principal))
        lifts = await self._learning.lifts(query, principal.id)
        return await self._lane.compute(
            principal.id, lambda: index.explain(query, tool, usage=usage, favourites=favourites, lifts=lifts)
        )

    def reconfigure(self, config: Config) -> None:
        """Use other favourites, another model and another learning setting from now on."""
        self._favourites = _tool_keys(config.favourites)
        self._learning.reconfigure(enabled=config.search.learn)
        if config.search.model != self._model_name:
            self._model_name = config.search.model
            self._model = _open_model(config.search.model, config.base_dir)
            self._indexed = {}

    async def resume(self) -> None:
        """Read what an earlier process has indexed and left unread. Whoever never searched has nothing indexed."""
        listings = (await self._catalogue.load()).listings.values()
        if any(is_unread(self._catalogue.storage.segment(listing)) for listing in listings):
            await self._catch_up()

    async def finish_indexing(self) -> None:
        """Wait until all tools are indexed and read by the encoder, and everything built is stored."""
        if isinstance(self._catching_up, asyncio.TimerHandle):
            self._catching_up.cancel()
            await self._catch_up()
        await self._long.wait()
        while self._is_encoding:
            await self._tasks.wait()
        await self._tasks.wait()

    async def close(self) -> None:
        self._closing = True
        if isinstance(self._catching_up, asyncio.TimerHandle):
            self._catching_up.cancel()
        await self._usage.close()
        await self._learning.close()
        await self._long.close()
        await self._tasks.wait()
        await self._tasks.close()
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._encoding.shutdown(wait=False, cancel_futures=True)

    async def _compute(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def _current(self, servers: Collection[str] | None, principal: Principal) -> tuple[Snapshot, frozenset[str]]:
        """The snapshot, with the index updated to it, and the servers that are not in the index yet."""
        self._searched_at = time.monotonic()
        patience = self._catalogue.patience if servers is None else None
        snapshot = await self._catalogue.complete(servers, principal, patience=patience)
        return snapshot, await self._index_listings(snapshot)

    async def _index_listings(self, snapshot: Snapshot) -> frozenset[str]:
        """Bring the index up to date; returns the servers that are not in it yet."""
        unindexed = await self._long.prepare(snapshot.listings, self._indexed, self._model)
        listings = {name: listing for name, listing in snapshot.listings.items() if name not in unindexed}
        async with self._lock:
            if self._indexed != listings:
                began = time.monotonic()
                self._index = await self._compute(lambda: self._update(listings))
                self._index_took = time.monotonic() - began
                self._indexed = listings
                self._store_segments()
                if not self._is_encoding and await self._compute(self._index.unlearned_listings):
                    self._is_encoding = True
                    self._tasks.start(self._encode(), "encode new tools")
        return unindexed

    def _catch_up_soon(self) -> None:
        """A listing has changed: index it although nobody searches at the moment, if somebody does now and then."""
        is_in_use = time.monotonic() - self._searched_at < _STAYS_WANTED
        if is_in_use and not self._closing and self._catching_up is None:
            delay = max(_JOIN_EVERY, 4 * self._index_took)  # lists that change all the time cost a fifth of a processor
            self._catching_up = asyncio.get_running_loop().call_later(delay, self._begin_to_catch_up)

    def _begin_to_catch_up(self) -> None:
        self._catching_up = self._tasks.start(self._catch_up(), "index new listings")

    async def _catch_up(self) -> None:
        self._catching_up = asyncio.current_task()
        try:
            while await self._index_listings(snapshot := self._catalogue.now) and not self._closing:
                await self._long.wait()
        finally:
            self._catching_up = None
        if snapshot is not self._catalogue.now:
            self._catch_up_soon()

    async def _encode(self) -> None:
        """Compute the encoder's vectors of new tools, server by server, while searches continue without them."""
        loop = asyncio.get_running_loop()
        try:
            while not self._closing and (waiting := await self._compute(self._index.unlearned_listings)):
                index = self._index
                learned = await loop.run_in_executor(self._encoding, self._learn_some, index, waiting)
                async with self._lock:
                    self._index = await self._compute(partial(_join, self._index, learned))
                    self._store_segments()
        finally:
            self._is_encoding = False

    def _learn_some(self, index: SearchIndex, waiting: list[Listing]) -> dict[str, tuple[Listing, bytes]]:
        """Segments of some of the waiting servers, as many as fit in a second: joining them takes time as well."""
        learned: dict[str, tuple[Listing, bytes]] = {}
        until = time.monotonic() + _JOIN_EVERY
        for listing in waiting:
            began = time.monotonic()
            learned[listing.server] = (listing, index.learn(listing))
            if self._searched_at == float("-inf"):  # nobody waits for it: half of a processor is enough
                time.sleep(min(time.monotonic() - began, _JOIN_EVERY))
            if self._closing or time.monotonic() > until:
                break
        return learned

    def _update(self, listings: Mapping[str, Listing]) -> SearchIndex:
        stored = self._catalogue.storage.segment
        if not self._indexed:
            index = SearchIndex.load({name: (own, stored(own)) for name, own in listings.items()}, model=self._model)
        else:
            index = self._index
            for server in self._indexed.keys() - listings.keys():
                index = index.without(server)
            for server, listing in listings.items():
                if self._indexed.get(server) is not listing:
                    index = index.with_listing(listing, stored(listing), learned=False)
        waiting = _warm(index).unlearned_listings()
        if sum(len(listing.tools) for listing in waiting) > FEW_TOOLS:
            return index
        return _join(index, {listing.server: (listing, index.learn(listing)) for listing in waiting})

    def _store_segments(self) -> None:
        """Store the new segments in the background."""
        built = {
            server: segment
            for server, listing in self._indexed.items()
            if (segment := self._index.segment(server)) != self._catalogue.storage.segment(listing)
        }
        if built:
            for server, segment in built.items():
                self._catalogue.storage.note_segment(self._indexed[server], segment)
            self._tasks.start(self._save_segments(built), "store search segments")

    async def _save_segments(self, built: Mapping[str, bytes]) -> None:
        try:
            await self._listings.save_segments(built)
        except WicketError as problem:  # the next start builds them again
            log.info("search segments could not be stored: %s", problem)

    def _trouble(self, unsigned: frozenset[str]) -> Callable[[str], str]:
        """For one answer: why a server's tools cannot be used now (empty: they can), computed once for each server.

        The pool is checked here, on the event loop; secrets are looked up on the search thread, because some are files.
        """
        servers, base_dir = self._catalogue.servers, self._base_dir
        failing = self._pool.failing()

        @cache
        def trouble(server: str) -> str:
            if server in failing:
                return f"its server is failing: {failing[server]}"
            if server in unsigned:
                return f"its server needs sign-in: a call asks for it where the client can, else wicket login {server}"
            config = servers.get(server)
            if config is None or config.credentials == "user":  # their secrets are in the vault
                return ""
            missing = known_missing(config, os.environ, base_dir)
            return f"its server needs {', '.join(missing)} to be set" if missing else ""

        return trouble


def _join(index: SearchIndex, learned: Mapping[str, tuple[Listing, bytes]]) -> SearchIndex:
    return _warm(index.with_segments(learned))


def _warm(index: SearchIndex) -> SearchIndex:
    index.warm()
    return index


def _open_model(name: str | None, base_dir: Path) -> UserModel | None:
    """The user's own model, if one is configured; nothing is loaded yet. Raises ConfigError."""
    return UserModel(find_model(name, base_dir)) if name else None


def _rename(view: View, by_key: Mapping[str, T]) -> dict[str, T]:
    """Values by tools' own names, converted to their names in a view."""
    names = {tool.own_key: tool.key for tool in view.tools}
    return {names[key]: value for key, value in by_key.items() if key in names}


def _tool_keys(favourites: Iterable[Favourite]) -> frozenset[str]:
    return frozenset(f"{favourite.server}.{favourite.tool}" for favourite in favourites)
