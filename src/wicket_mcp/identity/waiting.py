"""What waits until a browser comes back: sealed, in the store, for whichever process the browser comes to.

A record is found by a secret that only the browser carries (a `state`, a link), is kept under its digest, and ends with
its time; `take` gives it out once among all processes. It is sealed with the keys that replicas share, or, without
replicas, with one of this process. Knows nothing of what waits: sign-ins to servers (`oauth/signin.py`) and visits to
OpenID providers (`providers.py`).
"""

import hashlib
import secrets
import time
from typing import TYPE_CHECKING, Any

from wicket_mcp.store.base import GrantStore
from wicket_mcp.store.model import StoredTicket

if TYPE_CHECKING:
    from wicket_mcp.cluster.seal import Ring


class Waiting:
    """The records of one gateway, however many processes it has."""

    def __init__(self, store: GrantStore) -> None:
        self._store = store
        self._ring: Ring | None = None
        self.shared = False
        """Whether other processes may take what waits here."""

    def share(self, ring: "Ring") -> None:
        """Let everybody with these keys take what waits."""
        self._ring, self.shared = ring, True

    async def put(self, kind: str, key: str, content: Any, life: float) -> None:
        """Keep `content`, which JSON can say, under a secret for so many seconds."""
        now, digest = time.time(), _digest(kind, key)
        sealed = self._keys().close(kind, content, life, digest.hex())
        await self._store.add_ticket(StoredTicket(digest, kind, "", {"sealed": sealed}, now + life), now)

    async def peek(self, kind: str, key: str) -> Any:
        """What waits under a secret; None where nothing does, or no more."""
        digest = _digest(kind, key)
        return self._open(kind, digest, await self._store.ticket(digest))

    async def take(self, kind: str, key: str) -> Any:
        """Like `peek`, for the first who asks."""
        digest = _digest(kind, key)
        return self._open(kind, digest, await self._store.use_ticket(digest, time.time()))

    def _open(self, kind: str, digest: bytes, ticket: StoredTicket | None) -> Any:
        if ticket is None or ticket.kind != kind or ticket.used_at is not None or time.time() >= ticket.expires_at:
            return None
        return self._keys().open(kind, str(ticket.body["sealed"]), digest.hex())

    def _keys(self) -> "Ring":
        if self._ring is None:
            from wicket_mcp.cluster.seal import Ring  # noqa: PLC0415  (loads cryptography, for those who sign in)

            self._ring = Ring([secrets.token_bytes(32)])
        return self._ring


def _digest(kind: str, key: str) -> bytes:
    return hashlib.sha256(f"{kind} {key}".encode("utf-8", "replace")).digest()
