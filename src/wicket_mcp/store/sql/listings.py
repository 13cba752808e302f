"""What each server offered when it was last listed. Implements ListingStore."""

import asyncio
from collections.abc import Iterable, Mapping

from wicket_mcp.codec import decode, encode
from wicket_mcp.store.base import NOTHING
from wicket_mcp.store.listings import listing_from_json, listing_to_json
from wicket_mcp.store.model import StoredListing
from wicket_mcp.store.sql.changes import number_of
from wicket_mcp.store.sql.part import Database, Part, Row, upsert


def _read_all(rows: Iterable[Row]) -> list[tuple[int, StoredListing]]:
    return [(number, StoredListing(listing_from_json(decode(body)), *others)) for number, body, *others in rows]


class SqlListings(Part):
    async def load_listings(self) -> list[StoredListing]:
        return [stored for _, stored in await self.new_listings(NOTHING)]

    async def new_listings(self, after: int) -> list[tuple[int, StoredListing]]:
        base = self._connection.base
        text = "SELECT number + ?, body, fingerprint, segment FROM listing WHERE number > ? ORDER BY server"
        rows = await self._rows(text, base, after - base)
        return await asyncio.to_thread(_read_all, rows)  # thousands of tools would hold the loop

    async def save_listing(self, stored: StoredListing) -> int:
        body = encode(listing_to_json(stored.listing))
        text = upsert("listing", "server, body, fingerprint, segment, number", "server")

        def save(db: Database) -> int:
            number = number_of(db, "listing")
            db.execute(text, (stored.listing.server, body, stored.fingerprint, stored.segment, number))
            return number

        return self._connection.base + await self._connection.write("listing", save)

    async def save_segments(self, segments: Mapping[str, bytes]) -> None:
        rows = [(segment, server) for server, segment in segments.items()]

        def save(db: Database) -> None:
            db.executemany("UPDATE listing SET segment = ? WHERE server = ?", rows)

        await self._connection.write("", save)

    async def drop_listing(self, server: str) -> None:
        await self._change("DELETE FROM listing WHERE server = ?", server)

    def definitions_version(self) -> int | None:
        return self._connection.version("listing", "pin")
