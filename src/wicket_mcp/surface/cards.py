"""Public descriptions of the servers at our addresses: a card for each, and a catalogue of all cards.

    GET /mcp/server-card, /mcp/<dialect>/server-card    application/mcp-server-card+json
    GET /.well-known/ai-catalog.json                    the cards' addresses

Contains only public facts (name, version, address, protocol versions) and nothing about the servers and profiles behind
us. Any web page may read it.
"""

import hashlib
from collections.abc import Collection
from urllib.parse import urlsplit

from wicket_mcp import __version__
from wicket_mcp.codec import encode
from wicket_mcp.model import LEGACY_VERSIONS, MODERN_VERSION, JsonObject, Principal
from wicket_mcp.surface.guard import Authentication
from wicket_mcp.surface.http import Receive, RequestHeaders, Scope, Send

CATALOGUE = "/.well-known/ai-catalog.json"
CARD = "/server-card"
CARD_TYPE = "application/mcp-server-card+json"
MAX_AGE = 3600  # seconds


class Cards:
    """Implements `Mount` for the cards of these MCP paths. Without a public address, ours is the one that a reader
    used.
    """

    authentication: Authentication = "open"

    def __init__(self, paths: Collection[str], public_url: str | None = None) -> None:
        self._paths = tuple(paths)
        self._public_url = public_url.rstrip("/") if public_url else None

    def serves(self, path: str) -> bool:
        return path == CATALOGUE or (path.endswith(CARD) and path.removesuffix(CARD) in self._paths)

    async def __call__(
        self, scope: Scope, headers: RequestHeaders, receive: Receive, send: Send, principal: Principal
    ) -> None:
        origin = self._public_url or f"{scope.get('scheme', 'http')}://{headers.get(b'host') or 'localhost'}"
        path: str = scope["path"]
        if scope["method"] not in ("GET", "HEAD"):
            await _send(send, 405, b"", ((b"allow", b"GET, HEAD"),))
            return
        if path == CATALOGUE:
            document, media_type = self._catalogue(origin), b"application/json"
        else:
            document, media_type = _card(origin, path.removesuffix(CARD)), CARD_TYPE.encode()
        body = encode(document)
        tag = f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
        known = [item.strip() for item in (headers.get(b"if-none-match") or "").split(",")]
        extra = (
            (b"content-type", media_type),
            (b"access-control-allow-origin", b"*"),
            (b"cache-control", f"public, max-age={MAX_AGE}".encode()),
            (b"etag", tag.encode()),
        )
        if tag in known:
            await _send(send, 304, b"", extra)
        else:
            await _send(send, 200, b"" if scope["method"] == "HEAD" else body, extra)

    def _catalogue(self, origin: str) -> JsonObject:
        host = urlsplit(origin).hostname
        return {
            "specVersion": "1.0",
            "entries": [
                {
                    "identifier": f"urn:air:{host}:{_name(path)}",
                    "displayName": _name(path),
                    "type": CARD_TYPE,
                    "url": f"{origin}{path}{CARD}",
                }
                for path in self._paths
            ],
        }


def _card(origin: str, path: str) -> JsonObject:
    return {
        "name": f"wicket/{_name(path)}",
        "title": "Wicket",
        "version": __version__,
        "description": "A gateway to MCP servers: find, describe and call their tools through a few.",
        "remotes": [
            {
                "type": "streamable-http",
                "url": f"{origin}{path}",
                "supportedProtocolVersions": [*LEGACY_VERSIONS, MODERN_VERSION],
            }
        ],
    }


def _name(path: str) -> str:
    return path.removeprefix("/mcp").strip("/") or "wicket"


async def _send(send: Send, status: int, body: bytes, headers: tuple[tuple[bytes, bytes], ...]) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})
