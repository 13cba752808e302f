"""A stream that an HTTP upstream keeps open for unsolicited messages, reopened whenever it ends.

The connection provides the functions that open it and handle its events. If an upstream does not offer such a stream,
nothing more is tried; if it fails, the retries get slower and slower.
"""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable

from wicket_mcp.errors import METHOD_NOT_FOUND, NeedsSignIn, Refused, UpstreamError
from wicket_mcp.upstream.egress import Answer
from wicket_mcp.upstream.event_stream import Event, EventParser, OversizedEventError
from wicket_mcp.upstream.http_errors import HttpRefused, refused_for_good, violation
from wicket_mcp.upstream.subscription import is_refusal

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
SHORTEST_PAUSE = 0.1  # at least, even if the upstream asks for less
STEADY = 10.0  # seconds; a silent stream that lasted this long did not fail: a proxy closed it

Open = Callable[[str], Awaitable[Answer | None]]
"""Opens the stream, resuming after the given event id; None if the upstream does not offer it."""


class Listener:
    """Runs until it is cancelled, or until it turns out that the stream is not offered."""

    def __init__(
        self,
        opener: Open,
        receive: Callable[[bytes], Awaitable[None]],
        overhear: Callable[[int], Awaitable[None]],
        limit: int,
        *,
        acknowledged: bool = False,
    ) -> None:
        """`overhear` is called with the number of lines and events that are no message. With `acknowledged`, the
        stream's first event confirms that the subscription is active.
        """
        self.settled = asyncio.Event()
        """Set when the subscription is active, or will not be."""
        self.refusal: Refused | None = None
        """Why the upstream did not begin the subscription."""
        self._acknowledged = acknowledged
        self._open = opener
        self._receive = receive
        self._overhear = overhear
        self._parser = EventParser(limit)
        self._received = False

    async def run(self) -> None:
        try:
            await self._run()
        finally:
            self.settled.set()

    async def _run(self) -> None:
        failures = 0
        while True:
            requested_pause = 0.0
            self._received = False
            opened = asyncio.get_running_loop().time()
            try:
                answer = await self._open(self._parser.last_id)
                if answer is None:
                    return
                if not self._acknowledged:
                    self.settled.set()
                await self._follow(answer)
            except UpstreamError as problem:
                if not self._received and is_refusal(problem):
                    self.refusal = problem
                if _is_final(problem):
                    return
                requested_pause = (problem.retry_after or 0.0) if isinstance(problem, HttpRefused) else 0.0
            self.settled.set()
            steady = asyncio.get_running_loop().time() - opened > STEADY
            failures = 0 if self._received or steady else failures + 1
            await asyncio.sleep(min(max(requested_pause, self._pause(failures)), LONGEST_PAUSE))

    async def _follow(self, answer: Answer) -> None:
        try:
            while chunk := await answer.read():
                noise = self._parser.noise
                for event in self._parser.feed(chunk):
                    await self._take(event)
                if self._parser.noise > noise:
                    await self._overhear(self._parser.noise - noise)
        except OversizedEventError:
            raise violation(answer.endpoint, "sent an event that is too large") from None
        finally:
            answer.close()
            self._parser.end()

    async def _take(self, event: Event) -> None:
        if event.type == "message":
            with contextlib.suppress(ValueError):  # one bad event is dropped alone
                await self._receive(event.data)  # raises a refusal
                self._on_received()
                return
        self._on_received()
        await self._overhear(1)

    def _on_received(self) -> None:
        self._received = True
        self.settled.set()

    def _pause(self, failures: int) -> float:
        if not failures and self._parser.retry is not None:
            return max(self._parser.retry, SHORTEST_PAUSE)
        ceiling = min(FIRST_PAUSE * 2 ** min(failures, 10), LONGEST_PAUSE)
        return max(random.uniform(0, ceiling), SHORTEST_PAUSE)


def _is_final(problem: UpstreamError) -> bool:
    if isinstance(problem, NeedsSignIn):  # a sign-in creates a new connection
        return True
    return refused_for_good(problem) or (isinstance(problem, Refused) and problem.rpc_code == METHOD_NOT_FOUND)
