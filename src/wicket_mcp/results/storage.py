"""Storage of results: in the store, or in memory while the store does not accept them.

The call may not be repeatable, so its answer must not be lost if it cannot be stored. Bounded by bytes. `results.py`
decides what is large; this module only stores and finds. With replicas, a result that one of them has only in memory is
found by all of them. A live part: it stays when the configuration changes.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from wicket_mcp.errors import Internal
from wicket_mcp.model import Principal
from wicket_mcp.store.base import ResultStore
from wicket_mcp.store.clock import steady_time
from wicket_mcp.store.model import StoredResult

log = logging.getLogger(__name__)

PATIENCE = 3.0  # seconds that an answer waits to be stored
MOST_BYTES = 64 * 1024**2  # of results kept in memory; the newest is kept whatever its size

Elsewhere: TypeAlias = Callable[[str, Principal], Awaitable[StoredResult | None]]
"""A result that another gateway has."""


class ResultStorage:
    """The stored results, and those that could not be stored."""

    def __init__(self, store: ResultStore) -> None:
        self._store = store
        self._unsaved: OrderedDict[str, StoredResult] = OrderedDict()
        self._catching_up = False
        self._elsewhere: Elsewhere | None = None

    def share(self, elsewhere: Elsewhere) -> None:
        """Other gateways have results too: ask them for what is not found here."""
        self._elsewhere = elsewhere

    def __repr__(self) -> str:
        return f"<ResultStorage {len(self._unsaved)} in memory>"

    async def save(self, result: StoredResult, max_total_bytes: int) -> bool:
        """Store a result; False if it is only in memory."""
        try:
            async with asyncio.timeout(PATIENCE):
                await self._store.save_result(result, max_total_bytes)
        except (Internal, TimeoutError) as problem:
            log.warning("a result of %s is kept in memory only: %s", result.tool, str(problem) or "the state is busy")
            self._unsaved[result.id] = result
            while len(self._unsaved) > 1 and sum(len(unsaved.body) for unsaved in self._unsaved.values()) > MOST_BYTES:
                self._unsaved.popitem(last=False)
            return False
        if self._unsaved and not self._catching_up:
            await self._save_earlier(max_total_bytes)
        return True

    async def _save_earlier(self, max_total_bytes: int) -> None:
        """The store accepts results again: store an earlier one from memory, so that memory is freed gradually."""
        earlier = next(iter(self._unsaved.values()))
        self._catching_up = True
        try:
            async with asyncio.timeout(PATIENCE):
                # It may be stored: a write that took too long was perhaps completed after all.
                stored = await self._store.load_result(earlier.id, Principal(earlier.principal))
                if stored is None and earlier.expires_at >= steady_time():
                    await self._store.save_result(earlier, max_total_bytes)
            self._unsaved.pop(earlier.id, None)
        except (Internal, TimeoutError):
            log.debug("a result of %s stays in memory", earlier.tool)
        finally:
            self._catching_up = False

    async def load(self, row: str, principal: Principal) -> StoredResult | None:
        """The result, or None if it is unknown, expired, or another principal's, without telling these apart."""
        if self._elsewhere is None:
            return await self.load_here(row, principal)
        try:
            stored = await self.load_here(row, principal)
        except Internal:
            if (stored := await self._elsewhere(row, principal)) is None:
                raise
        return stored or await self._elsewhere(row, principal)

    async def load_here(self, row: str, principal: Principal) -> StoredResult | None:
        """Like `load`, without asking other gateways."""
        unsaved = self._unsaved.get(row)
        if unsaved is None:
            return await self._store.load_result(row, principal)
        return unsaved if unsaved.principal == principal.id and unsaved.expires_at >= steady_time() else None
