"""What of servers' listings may be shown: their entries that nobody has accepted are held (`trust/pins.py`).

Remembers, for each server, its own listing if another one is shown, and what is held. The catalogue decides when a
listing is looked through and publishes the outcome; this knows no server and no snapshot.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping

from wicket_mcp.budget import MAX_NAMES
from wicket_mcp.catalog.listing import fingerprint
from wicket_mcp.catalog.shares import of_present_holders
from wicket_mcp.config.model.config import ServerConfig
from wicket_mcp.errors import WicketError
from wicket_mcp.lanes import Lane
from wicket_mcp.model import Listing, Tool
from wicket_mcp.trust.pins import Entry, Held, Pins

log = logging.getLogger(__name__)

PIN_PATIENCE = 1.0  # seconds that a new listing waits for its pins to be stored


class Reviews:
    """Without `pins`, everything may be shown."""

    def __init__(self, pins: Pins | None) -> None:
        self._pins = pins
        self._said: dict[str, Listing] = {}
        """Each server's own listing, if it differs from the shown one."""
        self._held: dict[str, Mapping[Entry, Held]] = {}
        self._lane = Lane("listings that are looked through", width=1, share=1, waiting=MAX_NAMES)

    def held_entries(self, server: str) -> Mapping[Entry, Held]:
        """The entries of a server that are not accepted yet and so cannot be called."""
        return self._held.get(server, {})

    def as_said(self, listing: Listing) -> Listing:
        """The server's own listing in place of the one that is shown."""
        return self._said.get(listing.server, listing)

    def keep_present_holders(self, holders: Mapping[str, str]) -> None:
        """Forget what was listed for earlier keys of the names of `holders`."""
        self._said = of_present_holders(self._said, holders)

    async def approve(self, held: Held, config: ServerConfig, by: str) -> None:
        """Accept an entry of a server as it is now."""
        if self._pins is not None:
            await self._pins.approve(held, fingerprint(config), by)

    async def read_accepted(self) -> set[str]:
        """Read what other processes have accepted since the last time; of which servers. Raises Internal."""
        if self._pins is None:
            return set()
        await self._pins.load()
        return self._pins.take_news()

    async def look_through(self, listing: Listing, config: ServerConfig, others: Iterable[Tool]) -> Listing:
        """The listing as it may be shown: entries that are not accepted are held. `others` are all known tools."""
        if self._pins is None:
            return listing
        server = listing.server
        await self._pins.refresh()
        review_of = self._pins.reviewer(config, fingerprint(config), others)
        review = await self._lane.compute(server, lambda: review_of(listing))
        if review.held != self._held.get(server) or review.pins:
            for words in review.told:
                log.warning("%s", words)
        self._said.pop(server, None)
        self._held.pop(server, None)
        if review.listing is not listing:
            self._said[server] = listing
        if review.held:
            self._held[server] = review.held
        try:
            async with asyncio.timeout(PIN_PATIENCE):
                await self._pins.save(review.pins)
        except (WicketError, TimeoutError) as problem:
            log.warning("what '%s' offers could not be pinned: %s", server, str(problem) or "the state is busy")
        return review.listing
