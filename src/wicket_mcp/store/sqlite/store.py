"""The whole store on one SQLite file: the sum of its parts. Implements Store; only `store/open.py` imports it."""

from pathlib import Path

from wicket_mcp.store.records import Batch, Recorder
from wicket_mcp.store.sqlite.approvals import SqliteApprovals
from wicket_mcp.store.sqlite.audit import SqliteAudit, write_batch
from wicket_mcp.store.sqlite.choices import SqliteChoices
from wicket_mcp.store.sqlite.connection import Connection
from wicket_mcp.store.sqlite.domains import SqliteDomains
from wicket_mcp.store.sqlite.grants import SqliteGrants
from wicket_mcp.store.sqlite.health import SqliteHealth
from wicket_mcp.store.sqlite.keys import SqliteKeys
from wicket_mcp.store.sqlite.limits import SqliteLimits
from wicket_mcp.store.sqlite.listings import SqliteListings
from wicket_mcp.store.sqlite.managed import SqliteManaged
from wicket_mcp.store.sqlite.notes import SqliteNotes
from wicket_mcp.store.sqlite.onboarding import SqliteOnboarding
from wicket_mcp.store.sqlite.pins import SqlitePins
from wicket_mcp.store.sqlite.records import SqliteRecords
from wicket_mcp.store.sqlite.results import SqliteResults
from wicket_mcp.store.sqlite.vault import SqliteVault


class SqliteStore(
    SqliteListings,
    SqliteResults,
    SqliteAudit,
    SqliteChoices,
    SqliteNotes,
    SqliteKeys,
    SqliteVault,
    SqliteGrants,
    SqliteLimits,
    SqliteRecords,
    SqliteDomains,
    SqliteOnboarding,
    SqliteManaged,
    SqliteHealth,
    SqlitePins,
    SqliteApprovals,
):
    """Open it with `open_store`."""

    @classmethod
    async def open(cls, path: Path) -> "SqliteStore":
        """Raises ConfigError."""
        connection = await Connection.open(path)

        async def write(batch: Batch) -> None:
            await connection.write(lambda db: write_batch(db, batch))

        return cls(connection, Recorder(write))

    def __repr__(self) -> str:
        return f"<SqliteStore {self._recorder!r}>"

    async def close(self) -> None:
        await self._recorder.close()
        await self._connection.close()
