"""Storage of sign-ins: grants by owner and server, clients by issuer, and a note of missing sign-ins.

The notes contain no secret and can be read without a key, so that `wicket status` and a search can report what is
missing.
"""

import time

import msgspec

from wicket_mcp.identity.oauth.messages import Client, Grant
from wicket_mcp.identity.vault import SHARED, Vault

_GRANT = msgspec.json.Decoder(Grant)
_CLIENTS = msgspec.json.Decoder(list[Client])
_MOST_CLIENTS = 8
"""Per issuer: one for each redirect address."""


class Keep:
    """Grants and clients, in the vault."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    def version(self) -> int | None:
        """Differs from every earlier value if a sign-in may have changed since, in any process; None if unknown."""
        return self._vault.version()

    async def grant(self, owner: str, server: str, url: str) -> Grant | None:
        """The grant of `owner`; never one that was given for another address."""
        stored = await self._vault.get(owner, f"oauth {server}")
        if stored is None:
            return None
        try:
            grant = _GRANT.decode(stored)
        except msgspec.DecodeError:
            return None
        return grant if grant.url == url else None

    async def save_grant(self, owner: str, server: str, grant: Grant) -> None:
        await self._vault.put(owner, f"oauth {server}", msgspec.json.encode(grant))

    async def drop_grant(self, owner: str, server: str) -> bool:
        return await self._vault.delete(owner, f"oauth {server}")

    async def client(self, issuer: str, redirect_uri: str) -> Client | None:
        """Our client at an issuer for this redirect address, unless its secret has ended."""
        known = (client for client in await self.clients(issuer) if client.redirect_uri == redirect_uri)
        return next((client for client in known if not 0 < client.expires_at <= time.time()), None)

    async def clients(self, issuer: str) -> list[Client]:
        stored = await self._vault.get(SHARED, f"client {issuer}")
        try:
            known = [] if stored is None else _CLIENTS.decode(stored)
        except msgspec.DecodeError:
            return []
        return [client for client in known if client.issuer == issuer]

    async def save_client(self, client: Client) -> None:
        others = [known for known in await self.clients(client.issuer) if known.redirect_uri != client.redirect_uri]
        clients = [client, *others][:_MOST_CLIENTS]
        await self._vault.put(SHARED, f"client {client.issuer}", msgspec.json.encode(clients))

    async def drop_client(self, client: Client) -> bool:
        """Forget a client that the server no longer knows; whether it was one that registered itself."""
        known = await self.clients(client.issuer)
        others = [other for other in known if other.client_id != client.client_id]
        if len(others) == len(known):
            return False
        await self._vault.put(SHARED, f"client {client.issuer}", msgspec.json.encode(others))
        return True

    async def environment(self, owner: str, server: str) -> dict[str, str] | None:
        """The variables that `owner` provided for a command."""
        stored = await self._vault.get(owner, f"env {server}")
        return None if stored is None else msgspec.json.decode(stored, type=dict[str, str])

    async def save_environment(self, owner: str, server: str, variables: dict[str, str]) -> None:
        await self._vault.put(owner, f"env {server}", msgspec.json.encode(variables))

    async def drop_environment(self, owner: str, server: str) -> bool:
        return await self._vault.delete(owner, f"env {server}")
