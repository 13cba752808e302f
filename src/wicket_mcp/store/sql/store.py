"""The whole store: the sum of its parts, over an engine's connection. Implements Store."""

from collections.abc import Callable

from wicket_mcp.store.base import SharedLimits
from wicket_mcp.store.records import Batch, Recorder
from wicket_mcp.store.sql.approvals import SqlApprovals
from wicket_mcp.store.sql.audit import SqlAudit, write_batch
from wicket_mcp.store.sql.choices import SqlChoices
from wicket_mcp.store.sql.domains import SqlDomains
from wicket_mcp.store.sql.grants import SqlGrants
from wicket_mcp.store.sql.health import SqlHealth
from wicket_mcp.store.sql.keys import SqlKeys
from wicket_mcp.store.sql.limits import SqlLimits
from wicket_mcp.store.sql.listings import SqlListings
from wicket_mcp.store.sql.managed import SqlManaged
from wicket_mcp.store.sql.notes import SqlNotes
from wicket_mcp.store.sql.onboarding import SqlOnboarding
from wicket_mcp.store.sql.part import Connection, Database
from wicket_mcp.store.sql.pins import SqlPins
from wicket_mcp.store.sql.records import SqlRecords
from wicket_mcp.store.sql.results import SqlResults
from wicket_mcp.store.sql.vault import SqlVault


class SqlStore(
    SqlListings,
    SqlResults,
    SqlAudit,
    SqlChoices,
    SqlNotes,
    SqlKeys,
    SqlVault,
    SqlGrants,
    SqlLimits,
    SqlRecords,
    SqlDomains,
    SqlOnboarding,
    SqlManaged,
    SqlHealth,
    SqlPins,
    SqlApprovals,
):
    """Opened by an engine (`store/sqlite/`, `store/postgres/`); use `open_store`."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection, Recorder(self._write))
        self.shared_limits: SharedLimits | None = None

    def share_limits(self, limits: SharedLimits) -> None:
        """Use `limits` for counting, for all gateways that share them."""
        self.shared_limits = limits

    def hear_changes(self, hear: Callable[[str], object]) -> Callable[[], None]:
        return self._connection.listen(hear)

    def __repr__(self) -> str:
        return f"<SqlStore {self._recorder!r}>"

    async def take(self, principal: str, kind: str, per_hour: int, at: float) -> float:
        if self.shared_limits is not None:
            return await self.shared_limits.take(principal, kind, per_hour, at)
        return await super().take(principal, kind, per_hour, at)

    async def draw(self, principal: str, kind: str, per_hour: int, at: float, amount: float) -> float:
        if self.shared_limits is not None:
            return await self.shared_limits.draw(principal, kind, per_hour, at, amount)
        return await super().draw(principal, kind, per_hour, at, amount)

    async def close(self) -> None:
        if self.shared_limits is not None:
            await self.shared_limits.close()
        await self._recorder.close()
        await self._connection.close()

    async def _write(self, batch: Batch) -> None:
        def write(db: Database) -> None:
            write_batch(db, batch)

        await self._connection.write("audit", write)
