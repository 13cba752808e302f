"""All secrets that were filled in since this process started; kept as values, only in memory.

A secret of one server can appear in another's text, in a log line or in an error, so there is one memory for all.
`upstream/connector.py` adds to it before it starts a server; `redact.py` and the log's formatter mask with it.
"""

import re
from collections.abc import Iterable

MASK = "***"
SHORTEST_SECRET = 6
"""Masking shorter values would hide ordinary words."""

_MOST = 20_000  # remembered parts; a file with that many lines is not a secret


def parts_of(secrets: Iterable[str]) -> set[str]:
    """Each secret, and each line of a multi-line secret: a key may be shown line by line."""
    parts = {part for secret in secrets for part in (secret, *map(str.strip, secret.splitlines()))}
    return {part for part in parts if len(part) >= SHORTEST_SECRET}


def pattern_of(parts: Iterable[str]) -> "re.Pattern[str] | None":
    """A pattern that finds any of these, longest first."""
    known = sorted(parts, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, known))) if known else None


class KnownSecrets:
    """Remembers values and masks them."""

    def __init__(self) -> None:
        self._parts: set[str] = set()
        self._pattern: re.Pattern[str] | None = None

    def __repr__(self) -> str:
        return f"<KnownSecrets {len(self._parts)}>"

    def remember(self, secrets: Iterable[str]) -> None:
        new = parts_of(secrets) - self._parts
        if new and len(self._parts) + len(new) <= _MOST:
            self._parts |= new
            self._pattern = pattern_of(self._parts)

    def mask(self, text: str) -> str:
        """`text` with every known secret in it replaced, and nothing else changed."""
        return self._pattern.sub(MASK, text) if self._pattern else text


KNOWN = KnownSecrets()
