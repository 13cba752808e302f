"""The HTTP headers of a request to an MCP server.

A server's configured headers are sent with every request, except those that the protocol defines. Modern requests
repeat their method and name in headers, so that proxies can route them; such values are encoded if a header cannot
carry them as plain text.
"""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from wicket_mcp import __version__
from wicket_mcp.model import MODERN_VERSION, JsonObject
from wicket_mcp.upstream.inflate import OFFERED

JSON = "application/json"
EVENTS = "text/event-stream"

_ALWAYS = {"Accept": f"{JSON}, {EVENTS}", "Accept-Encoding": OFFERED, "Content-Type": JSON}
_OWNED = frozenset(
    name.lower()
    for name in (
        *_ALWAYS,
        *("Connection", "Content-Encoding", "Content-Length", "Transfer-Encoding", "Last-Event-ID"),
        *("Mcp-Method", "Mcp-Name", "MCP-Protocol-Version", "Mcp-Session-Id"),
    )
)
_NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"} | dict.fromkeys(
    ("tasks/get", "tasks/update", "tasks/cancel"), "taskId"
)


def standing(configured: Mapping[str, str]) -> dict[str, str]:
    """The headers of every request: the configured ones and our own."""
    headers = {name: value for name, value in configured.items() if name.lower() not in _OWNED}
    if all(name.lower() != "user-agent" for name in headers):
        headers["User-Agent"] = f"wicket/{__version__}"
    return headers | _ALWAYS


def routing(version: str, method: str, params: JsonObject | None) -> dict[str, str]:
    """The headers that repeat what the body says, for protocol `version` ("" before it is negotiated)."""
    headers: dict[str, str] = {}
    if version and method != "initialize":
        headers["MCP-Protocol-Version"] = version
    if version == MODERN_VERSION and method:
        headers["Mcp-Method"] = header_value(method)
        name: Any = (params or {}).get(_NAMED_BY.get(method, ""))
        if isinstance(name, str):
            headers["Mcp-Name"] = header_value(name)
    return headers


def header_value(value: str) -> str:
    """`value` in a form that a header can carry: unchanged, or base64 in the protocol's wrapping."""
    plain = value.isascii() and value.isprintable() and value == value.strip()
    if plain and not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    return f"=?base64?{b64encode(value.encode('utf-8', 'replace')).decode('ascii')}?="
