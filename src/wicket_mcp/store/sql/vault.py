"""The vault's rows: wrapped data keys and sealed secrets. Implements VaultStore; cannot decrypt them."""

from collections.abc import Sequence

from wicket_mcp.store.model import StoredDataKey, StoredSecret
from wicket_mcp.store.sql.part import Database, Part, insert, upsert

_NEWEST = "SELECT id FROM vault_key ORDER BY rowid DESC LIMIT 1"
_COLUMNS = "owner, name, key, sealed, updated_at"


class SqlVault(Part):
    async def data_keys(self) -> Sequence[StoredDataKey]:
        rows = await self._rows("SELECT id, wrapped, wrapped_by, created_at FROM vault_key ORDER BY rowid DESC")
        return [StoredDataKey(*row) for row in rows]

    async def add_data_key(self, key: StoredDataKey, *, after: str | None) -> bool:
        def add(db: Database) -> bool:
            newest = db.execute(_NEWEST).fetchone()
            if (newest[0] if newest else None) != after:
                return False
            row = (key.id, key.wrapped, key.wrapped_by, key.created_at)
            db.execute(insert("vault_key", "id, wrapped, wrapped_by, created_at"), row)
            return True

        return await self._connection.write("vault_key", add)

    async def drop_data_keys(self) -> None:
        text = f"DELETE FROM vault_key WHERE id NOT IN (SELECT key FROM vault_secret) AND id NOT IN ({_NEWEST})"  # noqa: S608

        def drop(db: Database) -> None:
            db.execute(text)

        await self._connection.write("vault_key", drop)

    async def save_secret(self, secret: StoredSecret) -> bool:
        def save(db: Database) -> bool:
            if db.execute("SELECT 1 FROM vault_key WHERE id = ?", (secret.key,)).fetchone() is None:
                return False
            row = (secret.owner, secret.name, secret.key, secret.sealed, secret.updated_at)
            db.execute(upsert("vault_secret", _COLUMNS, "owner, name"), row)
            return True

        return await self._connection.write("vault_key", save)

    async def replace_secret(self, old: StoredSecret, new: StoredSecret) -> None:
        text = "UPDATE vault_secret SET key = ?, sealed = ? WHERE owner = ? AND name = ? AND sealed = ?"

        def replace(db: Database) -> None:
            db.execute(text, (new.key, new.sealed, old.owner, old.name, old.sealed))

        await self._connection.write("vault_key", replace)

    async def secret(self, owner: str, name: str) -> StoredSecret | None:
        row = await self._row(f"SELECT {_COLUMNS} FROM vault_secret WHERE owner = ? AND name = ?", owner, name)  # noqa: S608
        return StoredSecret(*row) if row else None

    async def secrets(self, owner: str | None = None) -> Sequence[StoredSecret]:
        where = "" if owner is None else "WHERE owner = ?"
        text = f"SELECT {_COLUMNS} FROM vault_secret {where} ORDER BY owner, name"  # noqa: S608  (our own words)
        return [StoredSecret(*row) for row in await self._rows(text, *([] if owner is None else [owner]))]

    async def drop_secret(self, owner: str, name: str) -> bool:
        text = "DELETE FROM vault_secret WHERE owner = ? AND name = ?"
        return await self._connection.write("vault_key", lambda db: db.execute(text, (owner, name)).rowcount > 0)

    def vault_version(self) -> int | None:
        return self._connection.version("vault_key")
