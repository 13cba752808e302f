"""How often each principal called each tool, kept in memory for ranking.

A search must not wait for the store: counts are read once for each principal, and refreshed in the background after a
minute; a search uses what is in memory. Knows neither tools nor the kind of store; called by the finder.
"""

import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping

from wicket_mcp.errors import WicketError
from wicket_mcp.model import Principal
from wicket_mcp.tasks import Tasks

log = logging.getLogger(__name__)

_FRESH = 60.0
_PRINCIPALS = 256  # in memory at most; the least recent one is dropped

ReadUsage = Callable[[Principal], Awaitable[Mapping[str, int]]]


class Usage:
    """Counts of calls by tool key, for the principals that searched most recently."""

    def __init__(self, read: ReadUsage, *, fresh: float = _FRESH) -> None:
        self._read = read
        self._fresh = fresh
        self._counts: OrderedDict[str, tuple[float, Mapping[str, int]]] = OrderedDict()
        self._refreshing: set[str] = set()
        self._tasks = Tasks()

    async def counts(self, principal: Principal) -> Mapping[str, int]:
        """The counts in memory; only the first search of a principal waits for the store."""
        entry = self._counts.get(principal.id)
        if entry is None:
            return await self._refresh(principal)
        self._counts.move_to_end(principal.id)
        read_at, counts = entry
        if time.monotonic() - read_at >= self._fresh and principal.id not in self._refreshing:
            self._refreshing.add(principal.id)
            self._tasks.start(self._refresh(principal), f"refresh usage of {principal.id}")
        return counts

    async def close(self) -> None:
        await self._tasks.wait()

    async def _refresh(self, principal: Principal) -> Mapping[str, int]:
        try:
            counts = await self._read(principal)
        except WicketError as problem:  # ranking works without it, and the store is asked again later
            log.info("usage could not be read: %s", problem)
            counts = self._counts[principal.id][1] if principal.id in self._counts else dict[str, int]()
        finally:
            self._refreshing.discard(principal.id)
        self._counts[principal.id] = time.monotonic(), counts
        self._counts.move_to_end(principal.id)
        if len(self._counts) > _PRINCIPALS:
            self._counts.popitem(last=False)
        return counts
