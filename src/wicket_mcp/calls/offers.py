"""Resources, resource templates, prompts and completion of all upstreams, under names that say whose they are.

A resource of server `s` is `mcp://s/<its own address>`, a prompt is `s/<its own name>`. With `unprefixed`, for a
gateway with a single server, both pass as they are. Lists come from the catalogue; reading goes to the upstream.
"""

from collections.abc import Callable, Mapping
from typing import Any

from wicket_mcp.calls.forward import pass_on
from wicket_mcp.catalog.catalogue import Catalogue, Snapshot
from wicket_mcp.errors import UnknownName
from wicket_mcp.model import Caller, JsonObject, as_list, as_object, as_text
from wicket_mcp.spelling import nearest
from wicket_mcp.trust.policy import demand, discreet
from wicket_mcp.upstream.pool import Pool
from wicket_mcp.upstream.supervisor import UpstreamEvent

SCHEME = "mcp://"


class Offers:
    """See the module's docstring."""

    def __init__(self, catalogue: Catalogue, pool: Pool, *, unprefixed: bool = False) -> None:
        self._catalogue = catalogue
        self._pool = pool
        self.unprefixed = unprefixed
        self._watchers: dict[tuple[str, str, str], set[Callable[[str], None]]] = {}
        """By server, client session (where the server has one connection for each) and address."""

    # Names

    def address(self, server: str, uri: str) -> str:
        """A resource's address as clients see it."""
        return uri if self.unprefixed else f"{SCHEME}{server}/{uri}"

    def prompt_name(self, server: str, name: str) -> str:
        return name if self.unprefixed else f"{server}/{name}"

    def locate(self, uri: str) -> tuple[str, str]:
        """Server and original address of a resource. Raises UnknownName."""
        if self.unprefixed:
            return self._only(), uri
        server, slash, original = uri.removeprefix(SCHEME).partition("/")
        if uri.startswith(SCHEME) and slash and server in self._catalogue.servers:
            return server, original
        known = [self.address(name, as_text(one.get("uri"))) for name, one in self._each("resources")]
        bare = [address for address in known if address.endswith(f"/{uri}")]
        if len(bare) == 1:  # a link inside a result, as the upstream wrote it
            return self.locate(bare[0])
        raise UnknownName("resource", uri, bare or nearest(uri, known))

    # Lists

    async def resources(self) -> list[JsonObject]:
        await self._catalogue.complete()
        return [{**one, "uri": self.address(name, as_text(one.get("uri")))} for name, one in self._each("resources")]

    async def templates(self) -> list[JsonObject]:
        await self._catalogue.complete()
        return [
            {**one, "uriTemplate": self.address(name, as_text(one.get("uriTemplate")))}
            for name, one in self._each("templates")
        ]

    async def prompts(self) -> list[JsonObject]:
        await self._catalogue.complete()
        return [
            {**one, "name": self.prompt_name(name, as_text(one.get("name")))} for name, one in self._each("prompts")
        ]

    # Requests

    async def read(
        self, uri: str, caller: Caller, meta: Mapping[str, Any], resume: Mapping[str, Any] | None = None
    ) -> JsonObject:
        demand(caller.principal, "invoke", "reading a server's resources")
        with discreet(caller.principal, "resources"):
            server, original = self.locate(uri)
        params: JsonObject = {"uri": original}
        body = await pass_on(self._pool, server, "resources/read", params, caller, meta, resume=resume)
        return self.readdressed(body, server)

    async def prompt(
        self,
        name: str,
        arguments: JsonObject | None,
        caller: Caller,
        meta: Mapping[str, Any],
        resume: Mapping[str, Any] | None = None,
    ) -> JsonObject:
        demand(caller.principal, "invoke", "getting a server's prompts")
        with discreet(caller.principal, "prompts"):
            server, original = await self._find_prompt(name)
        params: JsonObject = {"name": original}
        if arguments is not None:
            params["arguments"] = arguments
        body = await pass_on(self._pool, server, "prompts/get", params, caller, meta, resume=resume)
        return self.readdressed(body, server)

    async def complete(self, params: JsonObject, caller: Caller, meta: Mapping[str, Any]) -> JsonObject:
        """Completion of a prompt's or template's argument, by whoever offers it."""
        demand(caller.principal, "discover", "completion")
        reference = as_object(params.get("ref"))
        if reference.get("type") == "ref/prompt":
            server, original = await self._find_prompt(as_text(reference.get("name")))
            reference = {**reference, "name": original}
        else:
            server, original = self.locate(as_text(reference.get("uri")))
            reference = {**reference, "uri": original}
        listing = (await self._catalogue.complete([server])).listings.get(server)
        if listing is not None and "completions" not in listing.capabilities:
            return {"completion": {"values": [], "total": 0, "hasMore": False}}
        sent = {key: value for key, value in params.items() if key != "_meta"} | {"ref": reference}
        return await pass_on(self._pool, server, "completion/complete", sent, caller, meta)

    # Changes of single resources

    async def watch(self, uri: str, caller: Caller, changed: Callable[[str], None]) -> Callable[[], None]:
        """Hear when a resource changes, until the returned function is called; `changed` gets its address."""
        demand(caller.principal, "invoke", "watching a server's resources")
        with discreet(caller.principal, "resources"):
            server, original = self.locate(uri)
        config = self._catalogue.servers.get(server)
        session = caller.session if config and config.isolation == "session" else ""
        key = (server, session, original)

        def unwatch() -> None:
            watchers = self._watchers.get(key, set())
            watchers.discard(changed)
            if not watchers and self._watchers.pop(key, None) is not None:
                self._pool.unwatch(server, original, session=session)

        first = key not in self._watchers
        self._watchers.setdefault(key, set()).add(changed)
        if first:
            try:
                await self._pool.watch(server, original, session=session)
            except BaseException:
                unwatch()
                raise
        return unwatch

    def heard(self, event: UpstreamEvent) -> None:
        """An upstream said unasked that a resource changed."""
        if event.method != "notifications/resources/updated":
            return
        uri = as_text(event.params.get("uri"))
        config = self._catalogue.servers.get(event.server)
        isolated = config is not None and config.isolation == "session"
        for (server, session, watched), watchers in list(self._watchers.items()):
            if server != event.server or (isolated and session != event.session):
                continue  # what one client's own process says is for that client alone
            # An upstream may name a part of what is watched.
            if uri == watched or uri.startswith(f"{watched.rstrip('/')}/"):
                for changed in list(watchers):
                    changed(self.address(server, uri))

    def readdressed(self, body: JsonObject, server: str) -> JsonObject:
        """`body` with the addresses of resources in it as clients see them."""
        return body if self.unprefixed else as_object(self._rewritten(body, server))

    def _rewritten(self, value: Any, server: str) -> Any:
        if isinstance(value, list):
            return [self._rewritten(item, server) for item in as_list(value)]
        if not isinstance(value, dict):
            return value
        fields = {key: self._rewritten(item, server) for key, item in as_object(value).items()}
        if isinstance(fields.get("uri"), str):
            fields["uri"] = self.address(server, fields["uri"])
        return fields

    def _only(self) -> str:
        return next(iter(self._catalogue.servers), "")

    async def _find_prompt(self, name: str) -> tuple[str, str]:
        snapshot = await self._catalogue.complete()
        known = {
            self.prompt_name(server, as_text(one.get("name"))): (server, as_text(one.get("name")))
            for server, one in self._each("prompts", snapshot)
        }
        if name not in known:
            raise UnknownName("prompt", name, nearest(name, known))
        return known[name]

    def _each(self, kind: str, snapshot: Snapshot | None = None) -> list[tuple[str, JsonObject]]:
        listings = (snapshot or self._catalogue.now).listings
        return [(name, one) for name, listing in listings.items() for one in getattr(listing, kind)]
