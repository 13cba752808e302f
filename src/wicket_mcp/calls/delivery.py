"""The last steps of a call: an answer that is still good, else one request within the server's rate.

A checked call goes in, the upstream's answer comes out. Other servers stand in for one that could not be asked at all;
a call that was sent is never sent again.
"""

from collections.abc import Awaitable, Callable

from wicket_mcp.calls.cache import Cache, key_of, lifetime, marked
from wicket_mcp.calls.forward import pass_on
from wicket_mcp.calls.rates import Rates
from wicket_mcp.catalog.catalogue import Catalogue
from wicket_mcp.errors import CallerError, Overloaded, Unavailable
from wicket_mcp.model import CallRequest, CallResult, JsonObject, Tool, as_object
from wicket_mcp.schema.headers import parameter_headers
from wicket_mcp.upstream.pool import Pool

META_FALLBACK = "wicket/fallback"


class Delivery:
    """See the module's docstring."""

    def __init__(self, catalogue: Catalogue, pool: Pool) -> None:
        self._catalogue = catalogue
        self._pool = pool
        self._cache = Cache()
        self._rates = Rates()

    async def deliver(self, tool: Tool, arguments: JsonObject, request: CallRequest) -> JsonObject:
        config = self._catalogue.servers.get(tool.server)
        keep = lifetime(config, tool) if config and config.cache and not request.resume else 0.0
        key = key_of(config, tool, arguments, request.caller) if config and keep else ""
        if key and (kept := self._cache.find(key)) is not None:
            return kept if request.whole else marked(kept)
        if config:
            self._rates.admit(config)
        body = await pass_on(
            self._pool,
            tool.server,
            "tools/call",
            {"name": tool.name, "arguments": arguments},
            request.caller,
            request.meta,
            resume=request.resume,
            headers=parameter_headers(tool, arguments),
        )
        if key:
            self._cache.keep(key, body, keep)
        return body

    async def with_fallback(self, tool: Tool, call: Callable[[Tool], Awaitable[CallResult]]) -> CallResult:
        """`call` of the tool or, where nothing could be sent, of the same tool of the server's stand-ins in turn."""
        try:
            return await call(tool)
        except (Unavailable, Overloaded) as problem:
            for other in await self._stand_ins(tool):
                try:
                    result = await call(other)
                except (Unavailable, Overloaded, CallerError):
                    continue
                meta = {
                    **as_object(result.body.get("_meta")),
                    META_FALLBACK: {"asked": tool.key, "answered": other.key},
                }
                return CallResult(other, {**result.body, "_meta": meta})
            raise problem

    async def _stand_ins(self, tool: Tool) -> list[Tool]:
        config = self._catalogue.servers.get(tool.server)
        if config is None or not config.fallback:
            return []
        offered = (await self._catalogue.complete(config.fallback)).by_server
        return [other for name in config.fallback for other in offered.get(name, ()) if other.name == tool.name]
