"""Other servers that the caller may use replace one that could not be reached at all. A call that was sent is never
sent again.
"""

from collections.abc import Callable

from msgspec.structs import replace

from wicket_mcp.catalog.catalogue import Catalogue
from wicket_mcp.config.model.config import ServerConfig
from wicket_mcp.errors import CallerError, Overloaded, Unavailable
from wicket_mcp.model import Principal, Tool, as_object
from wicket_mcp.request import Handler, Layer, Request, Result

META_FALLBACK = "wicket/fallback"


def fallback(catalogue: Catalogue, config: ServerConfig, direct: Callable[[str], Handler]) -> Layer:
    """Try the same tool of the servers in `fallback`, in order; `direct` returns the handler of one of them."""

    def layer(inner: Handler) -> Handler:
        async def handle(request: Request) -> Result:
            try:
                return await inner(request)
            except (Unavailable, Overloaded) as problem:
                if request.resume or request.tool is None:  # an earlier round of this call was already sent
                    raise
                for tool in await _alternatives(catalogue, config, request.tool, request.principal):
                    other = replace(request, server=tool.server, tool=tool)
                    request.span.server, request.span.name = tool.server, tool.own_name or tool.name
                    try:
                        result = await direct(tool.server)(other)
                    except (Unavailable, Overloaded, CallerError):
                        continue
                    return _mark(result, request.tool)
                request.span.server, request.span.name = request.server, request.tool.own_name or request.tool.name
                raise problem

        return handle

    return layer


async def _alternatives(catalogue: Catalogue, config: ServerConfig, tool: Tool, principal: Principal) -> list[Tool]:
    """The same tool of other servers, as far as the caller may use them."""
    view = (await catalogue.complete(config.fallback, principal)).view(principal)
    others = [view.find_own(server, tool.own_name or tool.name) for server in config.fallback]
    return [other for other in others if other is not None]


def _mark(result: Result, requested: Tool) -> Result:
    answered = result.tool.key
    meta = {**as_object(result.body.get("_meta")), META_FALLBACK: {"asked": requested.key, "answered": answered}}
    return Result({**result.body, "_meta": meta}, result.request)
