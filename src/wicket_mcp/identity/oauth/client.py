"""Talks to authorization servers: fetches metadata, registers, gets tokens. Answers are limited in size and checked.

Addresses come from servers, so the egress rules apply if the server itself is reached over https: then no metadata can
send us into the local network. `discovery.py` and `messages.py` decide, this module sends.
"""

import asyncio
from typing import Any
from urllib.parse import urlencode, urlsplit

from wicket_mcp.codec import decode, encode
from wicket_mcp.errors import Denied, SignInFailed, UpstreamError
from wicket_mcp.identity.oauth.discovery import (
    Issuer,
    Resource,
    is_safe,
    issuer_candidates,
    origin_of,
    read_issuer,
    read_resource,
    resource_candidates,
)
from wicket_mcp.identity.oauth.messages import (
    Client,
    Grant,
    TokenRefused,
    authenticate,
    read_error,
    read_registration,
    read_token,
    registration,
)
from wicket_mcp.model import JsonObject, as_object
from wicket_mcp.upstream.credentials import Challenge
from wicket_mcp.upstream.egress import Endpoint, HttpClient
from wicket_mcp.upstream.egress_rules import EgressRules

TIMEOUT = 20.0
LARGEST = 256 * 1024
_PING = encode({"jsonrpc": "2.0", "id": 1, "method": "ping"})
_JSON = {"Accept": "application/json", "User-Agent": "wicket"}


