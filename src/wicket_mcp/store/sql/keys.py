"""API keys, as digests. Implements KeyStore. The last use of a key is written with the call records."""

from collections.abc import Sequence

from wicket_mcp.codec import decode, encode
from wicket_mcp.store.model import StoredKey
from wicket_mcp.store.sql.part import Database, Part, Row, upsert

_KEY = "name, digest, hint, scopes, created_at, expires_at, revoked_at, used_at, rates, holder"


class SqlKeys(Part):
    async def save_key(self, key: StoredKey) -> None:
        row = (
            key.name,
            key.digest,
            key.hint,
            " ".join(sorted(key.scopes)),
            key.created_at,
            key.expires_at,
            key.revoked_at,
            key.used_at,
            encode(key.rates),
            key.holder,
        )

        def save(db: Database) -> None:
            db.execute(upsert("api_key", _KEY, "digest"), row)

        await self._connection.write("api_key", save)

    async def keys(self) -> Sequence[StoredKey]:
        await self._recorder.settle()
        return [_key(row) for row in await self._rows(f"SELECT {_KEY} FROM api_key ORDER BY created_at")]  # noqa: S608

    async def key_of(self, digest: bytes) -> StoredKey | None:
        row = await self._row(f"SELECT {_KEY} FROM api_key WHERE digest = ?", digest)  # noqa: S608  (our own words)
        return _key(row) if row else None

    def keys_version(self) -> int | None:
        return self._connection.version("api_key")

    def mark_key_used(self, digest: bytes, at: float) -> None:
        self._recorder.mark_key_used(digest, at)


def _key(row: Row) -> StoredKey:
    name, digest, hint, scopes, created_at, expires_at, revoked_at, used_at, rates, holder = row
    times = created_at, expires_at, revoked_at, used_at
    return StoredKey(name, digest, hint, frozenset(scopes.split()), *times, decode(rates), holder)
