"""The stored listings, in the order that all processes over one state agree on.

The store gives each listing that is saved a number. A listing with a smaller number than the one in use is never taken,
however late it is read. Knows which listings are in use by their numbers only; `catalogue.py` decides what to do with
those of other processes.
"""

import logging
from collections.abc import Sequence

from wicket_mcp.errors import WicketError
from wicket_mcp.model import Listing
from wicket_mcp.store.base import NOTHING, ListingStore
from wicket_mcp.store.listings import alike
from wicket_mcp.store.model import StoredListing

log = logging.getLogger(__name__)


class ListingStorage:
    """What is stored, as far as this process has read it."""

    def __init__(self, store: ListingStore) -> None:
        self._store = store
        self._version: int | None = None
        """The store's version when everything in it was last taken in."""
        self._read = NOTHING
        """The greatest number that was read."""
        self._used: dict[str, int] = {}
        """The number of each server's listing in use, if it is stored."""
        self._segments: dict[str, tuple[Listing, bytes]] = {}

    @property
    def version(self) -> int | None:
        return self._store.definitions_version()

    @property
    def is_behind(self) -> bool:
        """Whether any process has stored a listing or accepted a definition since everything was taken in."""
        version = self._store.definitions_version()
        return version is not None and version != self._version

    def catch_up_with(self, version: int | None) -> None:
        """Everything that was stored up to this version has been taken in."""
        self._version = version

    async def read(self) -> Sequence[tuple[int, StoredListing]]:
        """The listings that were stored since the last time, with their numbers. Raises WicketError."""
        listings = await self._store.new_listings(self._read)
        self._read = max([self._read, *(number for number, _ in listings)])
        return listings

    def is_newer(self, server: str, number: int) -> bool:
        """Whether a listing with this number was stored after the one in use."""
        return number > self._used.get(server, NOTHING)

    def use(self, number: int, stored: StoredListing, *, known: Listing | None) -> None:
        """This stored listing is in use from now on; `known` is ours, which stays if it has the same content."""
        self._used[stored.listing.server] = number
        if known is None or not alike(known, stored.listing):
            self.note_segment(stored.listing, stored.segment)

    async def keep(self, listing: Listing, fingerprint: str) -> None:
        """Store the listing in use; a state that cannot be written costs the next start a listing, not this one."""
        try:
            number = await self._store.save_listing(StoredListing(listing, fingerprint))
        except WicketError as problem:
            log.warning("the listing of '%s' could not be stored: %s", listing.server, problem)
        else:
            self._used[listing.server] = max(number, self._used.get(listing.server, NOTHING))

    def segment(self, listing: Listing) -> bytes:
        """The search segment that is stored with exactly this listing; empty if there is none."""
        made_of, segment = self._segments.get(listing.server, (None, b""))
        return segment if made_of is listing else b""

    def note_segment(self, listing: Listing, segment: bytes) -> None:
        self._segments[listing.server] = (listing, segment)
