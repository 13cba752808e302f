"""Forwards a request to the member that can answer it, and streams the answer back.

Plain HTTP over persistent connections. The member that got the request has authenticated it; it vouches for the
principal in a sealed header, for this method and path and for one minute. A forwarded request is never forwarded again.
It is always known whether a request was sent: one that was not may go to another member.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any, TypeAlias

import aiohttp

from wicket_mcp.cluster.members import Member
from wicket_mcp.model import Principal
from wicket_mcp.sealing import Ring

log = logging.getLogger(__name__)

PEER = b"wicket-peer"
"""The header in which a member vouches for a principal."""
LIFETIME = 60.0
CONNECT_TIMEOUT = 2.0
REMEMBERED = 1000
"""Principals whose sealed header is cached."""
_DROPPED = frozenset(
    {b"connection", b"keep-alive", b"transfer-encoding", b"content-length", b"upgrade", b"te", b"expect", PEER}
)

Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
RawHeaders: TypeAlias = Sequence[tuple[bytes, bytes]]


class Lost(Exception):
    """The member disappeared after the request was sent: what it did is unknown."""


class Relay:
    """Belongs to an event loop."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._sessions: dict[str, aiohttp.ClientSession] = {}
        """One for all network addresses, and one for each Unix socket of this machine."""
        self._vouched: dict[Principal, tuple[str, float]] = {}
        self._admitted: dict[str, tuple[Principal, float]] = {}
        self.relayed = 0
        """Forwarded requests."""

    def vouch(self, principal: Principal, method: str, path: str) -> str:
        p = principal
        scopes, groups = sorted(p.scopes), sorted(p.groups)
        fields = [p.name, scopes, list(p.rates), p.issuer, p.subject, groups, p.label, p.profile, p.holder]
        return self._ring.close("peer", fields, LIFETIME, f"{method} {path}")

    def admit(self, vouched: str, method: str, path: str) -> Principal | None:
        """The principal that a member vouches for; None if no member of ours did."""
        fields = self._ring.open("peer", vouched, f"{method} {path}")
        if fields is None:
            return None
        name, scopes, rates, issuer, subject, groups, *others = fields
        limits = tuple((str(kind), int(rate)) for kind, rate in rates)
        return Principal(name, frozenset(scopes), limits, issuer, subject, frozenset(groups), *others)

    def vouch_for(self, principal: Principal) -> str:
        """Our sealed statement about the principal, for a connection between members; the same one for a while."""
        known = self._vouched.get(principal)
        now = time.monotonic()
        if known is None or known[1] < now:
            if len(self._vouched) >= REMEMBERED:
                self._vouched.clear()
            known = self._vouched[principal] = self.vouch(principal, "", ""), now + LIFETIME / 2
        return known[0]

    def admit_asker(self, vouched: str) -> Principal | None:
        """The principal in a member's sealed statement for such a connection."""
        known = self._admitted.get(vouched)
        now = time.monotonic()
        if known is not None and known[1] >= now:
            return known[0]
        if len(self._admitted) >= REMEMBERED:
            self._admitted.clear()
        principal = self.admit(vouched, "", "")
        if principal is not None:
            self._admitted[vouched] = principal, now + LIFETIME / 2
        return principal

    async def relay(
        self, member: Member, method: str, path: str, headers: RawHeaders, body: bytes, send: Send, principal: Principal
    ) -> bool:
        """Whether it was forwarded; False if nothing was sent. Raises Lost if the member disappeared meanwhile."""
        forwarded = [(key.decode(), value.decode("latin-1")) for key, value in headers if key not in _DROPPED]
        forwarded.append((PEER.decode(), self.vouch(principal, method, path.partition("?")[0])))
        try:
            client, address = self._client(member)
            response = await client.request(
                method, f"{address}{path}", headers=forwarded, data=body or None, allow_redirects=False
            )
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as problem:
            log.warning("the replica at %s cannot be reached: %s", member.address, problem)
            return False
        except (aiohttp.ClientError, TimeoutError, OSError) as problem:
            raise Lost(f"the replica at {member.address} disconnected: {problem}") from None
        self.relayed += 1
        async with response:
            await _pass_on(response, send)
        return True

    async def ask(self, member: Member, path: str, principal: Principal, headers: Mapping[str, str]) -> int | None:
        """The status of a member's answer to an empty message; 0 if it is dead, None if it is silent."""
        vouched = {PEER.decode(): self.vouch(principal, "POST", path), **headers}
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                client, address = self._client(member)
                async with client.post(f"{address}{path}", headers=vouched, json={}) as response:
                    return response.status
        except aiohttp.ConnectionTimeoutError:
            return None
        except aiohttp.ClientConnectorError:
            return 0
        except (aiohttp.ClientError, TimeoutError, OSError):
            return None

    async def post(
        self, member: Member, path: str, principal: Principal, message: Mapping[str, Any], headers: Mapping[str, str]
    ) -> Any:
        """A member's answer to a message, as JSON; None if nothing was sent. Raises Lost if it did not answer."""
        vouched = {PEER.decode(): self.vouch(principal, "POST", path), **headers}
        client, address = self._client(member)
        try:
            async with client.post(f"{address}{path}", headers=vouched, json=message) as response:
                return await response.json()
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
            return None
        except (aiohttp.ClientError, OSError, ValueError) as problem:
            raise Lost(f"the replica at {member.address} did not answer: {problem}") from None

    async def locate(self, member: Member, path: str, principal: Principal) -> tuple[int, str] | None:
        """The epoch and address of the owner of a path, according to a member; None if it does not answer."""
        vouched = {PEER.decode(): self.vouch(principal, "GET", path)}
        client, address = self._client(member)
        try:
            async with client.get(f"{address}{path}", headers=vouched) as response:
                if response.status != 200:
                    return None
                body = await response.json()
                return int(body["epoch"]), str(body["address"])
        except (aiohttp.ClientError, OSError, KeyError, ValueError):
            return None

    async def fetch(self, member: Member, path: str, principal: Principal, within: float) -> Any:
        """A member's answer at a path, as JSON; None if there is none in time."""
        vouched = {PEER.decode(): self.vouch(principal, "GET", path.partition("?")[0])}
        client, address = self._client(member)
        try:
            async with asyncio.timeout(within), client.get(f"{address}{path}", headers=vouched) as response:
                return await response.json() if response.status == 200 else None
        except (aiohttp.ClientError, OSError, ValueError):  # including TimeoutError
            return None

    async def close(self) -> None:
        for session in self._sessions.values():
            await session.close()

    def _client(self, member: Member) -> tuple[aiohttp.ClientSession, str]:
        """The HTTP client and the address for a member."""
        path = member.address.removeprefix("unix:") if member.address.startswith("unix:") else ""
        session = self._sessions.get(path)
        if session is None:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT)
            connector = (
                aiohttp.UnixConnector(path, limit=0, keepalive_timeout=30)
                if path
                else aiohttp.TCPConnector(limit=0, keepalive_timeout=30)
            )
            session = self._sessions[path] = aiohttp.ClientSession(
                timeout=timeout, connector=connector, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
            )
        return session, "http://localhost" if path else member.address


async def _pass_on(response: aiohttp.ClientResponse, send: Send) -> None:
    forwarded = [(key.lower(), value) for key, value in response.raw_headers if key.lower() not in _DROPPED]
    length = response.headers.get("content-length")
    if length is not None:
        forwarded.append((b"content-length", length.encode()))
    await send({"type": "http.response.start", "status": response.status, "headers": forwarded})
    try:
        async for chunk in response.content.iter_any():
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    except (aiohttp.ClientError, asyncio.IncompleteReadError) as problem:
        # The answer has begun: only breaking it off shows the client that it is incomplete.
        log.warning("an answer of another replica broke off: %s", problem)
        raise Lost(str(problem)) from None
    await send({"type": "http.response.body", "body": b""})
