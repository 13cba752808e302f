"""People who signed in at our authorization server with an OpenID provider: their stored claims.

A grant or a browser's session names a person by a digest; here it becomes a principal, by the issuer's current
configuration. It is valid for thirty days after the sign-in, so that a person who has left the provider loses access.
"""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wicket_mcp.codec import decode, encode
from wicket_mcp.config.model.sign_in import IssuerConfig
from wicket_mcp.identity.claims import LABELS, InvalidToken, principal_of, read_claim
from wicket_mcp.model import Principal, as_object
from wicket_mcp.store.base import NoteStore

LIFE = 30 * 86400.0
_KEPT = ("sub", "client_id", "scope", "scp", "roles", *LABELS)


class People:
    """`issuers` returns the currently configured ones."""

    def __init__(
        self,
        notes: NoteStore,
        issuers: Callable[[], Sequence[IssuerConfig]],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._notes = notes
        self._issuers = issuers
        self._clock = clock

    async def remember(self, issuer: IssuerConfig, claims: Mapping[str, Any]) -> tuple[Principal, bytes]:
        """The principal who signed in, and the digest that represents them. Raises InvalidToken if the claims name no
        one.
        """
        principal = principal_of(claims, issuer)
        remembered = {name: claims[name] for name in _KEPT if name in claims}
        remembered |= {issuer.groups: read_claim(claims, issuer.groups)}  # a name with dots is first read literally
        digest = hashlib.sha256(principal.id.encode()).digest()
        note = {"issuer": issuer.issuer, "claims": remembered, "until": self._clock() + LIFE}
        await self._notes.save_note(_note(digest), encode(note).decode())
        return principal, digest

    async def holder(self, digest: bytes) -> Principal | None:
        """The principal of this digest, while their sign-in and its issuer are valid."""
        text = await self._notes.load_note(_note(digest))
        note = as_object(decode(text)) if text else {}
        issuer = next((candidate for candidate in self._issuers() if candidate.issuer == note.get("issuer")), None)
        if issuer is None or self._clock() >= note["until"]:
            return None
        try:
            return principal_of(as_object(note["claims"]), issuer)
        except InvalidToken:
            return None


def _note(digest: bytes) -> str:
    return f"person {digest.hex()}"
