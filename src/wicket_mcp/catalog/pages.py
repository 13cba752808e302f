"""Pages of a sorted list behind opaque cursors. A cursor names the last entry, so that a list may change in between."""

import base64
import binascii
from collections.abc import Sequence
from typing import TypeVar

from wicket_mcp.codec import decode, encode
from wicket_mcp.errors import BadArguments

K = TypeVar("K", bound=tuple[int, str])


def page(entries: Sequence[K], cursor: str | None, size: int) -> tuple[Sequence[K], str | None]:
    """The entries after `cursor`, and the cursor of the next page, None on the last. Raises BadArguments."""
    after = _read(cursor) if cursor else None
    rest = [entry for entry in entries if after is None or entry > after]
    shown = rest[:size]
    return shown, _cursor(shown[-1]) if len(rest) > size else None


def _cursor(entry: tuple[int, str]) -> str:
    return base64.urlsafe_b64encode(encode(list(entry))).decode("ascii").rstrip("=")


def _read(cursor: str) -> tuple[int, str]:
    try:
        found = decode(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, binascii.Error):
        found = None
    match found:
        case [int() as rank, str() as name]:
            return rank, name
        case _:
            raise BadArguments("The cursor is not one of ours.", hint="Begin without a cursor.")
