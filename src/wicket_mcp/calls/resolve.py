"""Resolves a name once: a tool, a prompt or a resource becomes its server and its own name there.

Works on the principal's view of the catalogue, so that hidden entries cannot be named.
"""

from contextlib import suppress

from msgspec.structs import replace

from wicket_mcp.catalog.addresses import Addresses
from wicket_mcp.catalog.catalogue import Catalogue
from wicket_mcp.errors import AmbiguousName, UnknownName
from wicket_mcp.extensions import unknown
from wicket_mcp.model import JsonObject, as_object, as_text
from wicket_mcp.request import Handler, Layer, Request, Result


def resolve_tool(catalogue: Catalogue) -> Layer:
    def layer(inner: Handler) -> Handler:
        async def handle(request: Request) -> Result:
            tool = request.tool
            if tool is None:  # nearly always the same principal has resolved this name before
                view = catalogue.now.seen_by.get(request.caller.principal)
                tool = view.exact.get(request.name) if view is not None else None
            if tool is None:
                tool = await catalogue.lookup.resolve(request.name, request.caller.principal)
            span = request.span
            span.server, span.name = tool.server, tool.own_name or tool.name
            return await inner(replace(request, server=tool.server, tool=tool))

        return handle

    return layer


def resolve_resource(addresses: Addresses) -> Layer:
    def layer(inner: Handler) -> Handler:
        async def handle(request: Request) -> Result:
            server, uri = addresses.locate(request.name, request.caller.principal)
            return await inner(_set_target(request, server, uri, {**request.params, "uri": uri}))

        return handle

    return layer


def resolve_prompt(addresses: Addresses) -> Layer:
    def layer(inner: Handler) -> Handler:
        async def handle(request: Request) -> Result:
            server, name = await addresses.find_prompt(request.name, request.caller.principal)
            return await inner(_set_target(request, server, name, {**request.params, "name": name}))

        return handle

    return layer


def resolve_reference(catalogue: Catalogue, addresses: Addresses) -> Layer:
    """Completion refers to a prompt or to a resource template. A server without completion is not asked."""

    def layer(inner: Handler) -> Handler:
        async def handle(request: Request) -> Result:
            reference = as_object(request.params.get("ref"))
            principal = request.caller.principal
            if reference.get("type") == "ref/prompt":
                server, original = await addresses.find_prompt(as_text(reference.get("name")), principal)
                reference = {**reference, "name": original}
            else:
                server, original = addresses.locate(as_text(reference.get("uri")), principal)
                reference = {**reference, "uri": original}
            listing = (await catalogue.complete([server])).listings.get(server)
            if listing is not None and "completions" not in listing.capabilities:
                return Result({"completion": {"values": [], "total": 0, "hasMore": False}}, request)
            return await inner(_set_target(request, server, original, {**request.params, "ref": reference}))

        return handle

    return layer


def resolve_extension(catalogue: Catalogue, addresses: Addresses) -> Layer:
    """A method that Wicket does not know goes to the server whose resource, tool or prompt it names. If it names none,
    it goes to the only server that declares an extension which Wicket does not know.
    """

    def layer(inner: Handler) -> Handler:
        async def handle(request: Request) -> Result:
            params = request.params
            if addresses.unprefixed:
                return await inner(_set_target(request, next(iter(catalogue.servers), ""), request.name, params))
            extended = [
                server
                for server, listing in (await catalogue.load()).listings.items()
                if unknown(listing.capabilities) and catalogue.now.policy.shows(request.principal, server)
            ]
            if not extended:
                raise UnknownName("method", request.method)
            server, params = await _name_server(catalogue, addresses, request)
            if not server and len(extended) == 1:
                server = extended[0]
            if server not in extended:
                raise UnknownName("method", request.method)
            return await inner(_set_target(request, server, request.name, params))

        return handle

    return layer


async def _name_server(catalogue: Catalogue, addresses: Addresses, request: Request) -> tuple[str, JsonObject]:
    """The server that a request refers to, and the parameters with that server's own names."""
    principal, params = request.caller.principal, request.params
    if isinstance(params.get("uri"), str):
        with suppress(UnknownName):
            server, uri = addresses.locate(params["uri"], principal)
            return server, {**params, "uri": uri}
    elif isinstance(params.get("name"), str):
        with suppress(UnknownName, AmbiguousName):
            tool = await catalogue.lookup.resolve(params["name"], principal)
            return tool.server, {**params, "name": tool.own_name or tool.name}
        with suppress(UnknownName):
            server, name = await addresses.find_prompt(params["name"], principal)
            return server, {**params, "name": name}
    return "", params


def _set_target(request: Request, server: str, name: str, params: dict[str, object]) -> Request:
    request.span.server, request.span.name = server, name
    return replace(request, server=server, params=params)
