"""Resources, templates and prompts of all upstreams, under names that say whose they are; and what such a name means.

A resource of server `s` is `mcp://s/<its own address>`, a prompt is `s/<its own name>`. With `unprefixed`, for a
gateway with a single server, both pass as they are. Knows lists only: reading one goes through the pipeline.
"""

from typing import Any

from wicket_mcp.catalog.catalogue import Catalogue, Snapshot
from wicket_mcp.errors import UnknownName
from wicket_mcp.model import JsonObject, Principal, as_list, as_object, as_text
from wicket_mcp.spelling import nearest

SCHEME = "mcp://"


class Addresses:
    """The names of one configuration. Immutable; the catalogue behind it is not."""

    def __init__(self, catalogue: Catalogue, *, unprefixed: bool = False) -> None:
        self._catalogue = catalogue
        self.unprefixed = unprefixed

    def address(self, server: str, uri: str) -> str:
        """A resource's address as clients see it."""
        return uri if self.unprefixed else f"{SCHEME}{server}/{uri}"

    def prompt_name(self, server: str, name: str) -> str:
        """A prompt's name as clients see it."""
        return name if self.unprefixed else f"{server}/{name}"

    # Lists

    async def resources(self) -> list[JsonObject]:
        await self._catalogue.complete()
        return [
            {**entry, "uri": self.address(server, as_text(entry.get("uri")))}
            for server, entry in self._entries("resources")
        ]

    async def templates(self) -> list[JsonObject]:
        await self._catalogue.complete()
        return [
            {**entry, "uriTemplate": self.address(server, as_text(entry.get("uriTemplate")))}
            for server, entry in self._entries("templates")
        ]

    async def prompts(self) -> list[JsonObject]:
        await self._catalogue.complete()
        return [
            {**entry, "name": self.prompt_name(server, as_text(entry.get("name")))}
            for server, entry in self._entries("prompts")
        ]

    # What a name means

    def locate(self, uri: str, principal: Principal) -> tuple[str, str]:
        """Server and original address of a resource. Raises UnknownName."""
        if self.unprefixed:
            return next(iter(self._catalogue.servers), ""), uri
        server, slash, original = uri.removeprefix(SCHEME).partition("/")
        if uri.startswith(SCHEME) and slash and server in self._catalogue.servers:
            return server, original
        known = [self.address(name, as_text(entry.get("uri"))) for name, entry in self._entries("resources")]
        bare = [address for address in known if address.endswith(f"/{uri}")]
        if len(bare) == 1:  # a link inside a result, as the upstream wrote it
            return self.locate(bare[0], principal)
        raise _unknown("resource", uri, bare or nearest(uri, known), principal)

    async def find_prompt(self, name: str, principal: Principal) -> tuple[str, str]:
        """Server and original name of a prompt. Raises UnknownName."""
        snapshot = await self._catalogue.complete()
        known = {
            self.prompt_name(server, as_text(entry.get("name"))): (server, as_text(entry.get("name")))
            for server, entry in self._entries("prompts", snapshot)
        }
        if name not in known:
            raise _unknown("prompt", name, nearest(name, known), principal)
        return known[name]

    def rewrite(self, body: JsonObject, server: str) -> JsonObject:
        """`body` with the addresses of resources in it as clients see them."""
        return body if self.unprefixed else as_object(self._rewrite(body, server))

    def _rewrite(self, value: Any, server: str) -> Any:
        if isinstance(value, list):
            return [self._rewrite(item, server) for item in as_list(value)]
        if not isinstance(value, dict):
            return value
        fields = {key: self._rewrite(item, server) for key, item in as_object(value).items()}
        if isinstance(fields.get("uri"), str):
            fields["uri"] = self.address(server, fields["uri"])
        return fields

    def _entries(self, kind: str, snapshot: Snapshot | None = None) -> list[tuple[str, JsonObject]]:
        listings = (snapshot or self._catalogue.now).listings
        return [(server, entry) for server, listing in listings.items() for entry in getattr(listing, kind)]


def _unknown(kind: str, name: str, near: list[str], principal: Principal) -> UnknownName:
    """Who may not look for names is not told any."""
    if principal.may("discover"):
        return UnknownName(kind, name, near)
    return UnknownName(kind, name, hint=f"Looking for {kind}s needs an API key with the scope 'discover'.")
