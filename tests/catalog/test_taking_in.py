"""Listings of other processes over the same state: taken in their order, whatever comes in between."""

import asyncio
from pathlib import Path

import psycopg
from msgspec.structs import replace

from tests.conftest import peer
from tests.peers.postgres import Postgres
from tests.trust.conftest import SEND
from wicket_mcp import Gateway
from wicket_mcp.catalog.listing import fingerprint
from wicket_mcp.codec import encode
from wicket_mcp.model import Tool
from wicket_mcp.store.model import StoredListing
from wicket_mcp.store.open import open_state
from wicket_mcp.store.postgres.connection import advisory_lock


async def waits(database: "psycopg.AsyncConnection[tuple[object, ...]]") -> bool:
    """Whether somebody waits for a lock of the database."""
    cursor = await database.execute("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
    return await cursor.fetchone() is not None


async def test_a_newer_listing_of_ours_is_not_replaced_by_an_older_one_of_another_process(
    postgres: Postgres, tmp_path: Path
) -> None:
    """B13: another process stored what has a new tool. We read it, and wait until that can be pinned. Meanwhile the
    server is listed here, without the tool: that is newer.
    """
    listing = tmp_path / "listing.json"
    listing.write_bytes(encode({"tools": [SEND]}))
    address = postgres.database()
    servers = {"x": peer("Mutates", env={"LISTING": str(listing)})}
    async with Gateway.open({"servers": servers, "state_dir": str(tmp_path), "store": address}) as gateway:
        [ours] = await gateway.tools()
        another = await open_state(gateway.config)
        known, config = gateway.catalogue.now.listings["x"], gateway.catalogue.servers["x"]
        extra = Tool("x", "gone_again", {"name": "gone_again", "inputSchema": {"type": "object"}})
        async with await psycopg.AsyncConnection.connect(address, autocommit=True) as database:
            await database.execute("SELECT pg_advisory_lock(%s)", (advisory_lock("public", "pin"),))
            older = replace(known, tools=(*known.tools, extra))
            await another.save_listing(StoredListing(older, fingerprint(config)))
            async with asyncio.timeout(30):
                while not await waits(database):  # the listing of the other process has come to be pinned
                    pass
            await gateway.catalogue.renew("x")
        assert await gateway.tasks.wait(30)
        assert await gateway.tools() == (ours,)
        await another.close()
        [stored] = await gateway.store.load_listings()
        assert [tool.name for tool in stored.listing.tools] == ["send"]
