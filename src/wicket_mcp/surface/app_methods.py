"""What the interface of a server (MCP Apps) may ask through its host: its own server, and nothing else.

Hosts pass on what an interface asks without saying whose it is, and to them all of Wicket is one server. So, where
several servers have interfaces, each page is given a script that marks its requests with a seal for its server and
principal; a marked request is answered here, in the words of that server. A request without a mark counts as the
model's. Our own tools are marked as not for interfaces, which hosts heed (`Protocol.list_tools`).
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from wicket_mcp.codec import encode
from wicket_mcp.dialects import apps
from wicket_mcp.dialects.base import ToolCall
from wicket_mcp.errors import INVALID_PARAMS, METHOD_NOT_FOUND, UnknownName
from wicket_mcp.extensions import APP_MARK, APP_TYPE
from wicket_mcp.model import Caller, JsonObject, as_list, as_object, as_text
from wicket_mcp.surface.answers import paged
from wicket_mcp.surface.problems import RpcProblem
from wicket_mcp.trust.policy import demand
from wicket_mcp.verbs import Verbs

if TYPE_CHECKING:
    from wicket_mcp.surface.protocol import Protocol, Request

_SEALED = "app"
"""Stands in a seal where the id of a task would: one is never taken for the other's."""
_HEAD = re.compile(r"<head\b[^>]*>|<html\b[^>]*>|<!doctype[^>]*>", re.IGNORECASE)
_SCRIPT = """<script>(()=>{
const mark=%s,names=%s,host=window.parent;if(host===window)return;
const own=/^(tools\\/call|resources\\/.*|prompts\\/.*)$/;
const add=m=>{if(!m||m.jsonrpc!=="2.0"||!own.test(m.method||""))return m;
const p={...m.params};p._meta={...p._meta,%s:mark};
if(m.method==="tools/call"&&Object.hasOwn(names,p.name))p.name=names[p.name];
return{...m,params:p}};
const send=(m,...rest)=>host.postMessage(add(m),...rest);
const stand=new Proxy({},{get:(_,key)=>key==="postMessage"?send:host[key]});
const source=Object.getOwnPropertyDescriptor(MessageEvent.prototype,"source");
Object.defineProperty(MessageEvent.prototype,"source",{...source,get(){const s=source.get.call(this);
return s===host?stand:s}});
Object.defineProperty(window,"parent",{value:stand,configurable:true});
})()</script>"""
"""Stands in for the page's host: what the page sends goes to the host with the mark, under the names of our list."""


async def mark_pages(verbs: Verbs, caller: Caller, uri: str, body: JsonObject) -> JsonObject:
    """An interface that was read, with the script in it; as it is where no other server has one."""
    view = await verbs.view(caller.principal)
    server, _ = verbs.addresses.locate(uri, caller.principal)
    if len({tool.server for tool in view.app_tools} | {server}) == 1:
        return body
    names = {tool.name: name for name, tool in apps.names(verbs, view).items() if tool.server == server}
    seal = verbs.task_ids.seal(server, _SEALED, caller.principal)
    script = _SCRIPT % (_literal(seal), _literal(names), _literal(APP_MARK))
    contents = [_mark_page(as_object(content), script) for content in as_list(body.get("contents"))]
    return {**body, "contents": contents}


def _mark_page(content: JsonObject, script: str) -> JsonObject:
    if as_text(content.get("mimeType")).replace(" ", "") != APP_TYPE:
        return content
    if isinstance(content.get("blob"), str):
        page = b64decode(content["blob"]).decode("utf-8", "surrogateescape")
        return {**content, "blob": b64encode(_insert(page, script).encode("utf-8", "surrogateescape")).decode()}
    return {**content, "text": _insert(as_text(content.get("text")), script)}


def _insert(page: str, script: str) -> str:
    """`page` with the script before every other."""
    tags = {tag.group()[1:5].lower(): tag.end() for tag in reversed(list(_HEAD.finditer(page[:20_000])))}
    at = tags.get("head", tags.get("html", tags.get("!doc", 0)))
    return page[:at] + script + page[at:]


def _literal(value: object) -> str:
    """A value as it may stand in a script of a page."""
    return encode(value).decode().replace("<", "\\u003c")


# What a marked request may ask


async def call_tool(protocol: "Protocol", request: "Request", caller: Caller, resume: JsonObject) -> JsonObject:
    server, name = _owner(protocol, request, caller), request.text("name")
    arguments = request.params.get("arguments")
    call = ToolCall({} if arguments is None else arguments, caller, request.meta, resume)
    result = await apps.call_own(protocol.verbs, server, name, call)
    if result is None:
        text = f"The interface of server '{server}' may call tools of that server only, and it has no '{name[:100]}'."
        raise RpcProblem(INVALID_PARAMS, text)
    return result


async def read_resource(protocol: "Protocol", request: "Request", caller: Caller, resume: JsonObject) -> JsonObject:
    server, uri = _owner(protocol, request, caller), request.text("uri")
    addresses = protocol.verbs.addresses
    try:
        owner, _ = addresses.locate(uri, caller.principal)
    except UnknownName:
        owner = ""
    address = uri if owner == server else addresses.address(server, uri)  # a page knows its server's own words
    return await protocol.verbs.read_resource(address, caller, request.meta, resume)


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
    """What of a list is the interface's own server's."""
    demand(caller.principal, "discover", f"listing {kind}")
    server, addresses = _owner(protocol, request, caller), protocol.verbs.addresses
    listing = (await protocol.verbs.view(caller.principal, [server])).listings.get(server)
    entries = () if listing is None else listing.templates if kind == "resourceTemplates" else getattr(listing, kind)
    rename = addresses.prompt_name if kind == "prompts" else addresses.address
    return paged(request, kind, [{**entry, key: rename(server, as_text(entry.get(key)))} for entry in entries], key)


def _owner(protocol: "Protocol", request: "Request", caller: Caller) -> str:
    """The server whose interface asks. Raises RpcProblem for a mark that is none of ours."""
    try:
        server, sealed = protocol.verbs.task_ids.open(as_text(request.meta.get(APP_MARK)), caller.principal)
    except UnknownName:
        server, sealed = "", ""
    if sealed != _SEALED:
        raise RpcProblem(INVALID_PARAMS, "The mark of this interface is unknown: read its page again.")
    return server
