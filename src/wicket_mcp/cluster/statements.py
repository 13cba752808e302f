"""What a member states to another one about a principal, sealed with the keys that only members have.

A statement is for one receiver, one method, path and body, and for one use within half a minute: whoever overhears it
can use it nowhere. On a connection between members a statement belongs to that connection and may be repeated there.
Made by `relay.py` and for `upstream/owner.py`; checked before anything of a member's request is read.
"""

import hashlib
import secrets
import time
from typing import Any, NamedTuple

from wicket_mcp.model import Principal
from wicket_mcp.sealing import Ring

LIFETIME = 30.0
REMEMBERED = 1000
"""Principals on connections whose statements are cached."""


class Statement(NamedTuple):
    """A member's statement for us, used for the first time."""

    principal: Principal
    digest: str

    def fits(self, body: bytes) -> bool:
        """Whether it was made for this body."""
        return self.digest == _digest(body)


class Statements:
    """Those of one member: made by it, and for it."""

    def __init__(self, ring: Ring, me: str) -> None:
        self._ring = ring
        self._me = me
        self._used: tuple[set[str], set[str]] = set(), set()
        """The statements that were used lately, by the half of their time in which they were."""
        self._turned_at = 0.0
        self._made: dict[tuple[Principal, str], tuple[str, float]] = {}
        self._admitted: dict[tuple[str, str], tuple[Principal, float]] = {}

    def make(self, receiver: str, principal: Principal, method: str, path: str, body: bytes = b"") -> str:
        """`receiver` is a member's id."""
        content = [_fields(principal), _digest(body), secrets.token_hex(8)]
        return self._ring.close("peer", content, LIFETIME, f"{receiver} {method} {path}")

    def admit(self, sealed: str, method: str, path: str) -> Statement | None:
        """None if no member of ours made it for us and this request, or if it was used before."""
        content = self._ring.open("peer", sealed, f"{self._me} {method} {path}")
        if content is None or self._is_used(content[2]):
            return None
        return Statement(_principal(content[0]), content[1])

    def make_for(self, principal: Principal, connection: str) -> str:
        """For requests over a connection that was opened with the statement `connection`; the same one for a while."""
        known = self._made.get((principal, connection))
        now = time.monotonic()
        if known is None or known[1] < now:
            if len(self._made) >= REMEMBERED:
                self._made.clear()
            sealed = self._ring.close("peer link", _fields(principal), LIFETIME, connection)
            known = self._made[principal, connection] = sealed, now + LIFETIME / 2
        return known[0]

    def admit_on(self, connection: str, sealed: str) -> Principal | None:
        known = self._admitted.get((connection, sealed))
        now = time.monotonic()
        if known is not None and known[1] >= now:
            return known[0]
        if len(self._admitted) >= REMEMBERED:
            self._admitted.clear()
        fields = self._ring.open("peer link", sealed, connection)
        if fields is None:
            return None
        principal = _principal(fields)
        self._admitted[connection, sealed] = principal, now + LIFETIME / 2
        return principal

    def _is_used(self, nonce: str) -> bool:
        now = time.monotonic()
        if now - self._turned_at > LIFETIME:
            self._used = set(), self._used[0]
            self._turned_at = now
        if nonce in self._used[0] or nonce in self._used[1]:
            return True
        self._used[0].add(nonce)
        return False


def _fields(principal: Principal) -> list[Any]:
    p = principal
    scopes, groups = sorted(p.scopes), sorted(p.groups)
    return [p.name, scopes, list(p.rates), p.issuer, p.subject, groups, p.label, p.profile, p.holder]


def _principal(fields: list[Any]) -> Principal:
    name, scopes, rates, issuer, subject, groups, *others = fields
    limits = tuple((str(kind), int(rate)) for kind, rate in rates)
    return Principal(name, frozenset(scopes), limits, issuer, subject, frozenset(groups), *others)


def _digest(body: bytes) -> str:
    return hashlib.blake2b(body, digest_size=16).hexdigest()
