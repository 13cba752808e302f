"""Handles of stored results: sealed records of the row and its expiry, bound to the principal.

A handle that is forged, expired or another principal's is known as such without asking the store, and looks like one
that never existed. Agents copy handles by hand, so a handle is short (34 characters) and spelled in characters that are
not taken for each other: the id of the key, then 20 bytes. A short tag is enough: who guessed one would have sealed a
random row, and the store returns a row only to its own principal.
"""

import math
import secrets

from wicket_mcp.model import Principal
from wicket_mcp.sealing import ID_LENGTH, LETTERS, Ring
from wicket_mcp.store.clock import steady_time

_PURPOSE = "results"
_TAG, _ROW, _EXPIRY = 9, 7, 4  # bytes: 20 in all are 32 characters, with no bit to spare
_BITS = 5  # of a character
_LENGTH = ID_LENGTH + (_TAG + _ROW + _EXPIRY) * 8 // _BITS
_VALUES = {letter: value for value, letter in enumerate(LETTERS)}
_MEANT = str.maketrans("OoIiLl", "001111")
"""What people and models write for characters of ours that look alike."""


class Handles:
    """Makes and opens handles."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring

    def make(self, principal: Principal, expires_at: float) -> tuple[str, str]:
        """The id of a new row, and its handle."""
        row = secrets.token_bytes(_ROW)
        data = row + math.ceil(expires_at).to_bytes(_EXPIRY, "big")
        key, sealed = self._ring.encrypt(_PURPOSE, data, _binding(principal), _TAG)
        return row.hex(), key + _spell(sealed)

    def open(self, handle: str, principal: Principal) -> str | None:
        """The id of the row; None if this is no valid handle of this principal."""
        text = handle.translate(_MEANT).lower()
        sealed = _read(text[ID_LENGTH:]) if len(text) == _LENGTH else None
        if sealed is None:
            return None
        data = self._ring.decrypt(_PURPOSE, text[:ID_LENGTH], sealed, _binding(principal), _TAG)
        if data is None or int.from_bytes(data[_ROW:], "big") < steady_time():
            return None
        return data[:_ROW].hex()


def _binding(principal: Principal) -> bytes:
    return principal.id.encode("utf-8", "surrogatepass")


def _spell(data: bytes) -> str:
    number, count = int.from_bytes(data, "big"), len(data) * 8 // _BITS
    return "".join(LETTERS[number >> _BITS * place & 31] for place in reversed(range(count)))


def _read(text: str) -> bytes | None:
    number = 0
    for letter in text:
        value = _VALUES.get(letter)
        if value is None:
            return None
        number = number << _BITS | value
    return number.to_bytes(len(text) * _BITS // 8, "big")
