"""What a name means: a tool, a prompt or a resource becomes its server and its own name there. Done once.

Works over the principal's view of the catalogue, so that what may not be seen cannot be named.
"""

from msgspec.structs import replace

from wicket_mcp.catalog.addresses import Addresses
from wicket_mcp.catalog.catalogue import Catalogue
from wicket_mcp.model import as_object, as_text
from wicket_mcp.request import Handler, Layer, Request, Result


def resolve_tool(catalogue: Catalogue) -> Layer:
    def layer(inner: Handler) -> Handler:
        async def handle(request: Request) -> Result:
            tool = request.tool
            if tool is None:
                tool = await catalogue.resolve(request.name, request.caller.principal)
            span = request.span
            span.server, span.name = tool.server, tool.name
            return await inner(replace(request, server=tool.server, tool=tool))

        return handle

    return layer


def resolve_resource(addresses: Addresses) -> Layer:
    def layer(inner: Handler) -> Handler:
        async def handle(request: Request) -> Result:
            server, uri = addresses.locate(request.name, request.caller.principal)
            return await inner(_found(request, server, uri, {**request.params, "uri": uri}))

        return handle

    return layer


def resolve_prompt(addresses: Addresses) -> Layer:
    def layer(inner: Handler) -> Handler:
        async def handle(request: Request) -> Result:
            server, name = await addresses.find_prompt(request.name, request.caller.principal)
            return await inner(_found(request, server, name, {**request.params, "name": name}))

        return handle

    return layer


def resolve_reference(catalogue: Catalogue, addresses: Addresses) -> Layer:
    """Completion refers to a prompt or to a resource template. A server that completes nothing is not asked."""

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
            return await inner(_found(request, server, original, {**request.params, "ref": reference}))

        return handle

    return layer


def _found(request: Request, server: str, name: str, params: dict[str, object]) -> Request:
    request.span.server, request.span.name = server, name
    return replace(request, server=server, params=params)
