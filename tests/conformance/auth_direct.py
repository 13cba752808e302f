"""The client that Wicket is compared with in the suite's `auth/*` scenarios: the SDK's own, which signs in by itself.

    python -m tests.conformance.auth_direct URL      the suite appends the URL and names the scenario

The SDK chooses what it sends; here is only what its user would bring: a browser that follows redirects, and what the
scenario tells beforehand. The SDK has no workload identity and no DPoP, and signs in there as it does elsewhere.
"""

import asyncio
import os
import sys
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
import httpx2
from mcp import Client, MCPError
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.auth.extensions.identity_assertion import IdentityAssertionOAuthProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from tests.conformance.auth import DOCUMENT
from wicket_mcp.codec import decode
from wicket_mcp.model import LEGACY_VERSIONS, as_object

RETURN = AnyUrl("http://localhost:3000/callback")


class Person:
    """Keeps what the client is given, and allows everything on the page that it opens."""

    def __init__(self, client: OAuthClientInformationFull | None = None) -> None:
        self._tokens: OAuthToken | None = None
        self._client = client
        self._answer: dict[str, list[str]] = {}

    async def get_tokens(self) -> OAuthToken | None:
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._client = client_info

    async def visit(self, address: str) -> None:
        async with aiohttp.ClientSession() as browser, browser.get(address, allow_redirects=False) as page:
            self._answer = parse_qs(urlsplit(page.headers["Location"]).query)

    async def come_back(self) -> AuthorizationCodeResult:
        code, state, issuer = (self._answer.get(name, [None])[0] for name in ("code", "state", "iss"))
        assert code is not None, self._answer
        return AuthorizationCodeResult(code=code, state=state, iss=issuer)


def code_flow(url: str, context: dict[str, Any]) -> OAuthClientProvider:
    known = None
    if "client_id" in context:
        secret = context.get("client_secret")
        method = "client_secret_basic" if secret else "none"
        known = OAuthClientInformationFull(
            client_id=context["client_id"],
            client_secret=secret,
            redirect_uris=[RETURN],
            token_endpoint_auth_method=method,
        )
    person = Person(known)
    described = OAuthClientMetadata(client_name="the SDK's client", redirect_uris=[RETURN])
    return OAuthClientProvider(url, described, person, person.visit, person.come_back, client_metadata_url=DOCUMENT)


async def id_jag(url: str, context: dict[str, Any]) -> IdentityAssertionOAuthProvider:
    """The SDK wants to be told the issuer; the metadata of the scenario's server names it."""
    origin = "{0.scheme}://{0.netloc}".format(urlsplit(url))

    async def assertion(audience: str, resource: str) -> str:
        form = {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "requested_token_type": "urn:ietf:params:oauth:token-type:id-jag",
            "subject_token": context["idp_id_token"],
            "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
            "audience": audience,
            "resource": resource,
            "client_id": context["idp_client_id"],
        }
        async with aiohttp.ClientSession() as session, session.post(context["idp_token_endpoint"], data=form) as answer:
            return as_object(await answer.json())["access_token"]

    metadata = f"{origin}/.well-known/oauth-protected-resource{urlsplit(url).path}"
    async with aiohttp.ClientSession() as session, session.get(metadata) as answer:
        issuer = as_object(await answer.json())["authorization_servers"][0]
    ours = {"client_id": context["client_id"], "client_secret": context["client_secret"], "issuer": issuer}
    return IdentityAssertionOAuthProvider(
        url, Person(), assertion_provider=assertion, token_endpoint_auth_method="client_secret_basic", **ours
    )


async def provider(scenario: str, url: str, context: dict[str, Any]) -> httpx2.Auth:
    """How the SDK signs in."""
    match scenario:
        case "auth/client-credentials-jwt":
            ours = context["client_id"]
            signed = SignedJWTParameters(
                issuer=ours,
                subject=ours,
                signing_algorithm=context["signing_algorithm"],
                signing_key=context["private_key_pem"],
            )
            return PrivateKeyJWTOAuthProvider(url, Person(), ours, signed.create_assertion_provider())
        case "auth/client-credentials-basic":
            return ClientCredentialsOAuthProvider(url, Person(), context["client_id"], context["client_secret"])
        case "auth/enterprise-managed-authorization":
            return await id_jag(url, context)
        case _:
            return code_flow(url, context)


def command() -> str:
    """What the suite is to start."""
    return f"{sys.executable} -m tests.conformance.auth_direct"


async def main(url: str) -> None:
    legacy = os.environ["MCP_CONFORMANCE_PROTOCOL_VERSION"] in LEGACY_VERSIONS
    context = as_object(decode(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}"))
    sign_in = await provider(os.environ["MCP_CONFORMANCE_SCENARIO"], url, context)
    async with create_mcp_http_client(auth=sign_in) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode="legacy" if legacy else "auto") as client:
            for tool in (await client.list_tools()).tools:
                with suppress(MCPError):  # some servers refuse for ever, to see when the client gives up
                    await client.call_tool(tool.name, {})


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1]))
