"""The search index over the current catalogue, built off the event loop and brought up to date when asked."""

import asyncio
from collections.abc import Collection

from wicket.core.catalog import Catalogue, Snapshot
from wicket.core.search import Answer, SearchIndex
from wicket.model import Listing, Principal
from wicket.store.base import Store


class Finder:
    """Answers searches; indexes only the servers whose listing changed since the last one."""

    def __init__(self, catalogue: Catalogue, store: Store) -> None:
        self._catalogue = catalogue
        self._store = store
        self._index = SearchIndex.build(())
        self._indexed: dict[str, Listing] = {}
        self._lock = asyncio.Lock()

    async def search(
        self, query: str, principal: Principal, *, limit: int, servers: Collection[str] | None = None
    ) -> Answer:
        snapshot = await self._catalogue.complete(servers)
        async with self._lock:
            if self._indexed != snapshot.listings:
                self._index = await asyncio.to_thread(self._updated, snapshot)
                self._indexed = dict(snapshot.listings)
        usage = await self._store.usage(principal)
        policy = snapshot.policy
        return self._index.search(
            query,
            limit=limit,
            servers=servers,
            visible=lambda tool: policy.visible(principal, tool),
            usage=usage,
        )

    def _updated(self, snapshot: Snapshot) -> SearchIndex:
        if not self._indexed:
            return SearchIndex.build(snapshot.listings.values())
        index = self._index
        for server in self._indexed.keys() - snapshot.listings.keys():
            index = index.without(server)
        for server, listing in snapshot.listings.items():
            if self._indexed.get(server) is not listing:
                index = index.with_listing(listing)
        return index
