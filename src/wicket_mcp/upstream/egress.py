"""All outgoing HTTP: one pooled client for the whole gateway, and which part of an address may be shown.

Owns the rules that hold for every upstream: TLS is verified, no cookie is kept, no proxy variable is read, no redirect
leaves the origin. The HTTP library behind it is loaded on first use. Knows nothing about MCP.
"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Protocol
from urllib.parse import urljoin, urlsplit

from wicket_mcp.errors import Unavailable
from wicket_mcp.model import Discreet
from wicket_mcp.telemetry.redact import Redactor, mask_url, url_secrets

if TYPE_CHECKING:
    from wicket_mcp.upstream.aiohttp_session import AiohttpSession
    from wicket_mcp.upstream.egress_rules import EgressRules

_DEFAULT_PORTS = {"http": 80, "https": 443}

MAY_HAVE_ACTED = "A call that was under way may have had effects; check before you repeat it."


class Endpoint(Discreet, frozen=True):
    """An upstream's address, and a form of it without secrets."""

    hidden: ClassVar[frozenset[str]] = frozenset({"url", "redact"})

    server: str
    url: str
    shown: str
    redact: Redactor

    @classmethod
    def of(cls, server: str, url: str, headers: Mapping[str, str]) -> "Endpoint":
        secrets = [part for value in headers.values() for part in (value, value.partition(" ")[2])]
        return cls(server, url, mask_url(url), Redactor((*secrets, *url_secrets(url))))

    def at(self, url: str) -> "Endpoint":
        """The same server at another of its addresses."""
        return Endpoint(self.server, url, self.shown, self.redact)

    def resolve(self, location: str) -> str | None:
        """The address that `location` resolves to from here, or None if it is outside our origin."""
        try:
            url = urljoin(self.url, location)
            inside = origin(url) == origin(self.url)
        except ValueError:
            return None
        return url if inside else None


def origin(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port of `url`. Raises ValueError."""
    split = urlsplit(url)
    return split.scheme, (split.hostname or "").lower(), split.port or _DEFAULT_PORTS.get(split.scheme)


def in_words(size: int) -> str:
    """A number of bytes as text for people."""
    return f"{size // 2**20} MiB" if size >= 2**20 else f"{size} bytes"


class Answer(Protocol):
    """An HTTP answer whose head has arrived; the body is read in pieces of limited size."""

    @property
    def endpoint(self) -> Endpoint: ...

    @property
    def status(self) -> int: ...

    @property
    def url(self) -> str:
        """The final address, if a permanent redirect was followed."""
        ...

    @property
    def media_type(self) -> str: ...

    def header(self, name: str) -> str:
        """The header's value, or "" when it is absent."""
        ...

    @property
    def challenges(self) -> str:
        """All challenges of `WWW-Authenticate`, which may come in several lines; "" if there is none."""
        ...

    async def read(self) -> bytes:
        """The next piece of the decompressed body; b"" at its end. Raises Crashed or ProtocolViolation."""
        ...

    async def body(self, limit: int) -> bytes:
        """The whole body. Raises ProtocolViolation beyond `limit` bytes or the client's, else as `read`."""
        ...

    def finish(self) -> None:
        """We have what we need: discard the rest, so that the TCP connection can be reused."""
        ...

    def close(self) -> None:
        """Close it now; the peer sees the stream end."""
        ...


class HttpClient:
    """The gateway's HTTP client: one pool of connections for all upstreams.

    With `rules`, a client for addresses from outside: it raises Denied for every address that the rules forbid.
    """

    def __init__(self, *, rules: "EgressRules | None" = None) -> None:
        self._rules = rules
        self._session: AiohttpSession | None = None
        self._loading = asyncio.Lock()
        self._closed = False

    async def send(
        self, method: str, endpoint: Endpoint, headers: Mapping[str, str], body: bytes | None = None
    ) -> Answer:
        """Send one request and return when the head of the answer has arrived.

        Raises Unavailable (nothing was sent), Crashed (it may have been) or ProtocolViolation (not HTTP).
        """
        session = self._session or await self._load(endpoint)
        return await session.send(method, endpoint, headers, body)

    def recheck(self) -> None:
        """The rules have changed: close the connections that they no longer allow, and keep the others."""
        if self._session is not None:
            self._session.recheck()

    async def close(self) -> None:
        self._closed = True
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _load(self, endpoint: Endpoint) -> "AiohttpSession":
        async with self._loading:
            if self._closed:
                raise Unavailable(endpoint.server, "The gateway is stopping.", hint="Start it again.")
            if self._session is None:
                # In a thread, because the import takes long enough to delay every other upstream.
                session_class = await asyncio.to_thread(_import_session)
                self._session = session_class(self._rules)
            return self._session


def _import_session() -> "type[AiohttpSession]":
    # aiohttp takes 230 ms to import, and a gateway with only local servers never needs it.
    from wicket_mcp.upstream.aiohttp_session import AiohttpSession  # noqa: PLC0415

    return AiohttpSession
