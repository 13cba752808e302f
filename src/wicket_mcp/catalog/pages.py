"""Pages of a sorted list behind opaque cursors. A cursor names the last entry, so that a list may change in between."""

import base64
from collections.abc import Sequence
from typing import TypeVar

from wicket_mcp.codec import decode, encode
from wicket_mcp.errors import BadArguments
from wicket_mcp.model import as_list

K = TypeVar("K", bound=tuple[int, str])
A = TypeVar("A", int, str)
B = TypeVar("B", int, str)


def page(entries: Sequence[K], cursor: str | None, size: int) -> tuple[Sequence[K], str | None]:
    """The entries after `cursor`, and the cursor of the next page, None on the last. Raises BadArguments."""
    after = read_cursor(cursor, int, str) if cursor else None
    following = [entry for entry in entries if after is None or entry > after]
    rows = following[:size]
    return rows, write_cursor(*rows[-1]) if len(following) > size else None


def write_cursor(first: int | str, second: int | str) -> str:
    """A cursor that identifies an entry by these two values."""
    return base64.urlsafe_b64encode(encode([first, second])).decode("ascii").rstrip("=")


def read_cursor(cursor: str, first: type[A], second: type[B]) -> tuple[A, B]:
    """The two values in a cursor. Raises BadArguments for a cursor that we did not write."""
    try:
        fields = as_list(decode(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)))
    except ValueError:
        fields = []
    if len(fields) != 2 or not isinstance(fields[0], first) or not isinstance(fields[1], second):
        raise BadArguments(
            "The cursor was not made by this gateway.",
            hint="Send nextCursor exactly as you received it, or none to begin.",
        )
    return fields[0], fields[1]
