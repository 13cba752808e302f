"""Stores that speed is measured on: so many tools, with their search segments, in the file that Wicket itself uses."""

import asyncio
import sqlite3
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

from retrieval.sets import OWN, Labelled, names, own_queries, read
from wicket_mcp.model import Listing
from wicket_mcp.search import build_segment
from wicket_mcp.store.model import StoredListing
from wicket_mcp.store.open import open_store


def fill(file: Path, data: Path, tools: int) -> None:
    """A store with exactly that many tools: the real catalogues' first, then the sets', then all again."""
    chosen = list(islice(_tools(data), tools))
    made = Labelled("speed", "", chosen, []).listings()

    async def save() -> None:
        store = await open_store(file)
        try:
            for listing in made:
                await store.save_listing(StoredListing(listing, "", build_segment(listing)))
        finally:
            await store.close()

    asyncio.run(save())


def _tools(data: Path) -> Iterator[dict[str, Any]]:
    sets = ["catalog_report", *(name for name in names(data) if name.rpartition("_")[0] not in OWN)]
    for turn in count():
        for name in sets:
            for tool in read(data, name).tools:
                yield {**tool, "server": f"{tool['server']}-{name}-{turn}"}


def listings(file: str) -> list[Listing]:
    async def load() -> list[Listing]:
        store = await open_store(Path(file))
        try:
            return [one.listing for one in await store.load_listings()]
        finally:
            await store.close()

    return asyncio.run(load())


def segments(file: str) -> dict[str, bytes]:
    db = sqlite3.connect(file)
    try:
        return dict(db.execute("SELECT server, segment FROM listing").fetchall())
    finally:
        db.close()


def queries() -> list[str]:
    return [query.text for query in own_queries()]
