"""Data that waits until a browser comes back: sealed, in the store, for any process that the browser reaches.

A record is found by a secret that only the browser carries (a `state`, a link), is stored under its digest, and
expires; `take` returns it once among all processes, and `claim` lets one of them do something alone. A record is sealed
with the keys that replicas share or, without replicas, with a key of this process. Knows nothing about its content:
sign-ins to servers and their renewal (`oauth/`), and visits to OpenID providers (`providers.py`).
"""

import hashlib
import secrets
import time
from typing import Any

from wicket_mcp.sealing import Ring
from wicket_mcp.store.base import GrantStore
from wicket_mcp.store.model import StoredTicket


class Waiting:
    """The records of one gateway, in all its processes."""

    def __init__(self, store: GrantStore) -> None:
        self._store = store
        self._ring = Ring(lambda: [secrets.token_bytes(32)])
        self.shared = False
        """Whether other processes may take records from here."""

    def share(self, ring: Ring) -> None:
        """Let every process with these keys take records."""
        self._ring, self.shared = ring, True

    async def put(self, kind: str, key: str, content: Any, life: float) -> None:
        """Store `content`, which must be JSON, under a secret for this many seconds."""
        now, digest = time.time(), _digest(kind, key)
        sealed = self._ring.close(kind, content, life, digest.hex())
        await self._store.add_ticket(StoredTicket(digest, kind, "", {"sealed": sealed}, now + life), now)

    async def peek(self, kind: str, key: str) -> Any:
        """The content under a secret; None if there is none, or it has expired."""
        digest = _digest(kind, key)
        return self._open(kind, digest, await self._store.ticket(digest))

    async def take(self, kind: str, key: str) -> Any:
        """Like `peek`, but only the first caller gets it."""
        digest = _digest(kind, key)
        return self._open(kind, digest, await self._store.use_ticket(digest, time.time()))

    async def claim(self, kind: str, key: str, life: float) -> bool:
        """Whether this process may do alone what `key` names, until it releases it or `life` seconds have passed."""
        now = time.time()
        return await self._store.add_ticket(StoredTicket(_digest(kind, key), kind, "", {}, now + life), now)

    async def release(self, kind: str, key: str) -> None:
        """The next process may claim it."""
        await self._store.drop_ticket(_digest(kind, key))

    def _open(self, kind: str, digest: bytes, ticket: StoredTicket | None) -> Any:
        if ticket is None or ticket.kind != kind or ticket.used_at is not None or time.time() >= ticket.expires_at:
            return None
        return self._ring.open(kind, str(ticket.body["sealed"]), digest.hex())


def _digest(kind: str, key: str) -> bytes:
    return hashlib.sha256(f"{kind} {key}".encode("utf-8", "replace")).digest()
