"""Segments of long listings, built on a thread of their own: one server's list delays no search of others' tools.

A search waits for a long listing as for a server that starts, once. Then it is answered without that server, which it
names, until the segment is built. The finder asks for it before it brings its index up to date. Knows no query.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from wicket_mcp.catalog.catalogue import Catalogue
from wicket_mcp.model import Listing
from wicket_mcp.search.segment import Model, build_segment
from wicket_mcp.tasks import Tasks

LONG = 300
"""Tools of a listing that searches do not simply wait for. What real servers say of as many is indexed in half a
second; what a hostile one says may take a hundred times as long."""
_AGAIN = 30.0
"""Seconds after a wait for a server in which nobody waits for it: it may change its list all the time."""


class LongListings:
    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._tasks = Tasks()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="index")
        self._building: dict[str, tuple[Listing, asyncio.Task[None]]] = {}
        self._until: dict[str, float] = {}

    async def prepare(
        self, listings: Mapping[str, Listing], indexed: Mapping[str, Listing], model: Model | None
    ) -> frozenset[str]:
        """Build the segments that are missing; returns the servers whose segment is not ready yet."""
        missing = [
            listing
            for server, listing in listings.items()
            if len(listing.tools) > LONG
            and indexed.get(server) is not listing
            and not self._catalogue.storage.segment(listing)
        ]
        if missing:
            builds = [self._build(listing, model) for listing in missing]
            patience = self._catalogue.patience
            await asyncio.wait(builds, timeout=None if patience is None else self._time_left(missing, patience))
        return frozenset(listing.server for listing in missing if not self._catalogue.storage.segment(listing))

    async def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
        await self._tasks.close()

    async def wait(self) -> None:
        await self._tasks.wait()

    def _time_left(self, missing: Iterable[Listing], patience: float) -> float:
        now, longest = time.monotonic(), 0.0
        for listing in missing:
            until = self._until.get(listing.server, -_AGAIN)
            if until + _AGAIN < now:
                until = self._until[listing.server] = now + patience
            longest = max(longest, until - now)
        return longest

    def _build(self, listing: Listing, model: Model | None) -> "asyncio.Task[None]":
        known, task = self._building.get(listing.server, (None, None))
        if known is not listing or task is None:
            task = self._tasks.start(self._build_one(listing, model), f"index '{listing.server}'")
            self._building[listing.server] = listing, task
        return task

    async def _build_one(self, listing: Listing, model: Model | None) -> None:
        def build() -> bytes:
            # Superseded while it waited for the thread: nobody will search it.
            current = self._building.get(listing.server, (listing, None))[0] is listing
            return build_segment(listing, model, learned=False) if current else b""

        segment = await asyncio.get_running_loop().run_in_executor(self._thread, build)
        if self._building.get(listing.server, (None, None))[0] is listing:
            del self._building[listing.server]
            self._catalogue.storage.note_segment(listing, segment)
