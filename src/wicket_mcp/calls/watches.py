"""Subscriptions of clients to single resources, and the notifications of upstreams about them.

A subscribe request goes through the pipeline like every request. Several clients share one subscription at a shared
server; a server that runs for one client or user notifies only that client or user.
"""

from collections.abc import Callable

from wicket_mcp.catalog.addresses import Addresses
from wicket_mcp.model import META_SUBSCRIPTION, Caller, JsonObject, Principal, as_object, as_text
from wicket_mcp.request import Handler, Request, Result, Span
from wicket_mcp.upstream.events import UpstreamEvent
from wicket_mcp.upstream.key import Key
from wicket_mcp.upstream.pool import Pool, key_of

Changed = Callable[[str, JsonObject], None]
"""Called with the address of the changed resource, as its client knows it, and the rest of the notification."""


class Watches:
    """All watches of one gateway, across all configurations."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._watchers: dict[tuple[Key, str], dict[Changed, Addresses]] = {}
        """By the connection, as the pool shares it among clients, and the resource's own address."""
        self._subscribers: dict[tuple[Key, str], set[Principal]] = {}
        """Who subscribed at the pool: one principal, or several that came at the same moment."""

    async def watch(
        self, uri: str, caller: Caller, changed: Changed, send: Handler, addresses: Addresses
    ) -> Callable[[], None]:
        """Call `changed` when a resource changes, until the returned function is called. Raises WicketError."""
        request = Request(method="resources/subscribe", caller=caller, params={}, name=uri, span=Span())
        resolved = (await send(request)).request
        watched = self._target_of(resolved)
        self._watchers.setdefault(watched, {})[changed] = addresses

        def unwatch() -> None:
            watchers = self._watchers.get(watched)
            if watchers is None or watchers.pop(changed, None) is None or watchers:
                return
            del self._watchers[watched]
            key, original = watched
            for subscriber in self._subscribers.pop(watched, ()):
                self._pool.unwatch(key.server, original, principal=subscriber, session=key.session)

        return unwatch

    async def subscribe(self, request: Request) -> Result:
        """The innermost handler of `resources/subscribe`: only the first watcher reaches the pool."""
        key, uri = watched = self._target_of(request)
        if watched not in self._watchers:
            principal = request.caller.principal
            await self._pool.watch(key.server, uri, principal=principal, session=key.session)
            self._subscribers.setdefault(watched, set()).add(principal)
        return Result({}, request)

    def hear(self, event: UpstreamEvent) -> None:
        """Handle an upstream's notification that a resource changed."""
        if event.method != "notifications/resources/updated":
            return
        uri, meta = as_text(event.params.get("uri")), as_object(event.params.get("_meta"))
        passed = {key: value for key, value in meta.items() if key != META_SUBSCRIPTION}  # which was ours
        fields = {key: value for key, value in event.params.items() if key not in ("uri", "_meta")}
        notice = {**fields, "_meta": passed} if passed else fields
        source = self._key(event.server, event.principal, event.session)
        for (key, watched), watchers in list(self._watchers.items()):
            # Notifications from the connection of one client or user are only for that client or user.
            if key.server != source.server or source.session not in ("", key.session):
                continue
            if source.owner not in ("", key.owner):
                continue
            # An upstream may name a part of what is watched.
            if uri == watched or uri.startswith(f"{watched.rstrip('/')}/"):
                for changed, addresses in list(watchers.items()):
                    changed(addresses.address(key.server, uri), notice)

    def _target_of(self, request: Request) -> tuple[Key, str]:
        caller = request.caller
        return self._key(request.server, caller.principal, caller.session), as_text(request.params.get("uri"))

    def _key(self, server: str, principal: Principal, session: str) -> Key:
        config = self._pool.config(server)
        return Key(server, "") if config is None else key_of(config, principal, session)
