"""Resources and prompts of all servers, under addresses and names that show their server, and Wicket's own."""

from typing import TYPE_CHECKING

from wicket_mcp.budget import MAX_WATCHED
from wicket_mcp.dialects import own_completion, own_prompts, own_resources
from wicket_mcp.errors import INVALID_PARAMS, RESOURCE_NOT_FOUND_LEGACY, Refused, UnknownName
from wicket_mcp.extensions import GROUPS, UI, declares
from wicket_mcp.model import Caller, JsonObject, as_object
from wicket_mcp.surface.answers import build_page, not_found
from wicket_mcp.surface.asked_lists import List, ask_server
from wicket_mcp.surface.problems import RpcProblem
from wicket_mcp.trust.policy import demand

if TYPE_CHECKING:
    from wicket_mcp.surface.protocol import Protocol, Request


def _lists_servers(protocol: "Protocol", caller: Caller) -> bool:
    """Whether the client finds the resources and prompts of servers in the lists, and not in groups."""
    return protocol.unprefixed or not declares(caller.capabilities, GROUPS)


async def list_resources(protocol: "Protocol", request: "Request", caller: Caller, resume: JsonObject) -> JsonObject:
    demand(caller.principal, "discover", "listing resources")
    resources = [
        *protocol.own(own_resources.list_resources),
        *(await protocol.verbs.addresses.resources(caller.principal) if _lists_servers(protocol, caller) else ()),
    ]
    known = List(resources, protocol.verbs.addresses.fields("resources", caller.principal))
    entries, fields = await ask_server(protocol, request, caller, "resources", "uri", known)
    return build_page(request, "resources", entries, "uri", fields=fields)


async def list_templates(protocol: "Protocol", request: "Request", caller: Caller, resume: JsonObject) -> JsonObject:
    demand(caller.principal, "discover", "listing resources")
    templates = [
        *protocol.own(own_resources.list_templates),
        *await protocol.verbs.addresses.templates(caller.principal),
    ]
    known = List(templates, protocol.verbs.addresses.fields("templates", caller.principal))
    entries, fields = await ask_server(protocol, request, caller, "resourceTemplates", "uriTemplate", known)
    return build_page(request, "resourceTemplates", entries, "uriTemplate", fields=fields)


async def read_resource(protocol: "Protocol", request: "Request", caller: Caller, resume: JsonObject) -> JsonObject:
    uri = request.text("uri")
    try:
        own = None if protocol.unprefixed else await own_resources.read(protocol.verbs, caller, uri)
        body = own or await protocol.verbs.read_resource(uri, caller, request.meta, resume, request.unknown)
        if own is None and caller.capabilities and declares(caller.capabilities, UI):
            from wicket_mcp.surface import app_pages  # noqa: PLC0415  (few clients show interfaces)

            body = await app_pages.confine_read(protocol.verbs, caller, uri, body)
        return body
    except UnknownName as problem:
        code = INVALID_PARAMS if request.modern else RESOURCE_NOT_FOUND_LEGACY
        raise RpcProblem(code, str(problem), {"uri": uri}) from None
    except Refused as refusal:
        raise not_found(refusal, uri, modern=request.modern) from None


async def subscribe(protocol: "Protocol", request: "Request", caller: Caller, resume: JsonObject) -> JsonObject:
    uri, client = request.text("uri"), request.client
    if client is not None and uri not in client.watching:
        if len(client.watching) >= MAX_WATCHED:
            raise RpcProblem(INVALID_PARAMS, f"A client may watch {MAX_WATCHED} resources at most.")
        client.watching[uri] = await protocol.verbs.watch(uri, caller, client.resource_updated)
    return {}


async def unsubscribe(protocol: "Protocol", request: "Request", caller: Caller, resume: JsonObject) -> JsonObject:
    uri = request.text("uri")
    if request.client is not None and uri in request.client.watching:
        request.client.watching.pop(uri)()
    return {}


async def list_prompts(protocol: "Protocol", request: "Request", caller: Caller, resume: JsonObject) -> JsonObject:
    demand(caller.principal, "discover", "listing prompts")
    prompts = [
        *protocol.own(own_prompts.list_prompts),
        *(await protocol.verbs.addresses.prompts(caller.principal) if _lists_servers(protocol, caller) else ()),
    ]
    known = List(prompts, protocol.verbs.addresses.fields("prompts", caller.principal))
    entries, fields = await ask_server(protocol, request, caller, "prompts", "name", known)
    return build_page(request, "prompts", entries, "name", fields=fields)


async def get_prompt(protocol: "Protocol", request: "Request", caller: Caller, resume: JsonObject) -> JsonObject:
    arguments = request.params.get("arguments")
    values, name = None if arguments is None else as_object(arguments), request.text("name")
    own = None if protocol.unprefixed else await own_prompts.get_prompt(protocol.verbs, caller, name, values or {})
    return own or await protocol.verbs.get_prompt(name, values, caller, request.meta, resume, request.unknown)


async def complete(protocol: "Protocol", request: "Request", caller: Caller, resume: JsonObject) -> JsonObject:
    own = None if protocol.unprefixed else await own_completion.complete(protocol.verbs, caller, request.params)
    return own or await protocol.verbs.complete(request.params, caller, request.meta)
