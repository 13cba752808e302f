"""Sealed records that clients and peers carry for us: only gateways with the same keys can open them.

AES-256-GCM with keys derived from the vault's keys, one for each purpose. The id of the key comes first, so that keys
can be changed by configuration (new one first, then the old one) while records of both exist. A record is bound to its
purpose and to the caller's value, and expires by the shared clock.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from wicket_mcp.codec import decode, encode

_NONCE = 12


class Ring:
    """The keys, the one in use first. `clock` returns the time that all members share."""

    def __init__(self, keys: Sequence[bytes], clock: Callable[[], float] = time.time) -> None:
        self._keys = tuple(keys)
        self._clock = clock

    def now(self) -> float:
        """The time that all members share."""
        return self._clock()

    def use_clock(self, clock: Callable[[], float]) -> None:
        """Use another clock: the one that all members share."""
        self._clock = clock

    def __repr__(self) -> str:
        return f"<Ring of {len(self._keys)} keys>"

    def derive(self, purpose: str) -> tuple[bytes, ...]:
        """A key for a purpose from each of ours."""
        return tuple(hmac.digest(key, f"wicket {purpose}".encode(), "sha256") for key in self._keys)

    def close(self, purpose: str, content: Any, lifetime: float, bound: str = "") -> str:
        key = self.derive(purpose)[0]
        nonce, body = secrets.token_bytes(_NONCE), encode([content, self._clock() + lifetime])
        sealed = nonce + AESGCM(key).encrypt(nonce, body, f"{purpose} {bound}".encode())
        return f"{_name(key)}.{base64.urlsafe_b64encode(sealed).decode().rstrip('=')}"

    def open(self, purpose: str, sealed: str, bound: str = "") -> Any:
        """The content; None for anything that we did not seal for this purpose, or that has expired."""
        name, _, text = sealed.partition(".")
        key = next((key for key in self.derive(purpose) if _name(key) == name), None)
        try:
            data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
            if key is None or len(data) < _NONCE:
                return None
            body = AESGCM(key).decrypt(data[:_NONCE], data[_NONCE:], f"{purpose} {bound}".encode())
        except (InvalidTag, binascii.Error, ValueError):
            return None
        content, expires_at = decode(body)
        return content if expires_at >= self._clock() else None


def _name(key: bytes) -> str:
    return hashlib.sha256(key).hexdigest()[:8]
