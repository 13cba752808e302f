"""Lets long loops in a thread rest, so that the event loop gets its turn."""

import select
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")
_WORK, _REST = 0.01, 0.001  # seconds


def rest_between(items: Iterable[T]) -> Iterator[T]:
    """The items, with a millisecond's rest after each ten of work: for long loops in a thread.

    A thread that often leaves the interpreter for a moment, as with each call of re2, hashlib or numpy, takes it back
    before the event loop has woken up, and can keep it waiting for a tenth of a second.
    """
    since = time.monotonic()
    for item in items:
        yield item
        if time.monotonic() - since > _WORK:
            select.select((), (), (), _REST)  # unlike time.sleep, it does not depend on the clock's good sense
            since = time.monotonic()
