"""Servers that were installed at run time. Implements ManagedStore."""

from collections.abc import Sequence
from typing import Any

from wicket_mcp.codec import decode, encode
from wicket_mcp.store.model import StoredManaged
from wicket_mcp.store.sql.part import Database, Part, upsert

_AREA = "managed_server"
_MANAGED = "name, kind, options, running, owner, created_at"


class SqlManaged(Part):
    async def save_managed(self, managed: StoredManaged) -> None:
        m = managed
        row = (m.name, m.kind, encode(m.options), m.running, m.owner, m.created_at)
        await self._announce(upsert(_AREA, _MANAGED, "name"), *row)

    async def drop_managed(self, name: str) -> None:
        await self._announce("DELETE FROM managed_server WHERE name = ?", name)

    async def _announce(self, text: str, *values: Any) -> None:
        """Run one statement that the other gateways hear of."""

        def change(db: Database) -> None:
            db.execute(text, values)

        await self._connection.write(_AREA, change)

    async def managed_servers(self) -> Sequence[StoredManaged]:
        rows = await self._rows(f"SELECT {_MANAGED} FROM managed_server ORDER BY created_at, name")  # noqa: S608
        return [
            StoredManaged(name, kind, decode(options), bool(running), owner, created_at)
            for name, kind, options, running, owner, created_at in rows
        ]
