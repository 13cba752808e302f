"""The pages of interfaces (MCP Apps) as hosts get them: each inside a page of ours that talks to the host for it.

Hosts forward the requests of an interface without saying which interface sent them, and to a host all of Wicket is one
server. An interface could simply leave out a mark that it adds itself. So a host gets our own page (`app_frame.html`),
and the server's page runs in a frame inside it, with an opaque origin. Hosts listen only to the frame that they
created, which is ours, and our page marks every request with a seal for that server and principal. `app_methods.py`
decides what a marked request may do. Called when a client that shows interfaces reads one or gets one in a result.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from wicket_mcp.codec import encode
from wicket_mcp.dialects import apps
from wicket_mcp.extensions import APP_MARK, APP_TYPE
from wicket_mcp.model import Caller, JsonObject, as_list, as_object, as_text
from wicket_mcp.verbs import Verbs

SEALED = "app"
"""Takes the place of a task id in a seal, so that the two kinds of seal cannot be confused."""
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")


async def confine_read(verbs: Verbs, caller: Caller, uri: str, body: JsonObject) -> JsonObject:
    """The content read at the address of an interface, for its host. With a single server nothing needs to be
    confined.
    """
    if verbs.addresses.unprefixed:
        return body
    server, _ = verbs.addresses.locate(uri, caller.principal)
    view = await verbs.view(caller.principal)
    names = {tool.name: name for name, tool in apps.names(verbs, view).items() if tool.server == server}
    contents = [_confine(verbs, caller, server, names, as_object(content)) for content in as_list(body.get("contents"))]
    return {**body, "contents": contents}


def confine_result(verbs: Verbs, caller: Caller, result: JsonObject) -> JsonObject:
    """The result of a tool, for a host: some hosts show an interface that a result contains.

    The server behind a result that a script put together is unknown, so an interface in it may send no requests.
    """
    content = as_list(result.get("content"))
    if verbs.addresses.unprefixed or not any(_resource_type(item) == APP_TYPE for item in content):
        return result
    return {**result, "content": [_confine_item(verbs, caller, item) for item in content]}


def _confine_item(verbs: Verbs, caller: Caller, item: Any) -> Any:
    if _resource_type(item) != APP_TYPE:
        return item
    return {**item, "resource": _confine(verbs, caller, "", {}, as_object(item["resource"]))}


def _confine(verbs: Verbs, caller: Caller, server: str, names: Mapping[str, str], content: JsonObject) -> JsonObject:
    if _type(content) != APP_TYPE:
        return content
    blob = content.get("blob")
    page = b64decode(blob).decode("utf-8", "replace") if isinstance(blob, str) else as_text(content.get("text"))
    settings = {
        "server": server,
        "names": names,
        "key": APP_MARK,
        "mark": verbs.task_ids.seal(server, SEALED, caller.principal),
        "page": page.encode("utf-8", "replace").decode(),
    }
    framed = _frame().replace("SETTINGS", _literal(settings))
    return {**content, "blob": b64encode(framed.encode()).decode()} if blob else {**content, "text": framed}


def _resource_type(item: Any) -> str:
    return _type(as_object(as_object(item).get("resource")))


def _type(content: JsonObject) -> str:
    return as_text(content.get("mimeType")).replace(" ", "")


@cache
def _frame() -> str:
    return (files("wicket_mcp.surface") / "app_frame.html").read_text("utf-8")


def _literal(value: object) -> str:
    """A value encoded for a script in a page, safe in any character encoding that the host assumes."""
    return _NOT_ASCII.sub(_escape, encode(value).decode().replace("<", "\\u003c"))


def _escape(characters: re.Match[str]) -> str:
    units = characters.group().encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
