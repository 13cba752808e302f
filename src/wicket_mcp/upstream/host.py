"""The upstream as its connection sees it. The supervisor creates one for each connection."""

import asyncio
from collections.abc import Callable

from wicket_mcp.errors import NotSent, Unasked, UpstreamError
from wicket_mcp.model import JsonObject
from wicket_mcp.upstream.connection import Callbacks
from wicket_mcp.upstream.era import Session
from wicket_mcp.upstream.lifecycle import BREAKER_FAILURES, Event, Failed, Life, Lost


class GenerationHost:
    """Passes events of one connection to its upstream; ignores them once there is a later connection."""

    def __init__(
        self,
        generation: int,
        life: Life[Session],
        callbacks: Callbacks,
        report: "Callable[[Event[Session]], None]",
        calls: Callable[[], int],
    ) -> None:
        """`calls` counts those in flight."""
        self._generation = generation
        self._life = life
        self._callbacks = callbacks
        self._report = report
        self._calls = calls

    @property
    def fails_often(self) -> bool:
        return self._life.failures >= BREAKER_FAILURES

    @property
    def is_called(self) -> bool:
        return self._calls() > 0

    def notification(self, method: str, params: JsonObject) -> None:
        if self._callbacks.notification and self._generation == self._life.generation:
            self._callbacks.notification(method, params)

    async def request(self, method: str, params: JsonObject) -> JsonObject:
        if self._callbacks.request is None or self._generation != self._life.generation:
            raise Unasked("This connection has been replaced by a later one.")
        return await self._callbacks.request(method, params)

    def on_closed(self, reason: UpstreamError) -> None:
        if isinstance(reason, NotSent):
            self._report(Lost(self._generation))
            return
        idle = self._life.session is not None and not self.is_called
        self._report(Failed(self._generation, reason, asyncio.get_running_loop().time(), idle))
