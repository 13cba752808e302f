"""Encrypts what clients carry for us, and binds it to its context (AEAD). Used for `requestState` and task ids.

Uses only the standard library, because most gateways have no other reason to load a cryptography package: an
HMAC-SHA-256 over data and binding is both nonce and tag (SIV), and SHAKE-256 over key and nonce is the key stream. The
same data with the same binding gives the same text, as task ids require. Credentials at rest are handled by
`identity/vault.py`.
"""

import base64
import hashlib
import hmac
from collections.abc import Iterable

_TAG = 16


def seal(key: bytes, data: bytes, binding: bytes) -> str:
    """Text that hides `data` from everyone without the key, and opens only with the same `binding`."""
    tag = _tag(key, data, binding)
    return _to_text(tag + _crypt(key, tag, data))


def unseal(keys: Iterable[bytes], text: str, binding: bytes) -> bytes | None:
    """The data sealed with one of `keys` for this `binding`; None for anything else."""
    try:
        sealed = base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
    except ValueError:
        return None
    if _to_text(sealed) != text:  # the last character has unused bits: only one way to write them is accepted
        return None
    tag, encrypted = sealed[:_TAG], sealed[_TAG:]
    for key in keys:
        data = _crypt(key, tag, encrypted)
        if hmac.compare_digest(_tag(key, data, binding), tag):
            return data
    return None


def _crypt(key: bytes, tag: bytes, data: bytes) -> bytes:
    stream = hashlib.shake_256(_derive(key, b"encrypt") + tag).digest(len(data))
    return (int.from_bytes(data, "big") ^ int.from_bytes(stream, "big")).to_bytes(len(data), "big")


def _tag(key: bytes, data: bytes, binding: bytes) -> bytes:
    # The length separates the two: no part of one can pass for a part of the other.
    message = len(data).to_bytes(8, "big") + data + binding
    return hmac.digest(_derive(key, b"authenticate"), message, "sha256")[:_TAG]


def _derive(key: bytes, purpose: bytes) -> bytes:
    return hmac.digest(key, purpose, "sha256")


def _to_text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")
