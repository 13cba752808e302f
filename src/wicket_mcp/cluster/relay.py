"""Forwards a request to the member that can answer it, and streams the answer back.

Plain HTTP over persistent connections. The member that got the request has authenticated it; it vouches for the
principal in a sealed header (`statements.py`), and keeps the client's credentials to itself. A forwarded request is
never forwarded again. It is always known whether a request was sent: one that was not may go to another member.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any, TypeAlias

import aiohttp

from wicket_mcp.cluster.members import Member
from wicket_mcp.cluster.statements import Statements
from wicket_mcp.codec import encode
from wicket_mcp.model import Principal

log = logging.getLogger(__name__)

PEER = b"wicket-peer"
"""The header in which a member vouches for a principal."""
CONNECT_TIMEOUT = 2.0
_DROPPED = frozenset(
    {b"connection", b"keep-alive", b"transfer-encoding", b"content-length", b"upgrade", b"te", b"expect", PEER}
    | {b"authorization", b"proxy-authorization", b"cookie"}
)
_JSON = {"Content-Type": "application/json"}

Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
RawHeaders: TypeAlias = Sequence[tuple[bytes, bytes]]


class Lost(Exception):
    """The member disappeared after the request was sent: what it did is unknown."""


class Relay:
    """Belongs to an event loop."""

    def __init__(self, statements: Statements) -> None:
        self._statements = statements
        self._sessions: dict[str, aiohttp.ClientSession] = {}
        """One for all network addresses, and one for each Unix socket of this machine."""
        self.relayed = 0
        """Forwarded requests."""

    async def relay(
        self, member: Member, method: str, path: str, headers: RawHeaders, body: bytes, send: Send, principal: Principal
    ) -> bool:
        """Whether it was forwarded; False if nothing was sent. Raises Lost if the member disappeared meanwhile."""
        forwarded = [(key.decode(), value.decode("latin-1")) for key, value in headers if key not in _DROPPED]
        forwarded += self._vouch(member, principal, method, path, body).items()
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
        body = encode({})
        vouched = {**self._vouch(member, principal, "POST", path, body), **headers, **_JSON}
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                client, address = self._client(member)
                async with client.post(f"{address}{path}", headers=vouched, data=body) as response:
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
        body = encode(message)
        vouched = {**self._vouch(member, principal, "POST", path, body), **headers, **_JSON}
        client, address = self._client(member)
        try:
            async with client.post(f"{address}{path}", headers=vouched, data=body) as response:
                return await response.json()
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
            return None
        except (aiohttp.ClientError, OSError, ValueError) as problem:
            raise Lost(f"the replica at {member.address} did not answer: {problem}") from None

    async def locate(self, member: Member, path: str, principal: Principal) -> tuple[int, str] | None:
        """The epoch and address of the owner of a path, according to a member; None if it does not answer."""
        vouched = self._vouch(member, principal, "GET", path)
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
        vouched = self._vouch(member, principal, "GET", path)
        client, address = self._client(member)
        try:
            async with asyncio.timeout(within), client.get(f"{address}{path}", headers=vouched) as response:
                return await response.json() if response.status == 200 else None
        except (aiohttp.ClientError, OSError, ValueError):  # including TimeoutError
            return None

    async def close(self) -> None:
        for session in self._sessions.values():
            await session.close()

    def _vouch(
        self, member: Member, principal: Principal, method: str, path: str, body: bytes = b""
    ) -> Mapping[str, str]:
        statement = self._statements.make(member.id, principal, method, path.partition("?")[0], body)
        return {PEER.decode(): statement}

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
