"""How long a script may run: the time in which a person is asked does not count.

`session.py` sets the limit; the caller of the script's calls (`scripting.py`) says when it asks. Knows no script.
"""

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager


class Patience:
    """The wall of one run."""

    def __init__(self) -> None:
        self._asking = 0
        self._left = 0.0
        self._limit: asyncio.Timeout | None = None

    @asynccontextmanager
    async def limit(self, seconds: float) -> AsyncGenerator[None]:
        """Raises TimeoutError if the body takes longer, without the time of questions."""
        async with asyncio.timeout(seconds) as limit:
            self._limit = limit
            try:
                yield
            finally:
                self._limit = None

    @contextmanager
    def ask(self) -> Generator[None]:
        """While a person is asked, no time passes."""
        limit, clock = self._limit, asyncio.get_running_loop().time
        self._asking += 1
        if self._asking == 1 and limit is not None and (end := limit.when()) is not None:
            self._left = end - clock()
            limit.reschedule(None)
        try:
            yield
        finally:
            self._asking -= 1
            if self._asking == 0 and limit is not None and limit is self._limit and not limit.expired():
                limit.reschedule(clock() + self._left)
