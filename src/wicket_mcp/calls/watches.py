"""Subscriptions of clients to single resources, and the notifications of upstreams about them.

A subscribe request goes through the pipeline like every request. Several clients share one subscription at a shared
server; a server that runs for one client notifies only that client.
"""

from collections.abc import Callable

from wicket_mcp.catalog.addresses import Addresses
from wicket_mcp.catalog.catalogue import Catalogue
from wicket_mcp.model import META_SUBSCRIPTION, Caller, JsonObject, as_object, as_text
from wicket_mcp.request import Handler, Request, Result, Span
from wicket_mcp.upstream.pool import Pool
from wicket_mcp.upstream.supervisor import UpstreamEvent

Changed = Callable[[str, JsonObject], None]
"""Called with the address of the changed resource, as its client knows it, and the rest of the notification."""


class Watches:
    """All watches of one gateway, across all configurations."""

    def __init__(self, catalogue: Catalogue, pool: Pool) -> None:
        self._catalogue = catalogue
        self._pool = pool
        self._watchers: dict[tuple[str, str, str], dict[Changed, Addresses]] = {}
        """By server, client session (if the server has a connection per session) and the resource's own address."""

    async def watch(
        self, uri: str, caller: Caller, changed: Changed, send: Handler, addresses: Addresses
    ) -> Callable[[], None]:
        """Call `changed` when a resource changes, until the returned function is called. Raises WicketError."""
        request = Request(method="resources/subscribe", caller=caller, params={}, name=uri, span=Span())
        resolved = (await send(request)).request
        key = self._key(resolved)
        self._watchers.setdefault(key, {})[changed] = addresses

        def unwatch() -> None:
            watchers = self._watchers.get(key)
            if watchers is None or watchers.pop(changed, None) is None or watchers:
                return
            del self._watchers[key]
            server, session, original = key
            self._pool.unwatch(server, original, principal=caller.principal, session=session)

        return unwatch

    async def subscribe(self, request: Request) -> Result:
        """The innermost handler of `resources/subscribe`: only the first watcher reaches the pool."""
        server, session, uri = key = self._key(request)
        if key not in self._watchers:
            await self._pool.watch(server, uri, principal=request.caller.principal, session=session)
        return Result({}, request)

    def hear(self, event: UpstreamEvent) -> None:
        """Handle an upstream's notification that a resource changed."""
        if event.method != "notifications/resources/updated":
            return
        uri, meta = as_text(event.params.get("uri")), as_object(event.params.get("_meta"))
        passed = {key: value for key, value in meta.items() if key != META_SUBSCRIPTION}  # which was ours
        fields = {key: value for key, value in event.params.items() if key not in ("uri", "_meta")}
        notice = {**fields, "_meta": passed} if passed else fields
        isolated = self._is_isolated(event.server)
        for (server, session, watched), watchers in list(self._watchers.items()):
            if server != event.server or (isolated and session != event.session):
                continue  # notifications from one client's own process are only for that client
            # An upstream may name a part of what is watched.
            if uri == watched or uri.startswith(f"{watched.rstrip('/')}/"):
                for changed, addresses in list(watchers.items()):
                    changed(addresses.address(server, uri), notice)

    def _key(self, request: Request) -> tuple[str, str, str]:
        session = request.caller.session if self._is_isolated(request.server) else ""
        return request.server, session, as_text(request.params.get("uri"))

    def _is_isolated(self, server: str) -> bool:
        config = self._catalogue.servers.get(server)
        return config is not None and config.isolation == "session"
