"""CORS: what a browser must know before a page of another origin may send us requests.

A page may do so if the guard allows its origin, or if the mount is "open" (metadata, registration and tokens, which no
cookie of ours protects). No response ever allows cookies. Called only for requests with an Origin header.
"""

from collections.abc import MutableMapping
from typing import Any

from wicket_mcp.surface.http import Headers, RequestHeaders, Send

_EXPOSED = b"Mcp-Session-Id, WWW-Authenticate, Retry-After"
_MAX_AGE = b"600"


def is_preflight(method: str, headers: RequestHeaders) -> bool:
    """Whether this is a browser's preflight request."""
    return method == "OPTIONS" and headers.get(b"access-control-request-method") is not None


async def answer_preflight(send: Send, headers: RequestHeaders, *, everybody: bool) -> None:
    """Allow the request. The guard has checked the origin, unless the mount is open to every origin."""
    requested = headers.get(b"access-control-request-headers") or ""
    allowed: Headers = (
        *_origin(headers, everybody=everybody),
        (b"access-control-allow-methods", b"GET, POST, DELETE"),
        (b"access-control-allow-headers", requested.encode("latin-1", "replace")),
        (b"access-control-max-age", _MAX_AGE),
        (b"content-length", b"0"),
    )
    await send({"type": "http.response.start", "status": 204, "headers": list(allowed)})
    await send({"type": "http.response.body", "body": b""})


def readable(send: Send, headers: RequestHeaders) -> Send:
    """Wrap `send` so that the page may read the response. The guard has checked its origin."""
    added = (*_origin(headers, everybody=False), (b"access-control-expose-headers", _EXPOSED))

    async def send_readable(event: MutableMapping[str, Any]) -> None:
        if event["type"] == "http.response.start":
            event = {**event, "headers": [*event.get("headers", ()), *added]}
        await send(event)

    return send_readable


def _origin(headers: RequestHeaders, *, everybody: bool) -> Headers:
    if everybody:
        return ((b"access-control-allow-origin", b"*"),)
    origin = (headers.get(b"origin") or "").encode("latin-1", "replace")
    return ((b"access-control-allow-origin", origin), (b"vary", b"Origin"))
