"""JSON documents of identity providers and clients, read over HTTP under the egress rules, within seconds.

A document is limited in size and time and must be a JSON object. Knows nothing about its content.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, cast
from urllib.parse import urlencode, urlsplit

from wicket_mcp.codec import decode
from wicket_mcp.errors import Denied, Unavailable, WicketError
from wicket_mcp.model import JsonObject
from wicket_mcp.telemetry.redact import mask_url
from wicket_mcp.upstream.egress import Endpoint, HttpClient
from wicket_mcp.upstream.egress_rules import EgressRules

TIMEOUT = 5.0
MAX_SIZE = 256 * 1024


class Unreadable(Unavailable):
    """A document that could not be fetched or is invalid. `status` is the HTTP status, if there was one."""

    def __init__(self, url: str, reason: str, status: int = 0) -> None:
        super().__init__("identity", f"{mask_url(url)} {reason}.", hint="Try again later.")
        self.status = status


class Documents:
    """`allowed`: addresses, networks and host names that may be reached in addition to public ones."""

    def __init__(self, allowed: Iterable[str] = (), timeout: float = TIMEOUT) -> None:
        self._client = HttpClient(rules=EgressRules(allowed))
        self._timeout = timeout

    async def get(self, url: str) -> JsonObject:
        """Raises Unreadable."""
        return await self._ask("GET", url, {})

    async def post(self, url: str, fields: Mapping[str, str], headers: Mapping[str, str]) -> JsonObject:
        """Send a form. Raises Unreadable."""
        form = {"Content-Type": "application/x-www-form-urlencoded", **headers}
        return await self._ask("POST", url, form, urlencode(fields).encode())

    async def close(self) -> None:
        await self._client.close()

    async def _ask(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None) -> JsonObject:
        endpoint = Endpoint.of("identity", url, headers)
        try:
            async with asyncio.timeout(self._timeout):
                answer = await self._client.send(method, endpoint, {"Accept": "application/json", **headers}, body)
                try:
                    data = await answer.body(MAX_SIZE)
                finally:
                    answer.close()
        except TimeoutError:
            raise Unreadable(url, f"did not answer within {self._timeout:g} s") from None
        except Denied as problem:
            raise Unreadable(url, f"may not be reached: {problem.message.rstrip('.')}") from None
        except WicketError:
            raise Unreadable(url, "could not be reached") from None
        if answer.status != 200:
            raise Unreadable(url, f"answered HTTP {answer.status}", answer.status)
        try:
            value: Any = decode(data)
        except ValueError:
            raise Unreadable(url, "answered something that is not JSON") from None
        if not isinstance(value, dict):
            raise Unreadable(url, "answered JSON that is not an object")
        return cast("JsonObject", value)


def hosts_of(*urls: str | None) -> list[str]:
    """The host names of configured addresses: addresses that the owner configured may be reached anywhere."""
    return [host for url in urls if url and (host := urlsplit(url).hostname)]
