"""Admits HTTP requests: checks Host, Origin and bearer token (ours, an API key, an issuer's) on every route.

A web page in the user's browser can reach a loopback port, so the token is required there too, and Host and Origin are
checked for every listening address. Where we listen at every address of the machine, any IP address may be the Host:
health checks and Prometheus name no other, and only names can be rebound. Looks only at the raw request.
"""

import hmac
from collections.abc import Callable
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Literal, Protocol
from urllib.parse import urlsplit

from wicket_mcp.config.model.config import HttpConfig
from wicket_mcp.errors import ConfigError
from wicket_mcp.model import API_KEY_PREFIX, LOCAL, Principal
from wicket_mcp.surface.front_door import FrontDoor, Rejected
from wicket_mcp.surface.http import Headers, RequestHeaders

Authentication = Literal["open", "none", "optional", "required"]
"""Whether a mounted application needs a token. With "optional" it does not if the registry is public. An "open" mount
accepts requests from pages of every origin, and protects itself."""

_TOKENLESS = ("open", "none")
_NO_TOKEN = Rejected(401, "A bearer token is needed: `wicket status` says where it is kept.")
_WRONG_TOKEN = Rejected(
    401, "This bearer token is not valid: `wicket status` says where the valid one is kept.", invalid_token=True
)

HOSTS_REMEMBERED = 64
"""How many Host values are remembered: a client sends the same Host with every request, so it is parsed only once."""

_SINGLE = frozenset({b"host", b"origin", b"authorization"})


class KeyRing(Protocol):
    """Maps API keys to principals."""

    async def principal(self, text: str) -> Principal | None: ...


