"""Tokens without a person: client credentials, token exchange, an identity provider's assertion, workload identity.

Each token is requested when the server rejects a request, kept in memory while it is valid, and then requested again.
"""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from wicket_mcp.config.model.auth import AuthConfig
from wicket_mcp.errors import SignInFailed
from wicket_mcp.identity.oauth.client import OAuthClient
from wicket_mcp.identity.oauth.discovery import Issuer, Resource, choose_scopes
from wicket_mcp.identity.oauth.messages import (
    JWT_BEARER,
    TOKEN_EXCHANGE,
    Client,
    Grant,
    TokenRefused,
    preferred_method,
)
from wicket_mcp.model import as_text
from wicket_mcp.upstream.credentials import Challenge

_ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105  (names, not secrets)
_ID_TOKEN = "urn:ietf:params:oauth:token-type:id_token"  # noqa: S105
_ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"


Check: TypeAlias = Callable[[AuthConfig, str], Awaitable[None]]
"""Raises SignInFailed if what the section holds was used at another issuer than this one before."""


async def obtain(oauth: OAuthClient, auth: AuthConfig, challenge: Challenge, check_issuer: Check) -> Grant:
    """A token for a machine, as `auth` configures. Raises SignInFailed."""
    resource, issuer = await oauth.discover(challenge, auth.issuer)
    await check_issuer(auth, issuer.issuer)
    client = _client(auth, issuer)
    scope = choose_scopes(challenge.scope, resource, Issuer(issuer.issuer, issuer.token_endpoint), auth.scopes, "")
    grant = Grant(
        url=oauth.url,
        resource=resource.resource,
        client=client,
        token_endpoint=issuer.token_endpoint,
        scope=scope,
        dpop_key=new_dpop_key(challenge, issuer),
    )
    try:
        form = await _form(oauth, auth, resource, issuer)
        return await oauth.token(grant, {**form, **({"scope": scope} if scope else {})})
    except TokenRefused as refused:
        raise SignInFailed(
            oauth.server,
            f"The authorization server of '{oauth.server}' refused a token: {refused}.",
            hint="Check the options in its auth section.",
        ) from None


async def _form(oauth: OAuthClient, auth: AuthConfig, resource: Resource, issuer: Issuer) -> dict[str, str]:
    match auth.kind:
        case "token_exchange":
            return {
                "grant_type": TOKEN_EXCHANGE,
                "subject_token": auth.subject_token,
                "subject_token_type": _ACCESS_TOKEN,
                "resource": resource.resource,
            }
        case "id_jag":
            return {"grant_type": JWT_BEARER, "assertion": await _id_jag(oauth, auth, resource, issuer)}
        case "workload":
            return {"grant_type": JWT_BEARER, "assertion": auth.subject_token, "resource": resource.resource}
        case _:
            return {"grant_type": "client_credentials", "resource": resource.resource}


async def _id_jag(oauth: OAuthClient, auth: AuthConfig, resource: Resource, issuer: Issuer) -> str:
    """The identity provider's assertion that the user may use this server. Raises TokenRefused and SignInFailed."""
    us = Client(
        issuer="",
        client_id=auth.idp_client_id,
        client_secret=auth.idp_client_secret,
        auth_method="client_secret_basic" if auth.idp_client_secret else "none",
    )
    form = {
        "grant_type": TOKEN_EXCHANGE,
        "subject_token": auth.subject_token,
        "subject_token_type": _ID_TOKEN,
        "requested_token_type": _ID_JAG,
        "audience": issuer.issuer,
        "resource": resource.resource,
    }
    document = await oauth.exchange(auth.idp, us, form)
    assertion = as_text(document.get("access_token"))
    if not assertion or document.get("issued_token_type") != _ID_JAG:
        raise SignInFailed(oauth.server, f"The identity provider gave no assertion for '{oauth.server}'.")
    return assertion


def _client(auth: AuthConfig, issuer: Issuer) -> Client:
    return configured_client(auth, issuer) or Client(issuer=issuer.issuer, client_id="", auth_method="none")


def new_dpop_key(challenge: Challenge, issuer: Issuer) -> str:
    """A key to bind a token to; empty if the server does not ask for that, or the issuer does not offer it."""
    if not challenge.dpop:
        return ""
    from wicket_mcp.identity.oauth.dpop import ALGORITHM, new_key  # noqa: PLC0415  (loads cryptography)

    return new_key() if ALGORITHM in issuer.dpop_algorithms else ""


def configured_client(auth: AuthConfig, issuer: Issuer) -> Client | None:
    """The client that the user registered by hand."""
    if not auth.client_id:
        return None
    return Client(
        issuer=issuer.issuer,
        client_id=auth.client_id,
        client_secret=auth.client_secret,
        auth_method=preferred_method(issuer.auth_methods) if auth.client_secret else "none",
        private_key=auth.private_key,
        algorithm=auth.algorithm if auth.private_key else "",
    )
