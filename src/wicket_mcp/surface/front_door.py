"""Wicket as an OAuth resource server: tells clients how to get access, and maps access tokens to principals.

    GET /.well-known/oauth-protected-resource            about /mcp
    GET /.well-known/oauth-protected-resource/mcp/…      about that address

`resource` is exactly the address that the client was given: clients reject even an extra or missing slash. If
`public_url` has a path, clients put it behind the well-known part (RFC 9728, RFC 8414), and a proxy leaves it there.
Present only if an issuer is configured or our own authorization server is on. `identity` validates the tokens.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address
from typing import Literal, Protocol
from urllib.parse import urlsplit

from wicket_mcp.config.model.config import HttpConfig
from wicket_mcp.errors import WicketError
from wicket_mcp.identity.claims import InvalidToken
from wicket_mcp.model import Principal
from wicket_mcp.surface.http import Headers, Receive, RequestHeaders, Scope, Send, send_json

WELL_KNOWN = "/.well-known/oauth-protected-resource"
OFFERED = ("discover", "invoke")
"""The scopes that a client is told to request: all that using tools needs, at once."""
SUPPORTED = (*OFFERED, "register", "admin")


@dataclass(frozen=True, slots=True)
class Rejected:
    """Why a request was rejected."""

    status: int
    message: str
    invalid_token: bool = False
    """Whether an invalid token was sent; the client should get another one."""


class Verifier(Protocol):
    """Maps access tokens to principals."""

    async def principal(self, token: str, base: str) -> Principal | None:
        """The principal of a token that was sent to us at `base`; None if it is not a token of this kind.

        Raises InvalidToken, and WicketError if this cannot be checked at the moment.
        """
        ...


class FrontDoor:
    """`paths` are where MCP is served, `issuers` the issuers whose tokens we accept; "" means ourselves.
    `bound` returns the address that we listen at.
    """

    def __init__(
        self,
        http: HttpConfig,
        bound: Callable[[], str],
        paths: Collection[str],
        issuers: Sequence[str],
        verifiers: Sequence[Verifier],
    ) -> None:
        self._public_url = http.public_url.rstrip("/") if http.public_url else None
        self.public_path = urlsplit(self._public_url or "").path
        """The path of the public address; a proxy takes it off, except behind `/.well-known/…`."""
        self._listed = {host.lower() for host in http.allowed_hosts}
        self._bound = bound
        self._paths = paths
        self._issuers = issuers
        self._verifiers = verifiers

    def base(self, headers: RequestHeaders) -> str:
        """The address at which the client reached us, without the path. The guard has checked its Host."""
        if self._public_url is not None:
            return self._public_url
        return _base_at((headers.get(b"host") or "").lower())

    def _audience(self, headers: RequestHeaders) -> str:
        """The address that tokens must be issued for. The sender chooses Host, so that of another service on this
        machine, at another port, must not make its tokens ours.
        """
        if self._public_url is not None:
            return self._public_url
        host, bound = (headers.get(b"host") or "").lower(), self._bound()
        is_own = host in self._listed or (_is_loopback(host) and _port(host) == _port(urlsplit(bound).netloc))
        return _base_at(host) if is_own else bound

    async def identify(self, token: str, headers: RequestHeaders) -> Principal | Rejected:
        base = self._audience(headers)
        try:
            for verifier in self._verifiers:
                principal = await verifier.principal(token, base)
                if principal is not None:
                    return principal
        except InvalidToken as problem:
            return Rejected(401, f"Authentication failed: the token is not valid: {problem}.", invalid_token=True)
        except WicketError as problem:
            return Rejected(503, f"The sender cannot be identified now. {problem}")
        return Rejected(401, "Authentication failed: the token is not known here.", invalid_token=True)

    def challenge(
        self, headers: RequestHeaders, path: str, error: str = "", scopes: Sequence[str] = OFFERED
    ) -> Headers:
        """`WWW-Authenticate` for a response at `path`: where to find the authorization server, and which scopes to
        request.
        """
        about = path if path.rstrip("/") in self._paths else ""
        parts = [f'error="{error}"'] if error else []
        parts += [f'resource_metadata="{self.base(headers)}{WELL_KNOWN}{about}"', f'scope="{" ".join(scopes)}"']
        return ((b"www-authenticate", f"Bearer {', '.join(parts)}".encode("latin-1", "replace")),)

    # Mounted

    authentication: Literal["open"] = "open"

    def serves(self, path: str) -> bool:
        return path.startswith(WELL_KNOWN) and (
            (about := self._about(path)) in ("", "/") or about.rstrip("/") in self._paths
        )

    def _about(self, path: str) -> str:
        """The path that the metadata at `path` is about."""
        return path.removeprefix(WELL_KNOWN).removeprefix(self.public_path)

    async def __call__(
        self, scope: Scope, headers: RequestHeaders, receive: Receive, send: Send, principal: Principal
    ) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            await send_json(send, 405, {"error": "Use GET."}, ((b"allow", b"GET"),))
            return
        base, about = self.base(headers), self._about(scope["path"])
        body = {
            "resource": f"{base}{about if about.strip('/') else '/mcp'}",
            "authorization_servers": [issuer or base for issuer in self._issuers],
            "scopes_supported": list(SUPPORTED),
            "bearer_methods_supported": ["header"],
            "resource_name": "Wicket",
        }
        await send_json(send, 200, body, ((b"access-control-allow-origin", b"*"),))


@lru_cache(64)
def _base_at(host: str) -> str:
    return f"{'http' if _is_loopback(host) else 'https'}://{host}"


def _port(authority: str) -> int:
    return urlsplit(f"//{authority}").port or 80


def _is_loopback(authority: str) -> bool:
    host = urlsplit(f"//{authority}").hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
