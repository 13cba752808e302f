"""What browsers want to be told before a page of another origin may speak to us (CORS).

A page may ask where the guard allows its origin, or where anybody may ("open"): metadata, registration and tokens,
which no cookie of ours protects. No answer ever allows cookies. Entered only for requests that carry an Origin.
"""

from collections.abc import MutableMapping
from typing import Any

from wicket_mcp.surface.http import Headers, RequestHeaders, Send

_EXPOSED = b"Mcp-Session-Id, WWW-Authenticate, Retry-After"
_MAX_AGE = b"600"


def is_preflight(method: str, headers: RequestHeaders) -> bool:
    """Whether a browser asks whether it may ask."""
    return method == "OPTIONS" and headers.get(b"access-control-request-method") is not None


async def answer_preflight(send: Send, headers: RequestHeaders, *, everybody: bool) -> None:
    """Yes. The guard has checked the origin where not everybody may ask."""
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
    """`send`, so that the page that asked may read the answer. The guard has checked its origin."""
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
