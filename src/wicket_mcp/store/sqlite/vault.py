"""The vault's rows: data keys, wrapped, and secrets, sealed. Implements VaultStore; can read none of them."""

import sqlite3
from collections.abc import Sequence

from wicket_mcp.store.model import StoredDataKey, StoredSecret
from wicket_mcp.store.sqlite.connection import Part

_NEWEST = "SELECT id FROM vault_key ORDER BY rowid DESC LIMIT 1"
_COLUMNS = "owner, name, key, sealed, updated_at"


class SqliteVault(Part):
    async def data_keys(self) -> Sequence[StoredDataKey]:
        rows = await self._rows("SELECT id, wrapped, wrapped_by, created_at FROM vault_key ORDER BY rowid DESC")
        return [StoredDataKey(*row) for row in rows]

    async def add_data_key(self, key: StoredDataKey, *, after: str | None) -> bool:
        def add(db: sqlite3.Connection) -> bool:
            newest = db.execute(_NEWEST).fetchone()
            if (newest[0] if newest else None) != after:
                return False
            row = (key.id, key.wrapped, key.wrapped_by, key.created_at)
            db.execute("INSERT INTO vault_key VALUES (?, ?, ?, ?)", row)
            return True

        return await self._connection.write(add)

    async def drop_data_keys(self) -> None:
        await self._change(
            f"DELETE FROM vault_key WHERE id NOT IN (SELECT key FROM vault_secret) AND id NOT IN ({_NEWEST})"  # noqa: S608
        )

    async def save_secret(self, secret: StoredSecret) -> bool:
        def save(db: sqlite3.Connection) -> bool:
            if db.execute("SELECT 1 FROM vault_key WHERE id = ?", (secret.key,)).fetchone() is None:
                return False
            row = (secret.owner, secret.name, secret.key, secret.sealed, secret.updated_at)
            db.execute("INSERT OR REPLACE INTO vault_secret VALUES (?, ?, ?, ?, ?)", row)
            return True

        return await self._connection.write(save)

    async def replace_secret(self, old: StoredSecret, new: StoredSecret) -> None:
        await self._change(
            "UPDATE vault_secret SET key = ?, sealed = ? WHERE owner = ? AND name = ? AND sealed = ?",
            new.key,
            new.sealed,
            old.owner,
            old.name,
            old.sealed,
        )

    async def secret(self, owner: str, name: str) -> StoredSecret | None:
        row = await self._row(f"SELECT {_COLUMNS} FROM vault_secret WHERE owner = ? AND name = ?", owner, name)  # noqa: S608
        return StoredSecret(*row) if row else None

    async def secrets(self, owner: str | None = None) -> Sequence[StoredSecret]:
        where = "" if owner is None else "WHERE owner = ?"
        text = f"SELECT {_COLUMNS} FROM vault_secret {where} ORDER BY owner, name"  # noqa: S608  (our own words)
        return [StoredSecret(*row) for row in await self._rows(text, *([] if owner is None else [owner]))]

    async def drop_secret(self, owner: str, name: str) -> bool:
        def drop(db: sqlite3.Connection) -> bool:
            return db.execute("DELETE FROM vault_secret WHERE owner = ? AND name = ?", (owner, name)).rowcount > 0

        return await self._connection.write(drop)
