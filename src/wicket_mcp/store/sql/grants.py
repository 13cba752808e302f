"""What our authorization server has issued. Implements GrantStore."""

from collections.abc import Sequence

from wicket_mcp.codec import decode, encode
from wicket_mcp.store.clock import steady_time
from wicket_mcp.store.model import StoredClient, StoredGrant, StoredTicket
from wicket_mcp.store.sql.part import Database, Part, Row, insert, upsert

_GRANT = "id, client, client_name, principal, credential, scopes, created_at, expires_at, used_at, revoked_at, reason"
_TICKET = "digest, kind, grant_id, body, expires_at, used_at"
_UNUSED = "oauth_client WHERE id NOT IN (SELECT client FROM oauth_grant)"
_SURPLUS = f"""SELECT id FROM (SELECT id, created_at FROM {_UNUSED} ORDER BY created_at DESC, rowid DESC
               LIMIT 9223372036854775807 OFFSET ?) AS surplus WHERE created_at < ?"""  # noqa: S608  (our own words)


class SqlGrants(Part):
    async def save_oauth_client(self, client: StoredClient, most: int, kept_since: float) -> bool:
        def save(db: Database) -> bool:
            db.execute(f"DELETE FROM oauth_client WHERE id IN ({_SURPLUS})", (most - 1, kept_since))  # noqa: S608
            (unused,) = db.execute(f"SELECT count(*) FROM {_UNUSED}", ()).fetchone() or (0,)  # noqa: S608
            if unused >= most:
                return False
            row = (client.id, client.name, encode(list(client.redirect_uris)), client.created_at)
            db.execute(upsert("oauth_client", "id, name, redirect_uris, created_at", "id"), row)
            return True

        return await self._connection.write("oauth_ticket", save)

    async def oauth_client(self, client_id: str) -> StoredClient | None:
        row = await self._row("SELECT id, name, redirect_uris, created_at FROM oauth_client WHERE id = ?", client_id)
        return StoredClient(row[0], row[1], tuple(decode(row[2])), row[3]) if row else None

    async def add_grant(self, grant: StoredGrant) -> None:
        g = grant
        scopes = " ".join(sorted(g.scopes))
        row = (g.id, g.client, g.client_name, g.principal, g.credential, scopes, g.created_at, g.expires_at, g.used_at)
        await self._change(insert("oauth_grant", _GRANT), *row, g.revoked_at, g.reason)

    async def touch_grant(self, grant_id: str, used_at: float, expires_at: float) -> bool:
        text = "UPDATE oauth_grant SET used_at = ?, expires_at = ? WHERE id = ? AND revoked_at IS NULL"
        return await self._change(text, used_at, expires_at, grant_id) > 0

    async def revoke_grant(self, grant_id: str, at: float, reason: str) -> bool:
        def revoke(db: Database) -> bool:
            text = "UPDATE oauth_grant SET revoked_at = ?, reason = ? WHERE id = ? AND revoked_at IS NULL"
            ended = db.execute(text, (at, reason, grant_id)).rowcount > 0
            db.execute("DELETE FROM oauth_ticket WHERE grant_id = ?", (grant_id,))
            return ended

        return await self._connection.write("oauth_grant", revoke)

    def grants_version(self) -> int | None:
        return self._connection.version("oauth_grant", "api_key", "note")

    async def grant(self, grant_id: str) -> StoredGrant | None:
        row = await self._row(f"SELECT {_GRANT} FROM oauth_grant WHERE id = ?", grant_id)  # noqa: S608  (our own words)
        return _grant(row) if row else None

    async def grants(self) -> Sequence[StoredGrant]:
        return [_grant(row) for row in await self._rows(f"SELECT {_GRANT} FROM oauth_grant ORDER BY created_at, rowid")]  # noqa: S608

    async def add_ticket(self, ticket: StoredTicket, at: float) -> bool:
        def add(db: Database) -> bool:
            old = "expires_at < ? OR (digest = ? AND expires_at < ?)"
            db.execute(f"DELETE FROM oauth_ticket WHERE {old}", (min(at, steady_time()), ticket.digest, at))  # noqa: S608
            row = (ticket.digest, ticket.kind, ticket.grant, encode(ticket.body), ticket.expires_at, ticket.used_at)
            return db.execute(f"{insert('oauth_ticket', _TICKET)} ON CONFLICT DO NOTHING", row).rowcount > 0

        return await self._connection.write("oauth_ticket", add)

    async def ticket(self, digest: bytes) -> StoredTicket | None:
        row = await self._row(f"SELECT {_TICKET} FROM oauth_ticket WHERE digest = ?", digest)  # noqa: S608
        return _ticket(row) if row else None

    async def drop_ticket(self, digest: bytes) -> None:
        await self._change("DELETE FROM oauth_ticket WHERE digest = ?", digest)

    async def use_ticket(self, digest: bytes, at: float) -> StoredTicket | None:
        def use(db: Database) -> Row | None:
            row = db.execute(f"SELECT {_TICKET} FROM oauth_ticket WHERE digest = ?", (digest,)).fetchone()  # noqa: S608
            db.execute("UPDATE oauth_ticket SET used_at = ? WHERE digest = ? AND used_at IS NULL", (at, digest))
            return row

        row = await self._connection.write("oauth_ticket", use)
        return _ticket(row) if row else None


def _grant(row: Row) -> StoredGrant:
    grant_id, client, name, principal, credential, scopes, *times = row
    return StoredGrant(grant_id, client, name, principal, credential, frozenset(scopes.split()), *times)


def _ticket(row: Row) -> StoredTicket:
    digest, kind, grant, body, expires_at, used_at = row
    return StoredTicket(digest, kind, grant, decode(body), expires_at, used_at)
