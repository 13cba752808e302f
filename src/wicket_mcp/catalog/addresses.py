"""Names of resources, templates and prompts of all upstreams, which include the server, and how they are resolved.

A resource of server `s` is `mcp://s/<its own address>`, an interface `ui://x` is `ui://s/x`, a prompt is `s/<its own
name>`. With `unprefixed`, for a gateway with a single server, names stay unchanged. Knows lists only: reading one goes
through the pipeline.
"""

from collections.abc import Collection
from typing import Any

from wicket_mcp.catalog.catalogue import Catalogue
from wicket_mcp.catalog.change_notices import Notice
from wicket_mcp.catalog.list_fields import combine
from wicket_mcp.catalog.shares import narrow, shares_of
from wicket_mcp.catalog.snapshot import Snapshot
from wicket_mcp.errors import UnknownName
from wicket_mcp.extensions import APP_SCHEME, OLD_RESOURCE_KEY, SKILL_SCHEME
from wicket_mcp.model import JsonObject, Listing, Principal, as_list, as_object, as_text
from wicket_mcp.spelling import nearest
from wicket_mcp.trust.policy import scope_hint

SCHEME = "mcp://"
OWN_SCHEMES = (APP_SCHEME, SKILL_SCHEME)
"""Schemes that are kept, with the server as the first part of the address."""
_PARTS = ("contents", "messages", "content", "resource", "resources")
"""Fields of the protocol whose values have addresses of resources."""


