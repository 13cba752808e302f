"""Rate limits for principals and for servers. Never waits: a caller over the limit is told when to try again.

The composition decides where the buckets live: in this process, or shared by several.
"""

import time
from collections.abc import Awaitable, Callable

from wicket_mcp.config.model.config import ServerConfig
from wicket_mcp.errors import NOTHING_DONE, Denied, RateLimited
from wicket_mcp.model import LOCAL, Principal
from wicket_mcp.request import Handler, Layer, Request, Result
from wicket_mcp.store.base import SharedLimits

Admit = Callable[[Principal, str], Awaitable[None] | None]
"""Takes one request of a kind from a principal's allowance; None if there is no limit. Raises RateLimited."""


GiveBack = Callable[[Principal, str], Awaitable[None]]
"""Returns a request of a kind to a principal's allowance: nothing was sent."""
NOT_SENT = (Denied, *NOTHING_DONE)
"""The errors of a request that was not sent, or not yet: it counts against no limit."""


def limit_principal(admit: Admit, give_back: GiveBack, kind: str) -> Layer:
    """The limit of an API key; the owner has none."""

    def layer(inner: Handler) -> Handler:
        async def wait(taking: Awaitable[None], request: Request) -> Result:
            await taking
            try:
                return await inner(request)
            except NOT_SENT:
                await give_back(request.principal, kind)
                raise

        def handle(request: Request) -> Awaitable[Result]:
            principal = request.caller.principal
            metered = principal.id != LOCAL.name and not request.unmetered
            taking = admit(principal, kind) if metered else None
            return inner(request) if taking is None else wait(taking, request)

        return handle

    return layer


def limit_server(buckets: "ServerBuckets", config: ServerConfig) -> Layer:
    """A server's `calls_per_minute`."""

    def layer(inner: Handler) -> Handler:
        async def handle(request: Request) -> Result:
            if request.unmetered:
                return await inner(request)
            if buckets.shared is None:
                buckets.admit(config)
            else:
                await buckets.admit_shared(config, buckets.shared)
            return await inner(request)

        return handle

    return layer


class ServerBuckets:
    """One bucket for each server with a limit: it holds a minute's calls and refills steadily.

    `clock` is monotonic, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, shared: SharedLimits | None = None) -> None:
        self.shared = shared
        """Set if replicas count together."""
        self._share: Callable[[], int] = lambda: 1
        """How many gateways share every limit, if they do not count together."""
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}
        """Calls left, and at what time."""

    def divide_by(self, share: Callable[[], int]) -> None:
        """How many gateways share the limits: without a shared counter, each grants its part."""
        self._share = share

    def admit(self, server: ServerConfig) -> None:
        """Take one call. Raises RateLimited."""
        most = server.calls_per_minute
        if not most:
            return
        now, own = self._clock(), max(1.0, most / self._share())
        left, at = self._buckets.get(server.name, (own, now))
        left = min(own, left + (now - at) * own / 60)
        if left < 1:
            self._buckets[server.name] = (left, now)
            raise RateLimited(f"Server '{server.name}' takes {most} calls a minute.", retry_after=(1 - left) * 60 / own)
        self._buckets[server.name] = (left - 1, now)

    async def admit_shared(self, server: ServerConfig, limits: SharedLimits) -> None:
        """Take one call from the limit of all replicas. Raises RateLimited."""
        most = server.calls_per_minute
        if most and (wait := await limits.take_from(f"server:{server.name}", float(most), most / 60)):
            raise RateLimited(f"Server '{server.name}' takes {most} calls a minute.", retry_after=wait)

    def forget(self, servers: set[str]) -> None:
        """Drop the buckets of servers that are not among `servers`."""
        for name in self._buckets.keys() - servers:
            del self._buckets[name]
