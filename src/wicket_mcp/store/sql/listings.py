"""What each server offered when it was last listed. Implements ListingStore."""

import asyncio
from collections.abc import Callable, Iterable, Mapping

from wicket_mcp.codec import decode, encode
from wicket_mcp.store.listings import listing_from_json, listing_to_json
from wicket_mcp.store.model import StoredListing
from wicket_mcp.store.sql.part import Database, Part, Row, upsert


def _read_all(rows: Iterable[Row]) -> list[StoredListing]:
    return [StoredListing(listing_from_json(decode(body)), fingerprint, segment) for body, fingerprint, segment in rows]


class SqlListings(Part):
    async def load_listings(self) -> list[StoredListing]:
        rows = await self._rows("SELECT body, fingerprint, segment FROM listing ORDER BY server")
        return await asyncio.to_thread(_read_all, rows)  # thousands of tools would hold the loop

    async def save_listing(self, stored: StoredListing) -> None:
        body = encode(listing_to_json(stored.listing))
        row = (stored.listing.server, body, stored.fingerprint, stored.segment)
        text = upsert("listing", "server, body, fingerprint, segment", "server")

        def save(db: Database) -> None:
            db.execute(text, row)

        await self._connection.write("listing", save)

    async def save_segments(self, segments: Mapping[str, bytes]) -> None:
        rows = [(segment, server) for server, segment in segments.items()]

        def save(db: Database) -> None:
            db.executemany("UPDATE listing SET segment = ? WHERE server = ?", rows)

        await self._connection.write("", save)

    async def drop_listing(self, server: str) -> None:
        await self._change("DELETE FROM listing WHERE server = ?", server)

    def hear_listings(self, hear: Callable[[], object]) -> None:
        self._connection.listen("listing", hear)