class Addresses:
    """The names of one configuration. Immutable; the catalogue behind it is not."""

    def __init__(self, catalogue: Catalogue, *, unprefixed: bool = False) -> None:
        self._catalogue = catalogue
        self.unprefixed = unprefixed

    def address(self, server: str, uri: str) -> str:
        """A resource's address as clients see it."""
        if self.unprefixed:
            return uri
        for scheme in OWN_SCHEMES:  # hosts accept interfaces and skills only under these schemes
            if uri.startswith(scheme):
                return f"{scheme}{server}/{uri.removeprefix(scheme)}"
        return f"{SCHEME}{server}/{uri}"

    def prompt_name(self, server: str, name: str) -> str:
        """A prompt's name as clients see it."""
        return name if self.unprefixed else f"{server}/{name}"

    # Lists

    async def resources(self, principal: Principal) -> list[JsonObject]:
        await self._catalogue.complete(None, principal)
        return [
            {**entry, "uri": self.address(server, as_text(entry.get("uri")))}
            for server, entry in self._entries("resources", principal)
        ]

    async def templates(self, principal: Principal) -> list[JsonObject]:
        await self._catalogue.complete(None, principal)
        return [
            {**entry, "uriTemplate": self.address(server, as_text(entry.get("uriTemplate")))}
            for server, entry in self._entries("templates", principal)
        ]

    async def prompts(self, principal: Principal) -> list[JsonObject]:
        await self._catalogue.complete(None, principal)
        return [
            {**entry, "name": self.prompt_name(server, as_text(entry.get("name")))}
            for server, entry in self._entries("prompts", principal)
        ]

    def fields(self, kind: str, principal: Principal) -> JsonObject:
        """The unknown fields beside the entries of a list."""
        visible = self._visible(principal)
        return combine({server: pages for server, listing in visible.items() if (pages := listing.fields.get(kind))})

    def may_hear(self, principal: Principal, notice: Notice) -> bool:
        """Whether `principal` may be told what a server said about its lists."""
        return notice.owner in ("", principal.id) and self.shows_server(principal, notice.server)

    def shows_server(self, principal: Principal, server: str) -> bool:
        """Whether `principal` may look at a server."""
        return principal.may("discover") and self._serves(server, principal)

    # Resolving names

    def locate(self, uri: str, principal: Principal) -> tuple[str, str]:
        """Server and original address of a resource. Raises UnknownName."""
        if self.unprefixed:
            return next(iter(self._catalogue.servers), ""), uri
        server, slash, original = uri.removeprefix(SCHEME).partition("/")
        if uri.startswith(SCHEME) and slash and self._serves(server, principal):
            return server, original
        scheme = next((scheme for scheme in OWN_SCHEMES if uri.startswith(scheme)), "")
        if scheme:
            return self._locate_own(scheme, uri, principal)
        known = [self.address(name, as_text(entry.get("uri"))) for name, entry in self._entries("resources", principal)]
        bare = [address for address in known if address.endswith(f"/{uri}")]
        if len(bare) == 1:  # a link inside a result, as the upstream wrote it
            return self.locate(bare[0], principal)
        raise self._unknown("resource", uri, bare or nearest(uri, known), principal)

    def _locate_own(self, scheme: str, uri: str, principal: Principal) -> tuple[str, str]:
        """Server and original address of an interface or a skill; its server's own name is accepted too."""
        server, _, path = uri.removeprefix(scheme).partition("/")
        if self._serves(server, principal):
            return server, f"{scheme}{path}"
        listed = self._entries("resources", principal)
        owners = [name for name, entry in listed if entry.get("uri") == uri]
        if len(owners) == 1:
            return owners[0], uri
        known = [self.address(name, as_text(entry.get("uri"))) for name, entry in listed]
        raise self._unknown("resource", uri, nearest(uri, known), principal)

    async def find_prompt(self, name: str, principal: Principal) -> tuple[str, str]:
        """Server and original name of a prompt. Raises UnknownName."""
        snapshot = await self._catalogue.complete(None, principal)
        known = {
            self.prompt_name(server, as_text(entry.get("name"))): (server, as_text(entry.get("name")))
            for server, entry in self._entries("prompts", principal, snapshot)
        }
        if name not in known:
            raise self._unknown("prompt", name, nearest(name, known), principal)
        return known[name]

    def rewrite(self, body: JsonObject, server: str) -> JsonObject:
        """`body` with resource addresses as clients see them."""
        return body if self.unprefixed else as_object(self._rewrite(body, server))

    def rewrite_parts(self, body: JsonObject, server: str) -> JsonObject:
        """A resource, prompt or directory with addresses as clients see them; fields that we do not know stay as they
        are.
        """
        return body if self.unprefixed else as_object(self._rewrite(body, server, _PARTS))

    def rewrite_apps(self, body: JsonObject, server: str) -> JsonObject:
        """A tool's definition or result with interface addresses as clients see them, and nothing else changed."""
        if self.unprefixed:
            return body
        meta = as_object(body.get("_meta"))
        if "ui" in meta or OLD_RESOURCE_KEY in meta:
            body = {**body, "_meta": self._rewrite_app_meta(meta, server)}
        content: Any = body.get("content")
        if isinstance(content, list) and any(_has_app_address(as_object(item)) for item in as_list(content)):
            body = {**body, "content": [self._rewrite_app_item(item, server) for item in as_list(content)]}
        return body

    def _rewrite_app_item(self, item: Any, server: str) -> Any:
        fields = as_object(item)
        if not _has_app_address(fields):
            return item
        if isinstance(fields.get("resource"), dict):
            resource = as_object(fields["resource"])
            return {**fields, "resource": {**resource, "uri": self.address(server, as_text(resource.get("uri")))}}
        return {**fields, "uri": self.address(server, as_text(fields.get("uri")))}

    def _rewrite_app_meta(self, meta: JsonObject, server: str) -> JsonObject:
        ui = as_object(meta.get("ui"))
        if as_text(ui.get("resourceUri")):
            meta = {**meta, "ui": {**ui, "resourceUri": self.address(server, as_text(ui["resourceUri"]))}}
        if as_text(meta.get(OLD_RESOURCE_KEY)):
            meta = {**meta, OLD_RESOURCE_KEY: self.address(server, as_text(meta[OLD_RESOURCE_KEY]))}
        return meta

    def _rewrite(self, value: Any, server: str, within: Collection[str] | None = None) -> Any:
        """`value` with every address in it, or with those in the fields of the names `within`."""
        if isinstance(value, list):
            return [self._rewrite(item, server, within) for item in as_list(value)]
        if not isinstance(value, dict):
            return value
        fields = {
            key: self._rewrite(item, server, within) if within is None or key in within else item
            for key, item in as_object(value).items()
        }
        if isinstance(fields.get("uri"), str):
            fields["uri"] = self.address(server, fields["uri"])
        return fields

    def _unknown(self, kind: str, name: str, near: list[str], principal: Principal) -> UnknownName:
        """A principal that may not look up names gets no suggestions."""
        hint = "" if principal.may("discover") else scope_hint("discover", f"{kind}s")
        problem = UnknownName(kind, name, () if hint else near, hint=hint)
        server = name.partition("://")[2].partition("/")[0] if "://" in name else name.partition("/")[0]
        if server in self._catalogue.servers:
            problem.rule = self._catalogue.now.policy.profile_against(principal, server)
        return problem

    def _serves(self, server: str, principal: Principal) -> bool:
        return server in self._catalogue.servers and self._catalogue.now.policy.shows(principal, server)

    def _entries(
        self, kind: str, principal: Principal, snapshot: Snapshot | None = None
    ) -> list[tuple[str, JsonObject]]:
        visible = self._visible(principal, snapshot)
        return [(server, entry) for server, listing in visible.items() for entry in getattr(listing, kind)]

    def _visible(self, principal: Principal, snapshot: Snapshot | None = None) -> dict[str, Listing]:
        """The listings that `principal` sees, each as its account has it."""
        now = snapshot or self._catalogue.now
        own = narrow(now.listings, shares_of(now.listings, principal.id))
        return {name: listing for name, listing in own.items() if now.policy.shows(principal, name)}


def _has_app_address(item: JsonObject) -> bool:
    return as_text(as_object(item.get("resource")).get("uri") or item.get("uri")).startswith(APP_SCHEME)
