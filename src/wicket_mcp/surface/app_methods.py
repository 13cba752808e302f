"""What the interface of a server (MCP Apps) may request through its host: only its own server.

Every page is served inside one of ours (`app_pages.py`), which marks its requests with a seal for its server and
principal; a marked request is answered here, under that server's own names. A request without a mark comes from the
model or from the host itself. Our own tools are listed as not available to interfaces, and hosts respect that
(`Protocol.list_tools`).
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from wicket_mcp.dialects import apps
from wicket_mcp.dialects.base import ToolCall
from wicket_mcp.errors import INVALID_PARAMS, METHOD_NOT_FOUND, UnknownName
from wicket_mcp.extensions import APP_MARK
from wicket_mcp.model import Caller, JsonObject, as_text
from wicket_mcp.surface.answers import build_page
from wicket_mcp.surface.app_pages import SEALED
from wicket_mcp.surface.problems import RpcProblem
from wicket_mcp.trust.policy import demand

if TYPE_CHECKING:
    from wicket_mcp.surface.protocol import Protocol, Request


async def call_tool(protocol: "Protocol", request: "Request", caller: Caller, resume: JsonObject) -> JsonObject:
    server, name = _owner(protocol, request, caller), request.text("name")
    arguments = request.params.get("arguments")
    call = ToolCall({} if arguments is None else arguments, caller, request.meta, resume, unknown=request.unknown)
    result = await apps.call_own(protocol.verbs, server, name, call)
    if result is None:
        text = f"The interface of server '{server}' may call tools of that server only, and it has no '{name[:100]}'."
        raise RpcProblem(INVALID_PARAMS, text)
    return result


async def read_resource(protocol: "Protocol", request: "Request", caller: Caller, resume: JsonObject) -> JsonObject:
    server, uri = _owner(protocol, request, caller), request.text("uri")
    addresses = protocol.verbs.addresses
    listing = (await protocol.verbs.view(caller.principal, [server])).listings.get(server)
    try:
        owner, _ = addresses.locate(uri, caller.principal)
    except UnknownName:
        owner = ""
    is_own_word = owner != server or any(entry.get("uri") == uri for entry in (listing.resources if listing else ()))
    address = addresses.address(server, uri) if is_own_word else uri
    return await protocol.verbs.read_resource(address, caller, request.meta, resume, request.unknown)


async def list_resources(protocol: "Protocol", request: "Request", caller: Caller, resume: JsonObject) -> JsonObject:
    return await _list(protocol, request, caller, "resources", "uri")


async def list_templates(protocol: "Protocol", request: "Request", caller: Caller, resume: JsonObject) -> JsonObject:
    return await _list(protocol, request, caller, "resourceTemplates", "uriTemplate")


async def list_prompts(protocol: "Protocol", request: "Request", caller: Caller, resume: JsonObject) -> JsonObject:
    return await _list(protocol, request, caller, "prompts", "name")


async def refuse(protocol: "Protocol", request: "Request", caller: Caller, resume: JsonObject) -> JsonObject:
    raise RpcProblem(METHOD_NOT_FOUND, f"An interface may not ask {request.method}.")


METHODS: Mapping[str, Callable[["Protocol", "Request", Caller, JsonObject], Awaitable[JsonObject]]] = {
    "tools/call": call_tool,
    "resources/read": read_resource,
    "resources/list": list_resources,
    "resources/templates/list": list_templates,
    "prompts/list": list_prompts,
}


async def _list(protocol: "Protocol", request: "Request", caller: Caller, kind: str, key: str) -> JsonObject:
    """The entries of a list that belong to the interface's own server."""
    demand(caller.principal, "discover", f"listing {kind}")
    server, addresses = _owner(protocol, request, caller), protocol.verbs.addresses
    listing = (await protocol.verbs.view(caller.principal, [server])).listings.get(server)
    entries = () if listing is None else listing.templates if kind == "resourceTemplates" else getattr(listing, kind)
    rename = addresses.prompt_name if kind == "prompts" else addresses.address
    return build_page(
        request, kind, [{**entry, key: rename(server, as_text(entry.get(key)))} for entry in entries], key
    )


def _owner(protocol: "Protocol", request: "Request", caller: Caller) -> str:
    """The server whose interface sent the request. Raises RpcProblem for a mark that is not ours."""
    try:
        server, sealed = protocol.verbs.task_ids.open(as_text(request.meta.get(APP_MARK)), caller.principal)
    except UnknownName:
        server, sealed = "", ""
    if sealed != SEALED or not server:
        raise RpcProblem(INVALID_PARAMS, "The mark of this interface is unknown: read its page again.")
    return server
