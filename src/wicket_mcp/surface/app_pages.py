"""The pages of interfaces (MCP Apps) as hosts get them: each inside a page of ours that talks to the host for it.

Hosts forward the requests of an interface without saying which interface sent them, and to a host all of Wicket is one
server. An interface could simply leave out a mark that it adds itself. So a host gets our own page (`app_frame.html`),
and the server's page runs in a frame inside it, with an opaque origin. Hosts listen only to the frame that they
created, which is ours, and our page marks every request with a seal for that server and principal. `app_methods.py`
decides what a marked request may do. Called when a client that shows interfaces reads one or gets one in a result.
Some hosts show whatever they read at the address of an interface, without a look at its type: a server could serve its
page under another type, so at such an address the type decides nothing.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from wicket_mcp.codec import encode
from wicket_mcp.dialects import apps
from wicket_mcp.extensions import APP_MARK, APP_SCHEME
from wicket_mcp.model import Caller, JsonObject, as_list, as_object, as_text
from wicket_mcp.verbs import Verbs

SEALED = "app"
"""Takes the place of a task id in a seal, so that the two kinds of seal cannot be confused."""
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")


async def confine_read(verbs: Verbs, caller: Caller, uri: str, body: JsonObject) -> JsonObject:
    """What a host has read: an interface, if it is at the address of one or has the type of one. With a single server
    nothing needs to be confined.
    """
    contents = [as_object(content) for content in as_list(body.get("contents"))]
    are_pages = [uri.startswith(APP_SCHEME) or _has_app_type(content) for content in contents]
    if verbs.addresses.unprefixed or not any(are_pages):
        return body
    server, _ = verbs.addresses.locate(uri, caller.principal)
    view = await verbs.view(caller.principal)
    names = {tool.name: name for name, tool in apps.names(verbs, view).items() if tool.server == server}
    confined = [
        _confine(verbs, caller, server, names, content) if is_page else content
        for content, is_page in zip(contents, are_pages, strict=True)
    ]
    return {**body, "contents": confined}


def confine_result(verbs: Verbs, caller: Caller, result: JsonObject) -> JsonObject:
    """The result of a tool, for a host: some hosts show an interface that a result contains.

    The server behind a result that a script put together is unknown, so an interface in it may send no requests.
    """
    content = as_list(result.get("content"))
    if verbs.addresses.unprefixed or not any(map(_holds_page, content)):
        return result
    return {**result, "content": [_confine_item(verbs, caller, item) for item in content]}


def _confine_item(verbs: Verbs, caller: Caller, item: Any) -> Any:
    if not _holds_page(item):
        return item
    return {**item, "resource": _confine(verbs, caller, "", {}, as_object(item["resource"]))}


def _confine(verbs: Verbs, caller: Caller, server: str, names: Mapping[str, str], content: JsonObject) -> JsonObject:
    """The content with every form of it that a host may show inside our page."""

    def frame(page: str) -> str:
        settings = {
            "server": server,
            "names": names,
            "key": APP_MARK,
            "mark": verbs.task_ids.seal(server, SEALED, caller.principal),
            "page": page.encode("utf-8", "replace").decode(),
        }
        return _frame().replace("SETTINGS", _literal(settings))

    confined = content
    if "text" in content:
        confined = {**confined, "text": frame(as_text(content["text"]))}
    if "blob" in content:
        confined = {**confined, "blob": b64encode(frame(_read_blob(content["blob"])).encode()).decode()}
    return confined


def _read_blob(blob: Any) -> str:
    try:
        return b64decode(as_text(blob)).decode("utf-8", "replace")
    except ValueError:  # not Base64
        return ""


def _holds_page(item: Any) -> bool:
    """Whether a host may show this part of a result as an interface."""
    content = as_object(as_object(item).get("resource"))
    may_be = "html" in as_text(content.get("mimeType") or "html").lower()
    return _has_app_type(content) or (may_be and as_text(content.get("uri")).startswith(APP_SCHEME))


def _has_app_type(content: JsonObject) -> bool:
    return "profile=mcp-app" in as_text(content.get("mimeType")).replace(" ", "").replace('"', "").lower()


@cache
def _frame() -> str:
    return (files("wicket_mcp.surface") / "app_frame.html").read_text("utf-8")


def _literal(value: object) -> str:
    """A value encoded for a script in a page, safe in any character encoding that the host assumes."""
    return _NOT_ASCII.sub(_escape, encode(value).decode().replace("<", "\\u003c"))


def _escape(characters: re.Match[str]) -> str:
    units = characters.group().encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
