"""Encrypts what clients and peers carry for us, and binds it to its context (AEAD): the one place that does.

A `Ring` holds keys with short ids. The first key seals, all of them open, and a sealed value begins with the id of its
key: keys are changed by configuration, while values of both exist, and a value that names none of ours is refused
unread. Each purpose has keys of its own, derived from these. Used for ids of sessions and tasks, `requestState`,
handles of results, statements between replicas, cookies and pages.

Uses only the standard library, because most gateways have no other reason to load a cryptography package: an
HMAC-SHA-256 over data and binding is both nonce and tag (SIV), and SHAKE-256 over key and nonce is the key stream. The
same data with the same binding gives the same text, as task ids require. Credentials at rest are handled by
`identity/vault.py`.
"""

import base64
import hashlib
import hmac
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from wicket_mcp.codec import decode, encode

LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"
"""32 characters, none of which is taken for another."""
ID_LENGTH = 2
TAG = 16  # bytes


class _Key(NamedTuple):
    """One key for one purpose."""

    id: str
    encrypting: bytes
    authenticating: bytes


class Ring:
    """The keys, the one in use first. `clock` returns the time that all who share them agree on."""

    def __init__(
        self, keys: Sequence[bytes] | Callable[[], Sequence[bytes]], clock: Callable[[], float] = time.time
    ) -> None:
        """`keys` may be a function, which is called when they are first needed."""
        self._source = keys
        self._clock = clock
        self._derived: dict[str, tuple[_Key, ...]] = {}

    def __repr__(self) -> str:
        return f"<Ring {'unread' if callable(self._source) else ' '.join(map(_id_of, self._source))}>"

    def now(self) -> float:
        return self._clock()

    def use_clock(self, clock: Callable[[], float]) -> None:
        self._clock = clock

    def use(self, keys: Sequence[bytes]) -> None:
        """Use these keys from now on."""
        self._source = keys
        self._derived.clear()

    def close(self, purpose: str, content: Any, lifetime: float, bound: str = "") -> str:
        """A sealed record: `content`, which must be JSON, and when it expires."""
        return self.seal(purpose, encode([content, self._clock() + lifetime]), bound.encode("utf-8", "surrogatepass"))

    def open(self, purpose: str, sealed: str, bound: str = "") -> Any:
        """The content; None for anything that we did not seal for this purpose, or that has expired."""
        data = self.unseal(purpose, sealed, bound.encode("utf-8", "surrogatepass"))
        if data is None:
            return None
        content, expires_at = decode(data)
        return content if expires_at >= self._clock() else None

    def seal(self, purpose: str, data: bytes, binding: bytes) -> str:
        """Text that hides `data` from everyone without the key, and opens only with the same `binding`."""
        number, sealed = self.encrypt(purpose, data, binding)
        return number + _to_text(sealed)

    def unseal(self, purpose: str, text: str, binding: bytes) -> bytes | None:
        """The data sealed with one of our keys for this purpose and `binding`; None for anything else."""
        spelled = text[ID_LENGTH:]
        try:
            sealed = base64.b64decode(spelled + "=" * (-len(spelled) % 4), b"-_", validate=True)
        except ValueError:
            return None
        if _to_text(sealed) != spelled:  # the last character has unused bits: only one way to write them is accepted
            return None
        return self.decrypt(purpose, text[:ID_LENGTH], sealed, binding)

    def encrypt(self, purpose: str, data: bytes, binding: bytes, tag_size: int = TAG) -> tuple[str, bytes]:
        """The id of the key, and what it makes of `data`, which is `tag_size` bytes longer."""
        key = self._keys(purpose)[0]
        tag = _tag(key, data, binding, tag_size)
        return key.id, tag + _crypt(key, tag, data)

    def decrypt(self, purpose: str, number: str, sealed: bytes, binding: bytes, tag_size: int = TAG) -> bytes | None:
        """What `encrypt` was given; None for anything else."""
        tag, encrypted = sealed[:tag_size], sealed[tag_size:]
        for key in self._keys(purpose):
            if key.id != number:  # two keys may have the same id
                continue
            data = _crypt(key, tag, encrypted)
            if hmac.compare_digest(_tag(key, data, binding, tag_size), tag):
                return data
        return None

    def _keys(self, purpose: str) -> tuple[_Key, ...]:
        keys = self._derived.get(purpose)
        if keys is None:
            source = self._source = self._source() if callable(self._source) else self._source
            keys = self._derived[purpose] = tuple(_derive(key, purpose) for key in source)
        return keys


def _derive(key: bytes, purpose: str) -> _Key:
    own = hmac.digest(key, f"wicket {purpose}".encode(), "sha256")
    return _Key(_id_of(key), hmac.digest(own, b"encrypt", "sha256"), hmac.digest(own, b"authenticate", "sha256"))


def _id_of(key: bytes) -> str:
    return "".join(LETTERS[byte % 32] for byte in hmac.digest(key, b"wicket key id", "sha256")[:ID_LENGTH])


def _crypt(key: _Key, tag: bytes, data: bytes) -> bytes:
    stream = hashlib.shake_256(key.encrypting + tag).digest(len(data))
    return (int.from_bytes(data, "big") ^ int.from_bytes(stream, "big")).to_bytes(len(data), "big")


def _tag(key: _Key, data: bytes, binding: bytes, size: int) -> bytes:
    # The length separates the two: no part of one can pass for a part of the other.
    message = len(data).to_bytes(8, "big") + data + binding
    return hmac.digest(key.authenticating, message, "sha256")[:size]


def _to_text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")
