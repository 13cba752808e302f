"""The search index over the current catalogue: read from what is stored, brought up to date when asked.

Reading, joining and building happen off the event loop; a server is indexed anew only when its listing changed, and
what was built is stored beside the listing, so that the next process reads instead of building.
"""

import asyncio
import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from wicket_mcp.catalog.catalogue import Catalogue, Snapshot
from wicket_mcp.config.read.favourites import Favourite
from wicket_mcp.config.read.secrets import missing_secrets
from wicket_mcp.model import Listing, Principal, Tool
from wicket_mcp.search import Answer, Explanation, SearchIndex
from wicket_mcp.store.base import Store
from wicket_mcp.tasks import Tasks
from wicket_mcp.upstream.lifecycle import State
from wicket_mcp.upstream.pool import Pool

if TYPE_CHECKING:
    from wicket_mcp.search.semantic import SentenceEncoder


class Finder:
    """See the module's docstring."""

    def __init__(
        self,
        catalogue: Catalogue,
        pool: Pool,
        store: Store,
        base_dir: Path,
        *,
        semantic: bool = False,
        favourites: Iterable[Favourite] = (),
    ) -> None:
        self._semantic = semantic
        self._favourites = _keys(favourites)
        self._catalogue = catalogue
        self._pool = pool
        self._store = store
        self._base_dir = base_dir
        self._index = SearchIndex.build(())
        self._indexed: dict[str, Listing] = {}
        self._encoded: bool = semantic
        """Whether the index was made with the sentence encoder."""
        self._lock = asyncio.Lock()
        self._tasks = Tasks()

    async def search(
        self, query: str, principal: Principal, *, limit: int, servers: Collection[str] | None = None
    ) -> Answer:
        snapshot = await self._current(servers)
        policy = snapshot.policy
        return self._index.search(
            query,
            limit=limit,
            servers=servers,
            visible=lambda tool: policy.visible(principal, tool),
            usage=await self._store.usage(principal),
            favourites=self._favourites,
            trouble=self._trouble,
        )

    async def explain(self, query: str, principal: Principal, tool: Tool) -> Explanation:
        """Why a tool stands where it stands in the answer to `query`."""
        await self._current(None)
        used = await self._store.usage(principal)
        return self._index.explain(query, tool, usage=used, favourites=self._favourites)

    def use(self, *, semantic: bool, favourites: Iterable[Favourite] | None = None) -> None:
        """Rank with the sentence encoder from now on, or without it; and by other favourites where they are given."""
        if favourites is not None:
            self._favourites = _keys(favourites)
        self._semantic = semantic

    async def close(self) -> None:
        await self._tasks.wait()
        await self._tasks.close()

    async def _current(self, servers: Collection[str] | None) -> Snapshot:
        """The snapshot, with the index brought up to it."""
        snapshot = await self._catalogue.complete(servers)
        async with self._lock:
            semantic = self._semantic
            if semantic != self._encoded:
                self._indexed = {}  # read anew: every text is to be encoded, or none
            if self._indexed != snapshot.listings:
                self._index = await asyncio.to_thread(self._updated, snapshot, semantic)
                self._indexed, self._encoded = dict(snapshot.listings), semantic
                self._keep()
        return snapshot

    def _updated(self, snapshot: Snapshot, semantic: bool) -> SearchIndex:
        if not self._indexed:
            stored = self._catalogue.segment
            parts = {name: (one, stored(one)) for name, one in snapshot.listings.items()}
            index = SearchIndex.load(parts, model=_encoder() if semantic else None)
        else:
            index = self._index
            for server in self._indexed.keys() - snapshot.listings.keys():
                index = index.without(server)
            for server, listing in snapshot.listings.items():
                if self._indexed.get(server) is not listing:
                    index = index.with_listing(listing)
        index.warm()
        return index

    def _keep(self) -> None:
        """Have the segments stored that were built just now; nobody waits for that."""
        built = {
            server: segment
            for server, listing in self._indexed.items()
            if (segment := self._index.segment(server)) != self._catalogue.segment(listing)
        }
        if built:
            for server, segment in built.items():
                self._catalogue.note_segment(self._indexed[server], segment)
            self._tasks.start(self._store.save_segments(built), "keep search segments")

    def _trouble(self, tool: Tool) -> str:
        """Why a tool that fits cannot be used now; empty when it can."""
        state, problem = self._pool.state(tool.server)
        if state is State.BROKEN:
            return f"its server is failing: {problem}"
        config = self._catalogue.servers.get(tool.server)
        missing = missing_secrets(config, os.environ, self._base_dir) if config else ()
        return f"its server needs {', '.join(missing)} to be set" if missing else ""


def _keys(favourites: Iterable[Favourite]) -> frozenset[str]:
    return frozenset(f"{favourite.server}.{favourite.tool}" for favourite in favourites)


def _encoder() -> "SentenceEncoder":
    from wicket_mcp.search.semantic import SentenceEncoder  # noqa: PLC0415  (an extra: half a second and 100 MB)

    return SentenceEncoder()
