"""Which principals may approve a grant, and whether they still may.

The owner with the gateway's token, others with an API key or by signing in with a provider (`people.py`).
"""

import hmac
from collections.abc import Mapping
from typing import Any

from wicket_mcp.config.model.sign_in import IssuerConfig
from wicket_mcp.identity.claims import InvalidToken
from wicket_mcp.identity.grants import digest_of
from wicket_mcp.identity.keys import Keys
from wicket_mcp.identity.people import People
from wicket_mcp.model import LOCAL, Principal


class CredentialHolders:
    """`token` is the gateway's own; None if none is required. `people` None: no sign-in with a provider."""

    def __init__(self, token: str | None, keys: Keys, people: People | None = None) -> None:
        self._token = token
        self._keys = keys
        self._people = people

    async def check(self, credential: str) -> Principal | None:
        if self._token is not None and hmac.compare_digest(credential.encode(), self._token.encode()):
            return LOCAL
        return await self._keys.principal(credential)

    async def holder(self, digest: bytes) -> Principal | None:
        if self._token is not None and hmac.compare_digest(digest, digest_of(self._token)):
            return LOCAL
        holder = await self._keys.holder(digest)
        return await self._people.holder(digest) if holder is None and self._people is not None else holder

    async def remember(self, issuer: IssuerConfig, claims: Mapping[str, Any]) -> tuple[Principal, bytes]:
        if self._people is None:
            raise InvalidToken("signing in with a provider is not configured here")
        return await self._people.remember(issuer, claims)
