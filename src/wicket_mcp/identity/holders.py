"""Who may approve a grant, and whether they still may: the owner with the gateway's token, others with an API key."""

import hmac

from wicket_mcp.identity.grants import digest_of
from wicket_mcp.identity.keys import Keys
from wicket_mcp.model import LOCAL, Principal


class CredentialHolders:
    """`token` is the gateway's own; None where nobody is asked for one."""

    def __init__(self, token: str | None, keys: Keys) -> None:
        self._token = token
        self._keys = keys

    async def check(self, credential: str) -> Principal | None:
        if self._token is not None and hmac.compare_digest(credential.encode(), self._token.encode()):
            return LOCAL
        return await self._keys.principal(credential)

    async def holder(self, digest: bytes) -> Principal | None:
        if self._token is not None and hmac.compare_digest(digest, digest_of(self._token)):
            return LOCAL
        return await self._keys.holder(digest)