class Guard:
    """The rules for one listening address. `token` None means that no token is required (loopback only).

    `keys` recognises API keys and `door` access tokens; `public` lets everyone read the registry; `place` gives a
    principal the profile that it is bound to.
    """

    def __init__(
        self,
        config: HttpConfig,
        token: str | None,
        keys: KeyRing | None = None,
        *,
        door: FrontDoor | None = None,
        public: bool = False,
        place: Callable[[Principal], Principal] | None = None,
    ) -> None:
        self._place = place
        self._token = token.encode() if token else None
        self._keys = keys
        self._public = public
        self._door = door
        self._hosts = {host.lower() for host in config.allowed_hosts}
        self._everywhere = config.host in ("0.0.0.0", "::")  # noqa: S104  (compared, not bound)
        if not _is_loopback(config.host) and not self._everywhere:
            self._hosts.add(config.host.lower())
        self._origins = {origin.lower().rstrip("/") for origin in config.allowed_origins}
        if config.public_url is not None:  # our own pages post to us from there
            self._hosts.add((_host_in(config.public_url) or "").lower())
            self._origins.add(_origin_of(config.public_url))
        self._local = _is_loopback(config.host)
        self._host_allowed = lru_cache(HOSTS_REMEMBERED)(self._judge_host)
        self._owner: tuple[bytes, bytes] | None = None
        """Host and Authorization of the owner's last request: its next one usually has the same."""

    async def identify(
        self, headers: RequestHeaders, authentication: Authentication = "required", client: str = ""
    ) -> Principal | Rejected:
        """Like `admit`, but also checks API keys: the holder of a key is always the key's principal."""
        host, sent, known = headers.find(b"host"), headers.find(b"authorization"), self._owner
        if not host or not sent or headers.repeated or b"origin" in headers:
            return self._admit_to_profile(await self._identify(headers, authentication, client))
        if known is not None and host == known[0] and hmac.compare_digest(sent, known[1]):
            return LOCAL if self._place is None else self._place(LOCAL)
        principal = await self._identify(headers, authentication, client)
        if principal is LOCAL and authentication not in _TOKENLESS and self._token is not None:
            self._owner = host, sent
        return self._admit_to_profile(principal)

    def _admit_to_profile(self, principal: Principal | Rejected) -> Principal | Rejected:
        return principal if self._place is None or isinstance(principal, Rejected) else self._place(principal)

    async def _identify(
        self, headers: RequestHeaders, authentication: Authentication, client: str
    ) -> Principal | Rejected:
        if (rejected := self._judge_place(headers, authentication)) is not None:
            return rejected
        token = _bearer(headers)
        if self._keys is None or authentication in _TOKENLESS:
            return LOCAL if authentication in _TOKENLESS or self._is_owner(token) else _NO_TOKEN
        if token.startswith(API_KEY_PREFIX):
            known = await self._keys.principal(token)
            return known or Rejected(
                401, "Authentication failed: this API key is unknown, expired or revoked.", invalid_token=True
            )
        if self._is_owner(token):
            return LOCAL
        if self._door is not None and token:
            return await self._door.identify(token, headers)
        if self._public and not token and authentication == "optional":
            return Principal(f"anonymous {client}", frozenset({"discover"}))
        return _WRONG_TOKEN if token else _NO_TOKEN

    def admit(self, headers: RequestHeaders, authentication: Authentication = "required") -> Principal | Rejected:
        """The principal of a request, or why it is rejected."""
        if (rejected := self._judge_place(headers, authentication)) is not None:
            return rejected
        if authentication in _TOKENLESS or self._is_owner(token := _bearer(headers)):
            return LOCAL
        return _WRONG_TOKEN if token else _NO_TOKEN

    def _judge_place(self, headers: RequestHeaders, authentication: Authentication) -> Rejected | None:
        """Why a request is rejected because of its Host or Origin; None if it is not."""
        repeated = headers.repeated & _SINGLE
        host = headers.get(b"host")
        if host is None or b"host" in repeated or not self._host_allowed(host):
            return Rejected(421, "This Host is not served here. Add it to http.allowed_hosts if it should be.")
        origin = headers.get(b"origin")
        strange = origin is not None and (b"origin" in repeated or not self._origin_allowed(origin, host))
        if strange and authentication != "open":
            return Rejected(403, "This Origin may not call here. Add it to http.allowed_origins if it should.")
        return None

    def _is_owner(self, token: str) -> bool:
        """Whether this is the gateway's token; if none is required, everyone is the owner."""
        return self._token is None or bool(token and hmac.compare_digest(token.encode(), self._token))

    def challenge(self, rejected: Rejected, headers: RequestHeaders, path: str) -> Headers:
        """The headers that tell a client how to get access."""
        if rejected.status != 401:
            return ()
        if self._door is None:
            return ((b"www-authenticate", b'Bearer error="invalid_token"' if rejected.invalid_token else b"Bearer"),)
        return self._door.challenge(headers, path, "invalid_token" if rejected.invalid_token else "")

    def _judge_host(self, value: str) -> bool:
        host = _host_in(f"//{value}") if not set(value) & set("/?#@\\ ") else None
        if host is None:
            return False
        if self._everywhere and _address_in(host) is not None:
            return True
        return _is_loopback(host) or host.lower() in self._hosts or value.lower() in self._hosts

    def _origin_allowed(self, value: str, host: str) -> bool:
        """Pages of this machine may call with a token. Without one, every program here that serves pages would be let
        in: only our own pages may.
        """
        scheme, _, place = value.lower().partition("://")
        if value.lower() in self._origins:
            return True
        if not self._local or scheme not in ("http", "https") or not _is_loopback(_host_in(value) or ""):
            return False
        return self._token is not None or place == host.lower()


def check_exposure(config: HttpConfig, *, authenticated: bool) -> None:
    """Refuse to listen beyond this machine without authentication. Raises ConfigError."""
    if not authenticated and not _is_loopback(config.host):
        raise ConfigError(
            f"listening on {config.host} without a token would give everybody on the network your tools",
            key="http.host",
            hint="Leave out --no-auth, or listen on 127.0.0.1.",
        )


def _host_in(address: str) -> str | None:
    """The host in `address`; None if it is missing or cannot be parsed."""
    try:
        parts = urlsplit(address)
        return parts.hostname if parts.port is None or parts.port else None  # an invalid port raises
    except ValueError:
        return None


def _origin_of(address: str) -> str:
    split = urlsplit(address.lower())
    return f"{split.scheme}://{split.netloc}"


def _bearer(headers: RequestHeaders) -> str:
    """The bearer token; empty if there is no token or more than one."""
    scheme, _, token = (headers.get(b"authorization") or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and b"authorization" not in headers.repeated else ""


def _is_loopback(host: str) -> bool:
    address = _address_in(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


def _address_in(host: str) -> IPv4Address | IPv6Address | None:
    """The IP address that a host is; None if it is a name."""
    try:
        return ip_address(host.strip("[]"))
    except ValueError:
        return None