class OAuthClient:
    """The requests to authorization servers on behalf of one server behind us."""

    def __init__(self, server: str, url: str, trusted: tuple[str, ...] = (), timeout: float = TIMEOUT) -> None:
        """`trusted` are addresses from the configuration, which may be reached anywhere."""
        self.server = server
        self.url = url
        self.encrypted = urlsplit(url).scheme == "https"
        hosts = [urlsplit(address).hostname or "" for address in (url, *trusted)]
        self._http = HttpClient(rules=EgressRules([host for host in hosts if host]) if self.encrypted else None)
        self._timeout = timeout
        self.nonce = ""
        """The last nonce for a proof of possession from the token endpoint."""

    async def close(self) -> None:
        await self._http.close()

    async def probe(self) -> Challenge:
        """What the server asks for if a request has no token; an empty challenge if it cannot be asked."""
        headers = {**_JSON, "Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        try:
            async with asyncio.timeout(self._timeout):
                answer = await self._http.send("POST", Endpoint.of(self.server, self.url, {}), headers, _PING)
                answer.close()
        except (TimeoutError, UpstreamError, Denied):
            return Challenge()
        return Challenge.read(answer.challenges) if answer.status in (401, 403) else Challenge()

    async def discover(self, challenge: Challenge, issuer_name: str = "") -> tuple[Resource, Issuer]:
        """Find the authorization server that protects the server. Raises SignInFailed."""
        resource = await self._find_resource(challenge.resource_metadata, issuer_name)
        for address in issuer_candidates(resource.issuer):
            document = await self._fetch(address)
            if document is not None:
                return resource, read_issuer(self.server, resource.issuer, document, encrypted=self.encrypted)
        raise SignInFailed(
            self.server,
            f"Server '{self.server}' asks for a token, but nothing says where to sign in for one.",
            hint="It may want a key: put it into the server's 'headers', as its documentation says.",
        )

    async def register(self, issuer: Issuer, redirect_uri: str) -> Client:
        """Register as a new client. Raises SignInFailed."""
        if not issuer.registration_endpoint:
            raise SignInFailed(
                self.server,
                f"The authorization server of '{self.server}' registers no clients by itself.",
                hint="Register Wicket there by hand, and set auth.client_id (and auth.client_secret).",
            )
        body = encode(registration(redirect_uri, issuer.auth_methods))
        headers = {**_JSON, "Content-Type": "application/json"}
        status, document = await self._send("POST", issuer.registration_endpoint, headers, body)
        if status not in (200, 201) or document is None:
            reason = read_error(document or {})
            raise SignInFailed(
                self.server,
                f"The authorization server of '{self.server}' did not register us{f': {reason}' if reason else ''}.",
                hint="Register Wicket there by hand, and set auth.client_id (and auth.client_secret).",
            )
        return read_registration(self.server, issuer, redirect_uri, document)

    async def token(self, grant: Grant, form: dict[str, str]) -> Grant:
        """The grant with the token that `form` requests. Raises TokenRefused and SignInFailed."""
        document = await self.exchange(grant.token_endpoint, grant.client, form, grant.dpop_key)
        try:
            return read_token(grant, document)
        except ValueError:
            raise self._no_token() from None

    async def exchange(self, endpoint: str, client: Client, form: dict[str, str], dpop_key: str = "") -> JsonObject:
        """The token endpoint's answer. Raises TokenRefused and SignInFailed."""
        try:
            own, form = authenticate(client, client.issuer or endpoint, form)
        except ValueError as problem:
            raise SignInFailed(
                self.server,
                f"The private key for '{self.server}' cannot sign: {problem}.",
                hint="Check auth.algorithm.",
            ) from None
        headers = {**_JSON, **own, "Content-Type": "application/x-www-form-urlencoded"}
        body = urlencode(form).encode()
        for attempt in (1, 2):
            if dpop_key:
                headers["DPoP"] = _proof(dpop_key, endpoint, self.nonce)
            status, document = await self._send("POST", endpoint, headers, body)
            refused = read_error(document or {})
            if refused is not None and refused.error == "use_dpop_nonce" and dpop_key and attempt == 1:
                continue
            if refused is not None:
                raise refused
            if status != 200 or document is None:
                raise self._no_token()
            return document
        raise AssertionError("unreachable: the second attempt returns or raises")

    async def _find_resource(self, announced: str, issuer_name: str) -> Resource:
        if announced and not is_safe(announced, encrypted=self.encrypted):
            announced = ""
        for address in resource_candidates(self.url, announced):
            document = await self._fetch(address)
            if document is not None:
                return read_resource(self.server, self.url, document, issuer_name)
        # Before 2025-06-18 a server was its own authorization server.
        return Resource(self.url, issuer_name or origin_of(self.url))

    async def _fetch(self, address: str) -> JsonObject | None:
        """A metadata document; None if it does not exist."""
        status, document = await self._send("GET", address, _JSON, None)
        if status >= 500:
            raise SignInFailed(
                self.server,
                f"Where to sign in to '{self.server}' could not be found out: HTTP {status}.",
                hint="Try again later.",
            )
        return document if status == 200 else None

    async def _send(
        self, verb: str, address: str, headers: dict[str, str], body: bytes | None
    ) -> tuple[int, JsonObject | None]:
        """Status and JSON object of an answer; None for any other body. Raises SignInFailed."""
        endpoint = Endpoint.of(self.server, address, {})
        try:
            async with asyncio.timeout(self._timeout):
                answer = await self._http.send(verb, endpoint, headers, body)
                self.nonce = answer.header("DPoP-Nonce") or self.nonce
                try:
                    data = await answer.body(LARGEST)
                finally:
                    answer.close()
        except TimeoutError:
            raise self._unreachable(endpoint, f"did not answer within {self._timeout:g} s") from None
        except (UpstreamError, Denied) as problem:
            raise self._unreachable(endpoint, f"cannot be asked ({problem.message})") from None
        try:
            document: Any = decode(data)
        except ValueError:
            return answer.status, None
        return answer.status, as_object(document) or None

    def _unreachable(self, endpoint: Endpoint, fault: str) -> SignInFailed:
        text = f"The authorization server of '{self.server}' at {endpoint.shown} {fault}."
        return SignInFailed(self.server, text, hint="Try again later. If it is a server of your own, set auth.issuer.")

    def _no_token(self) -> SignInFailed:
        text = f"The authorization server of '{self.server}' answered without a token."
        return SignInFailed(self.server, text, hint="Try again later; if it persists, tell its operator.")


def _proof(key: str, endpoint: str, nonce: str) -> str:
    from wicket_mcp.identity.oauth.dpop import proof  # noqa: PLC0415  (few servers want it, and it loads cryptography)

    return proof(key, "POST", endpoint, nonce=nonce)


__all__ = ["OAuthClient", "TokenRefused"]
