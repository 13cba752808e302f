"""Builds requests to an authorization server and parses its answers. Sans I/O.

A client authenticates as the server allows: by secret in a header or the body, by a signed assertion, or not at all.
"""

import base64
import hashlib
import secrets
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from msgspec import Struct
from msgspec.structs import replace

from wicket_mcp.errors import SignInFailed
from wicket_mcp.identity.oauth.discovery import Issuer
from wicket_mcp.model import JsonObject, as_text
from wicket_mcp.telemetry.log import clean

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105  (a name, not a secret)
_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_ASSERTION_LIFE = 300
_SAID = 200
_LONGEST = 10 * 365 * 86400.0
"""Seconds that we believe a token lasts at most: a number beyond all bounds could not be stored."""


class Client(Struct, frozen=True, kw_only=True):
    """Our client at one authorization server."""

    issuer: str
    client_id: str
    client_secret: str = ""
    auth_method: str = ""
    private_key: str = ""
    algorithm: str = ""
    redirect_uri: str = ""
    expires_at: float = 0.0
    """When its secret ends; 0 if it does not."""

    def __repr__(self) -> str:
        return f"<Client at {self.issuer}>"


class Grant(Struct, frozen=True, kw_only=True):
    """The result of a sign-in: stored in the vault, one for each owner and server."""

    url: str
    """The server that it was created for: it is never sent to another."""
    resource: str
    client: Client
    token_endpoint: str
    access_token: str = ""
    token_type: str = "Bearer"  # noqa: S105  (a name, not a secret)
    expires_at: float | None = None
    lasts: float = 0.0
    """The token's lifetime in seconds."""
    refresh_token: str = ""
    scope: str = ""
    """The requested scopes, so that they are requested again the next time."""
    version: str = ""
    """The version of the sign-in: renewing does not change it."""
    dpop_key: str = ""

    def __repr__(self) -> str:
        return f"<Grant {self.version}>"

    def expires_within(self, seconds: float) -> bool:
        """Whether it ends within this time; for a short-lived token, whether less than a quarter of its life is
        left.
        """
        ahead = min(seconds, self.lasts / 4)
        return self.expires_at is not None and time.time() + ahead >= self.expires_at


ENDED = ("invalid_grant", "bad_refresh_token")
"""The errors of a server at which the sign-in has ended; the second is GitHub's."""
UNKNOWN_CLIENT = ("invalid_client", "unauthorized_client")
"""The errors of a server that has forgotten our registration."""


class TokenRefused(Exception):
    """The token endpoint's own error."""

    def __init__(self, error: str, description: str = "") -> None:
        super().__init__(f"{error}: {description}" if description else error)
        self.error = error


@dataclass(frozen=True, slots=True)
class Authorization:
    """A request that a browser takes to the authorization server, and the values that its answer must match."""

    url: str
    state: str
    verifier: str
    redirect_uri: str


def authorization(issuer: Issuer, client: Client, resource: str, scope: str, redirect_uri: str) -> Authorization:
    """The address to open, with PKCE."""
    verifier, state = secrets.token_urlsafe(48), secrets.token_urlsafe(32)
    digest = hashlib.sha256(verifier.encode()).digest()
    query = {
        "response_type": "code",
        "client_id": client.client_id,
        "redirect_uri": redirect_uri,
        "state": state,
        "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
        "code_challenge_method": "S256",
        "resource": resource,
        **({"scope": scope} if scope else {}),
    }
    joint = "&" if urlsplit(issuer.authorization_endpoint).query else "?"
    return Authorization(f"{issuer.authorization_endpoint}{joint}{urlencode(query)}", state, verifier, redirect_uri)


def read_redirect(server: str, issuer: Issuer, query: dict[str, str]) -> str:
    """The code from a redirect. Raises SignInFailed, also for an error sent by someone else."""
    named = query.get("iss")
    if (named is None and issuer.names_itself) or (named is not None and named != issuer.issuer):
        raise SignInFailed(
            server,
            f"The answer to the sign-in at '{server}' did not come from the authorization server that was asked.",
            hint="It was not used. Sign in again; if it happens again, tell the server's operator.",
        )
    if error := query.get("error"):
        detail = query.get("error_description", "")
        raise SignInFailed(
            server,
            f"Signing in to '{server}' was refused: {clean(f'{error}: {detail}' if detail else error, _SAID)}.",
            hint="Sign in again, and allow it.",
        )
    if not query.get("code"):
        raise SignInFailed(server, f"The answer to the sign-in at '{server}' has no code.", hint="Sign in again.")
    return query["code"]


def registration(redirect_uri: str, auth_methods: tuple[str, ...]) -> JsonObject:
    """Our registration request to an authorization server.

    Without scopes: some servers accept only their own scopes here, and more may be requested later.
    """
    method = "none" if not auth_methods or "none" in auth_methods else preferred_method(auth_methods)
    return describe(redirect_uri, method)


def describe(redirect_uri: str, method: str = "none") -> JsonObject:
    """Our client metadata, for registration and for the document at our address."""
    return {
        "client_name": "Wicket",
        "client_uri": "https://pypi.org/project/wicket-mcp/",
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
        "application_type": "web" if redirect_uri.startswith("https://") else "native",
    }


def read_registration(server: str, issuer: Issuer, redirect_uri: str, document: JsonObject) -> Client:
    """Raises SignInFailed."""
    client_id = as_text(document.get("client_id"))
    if not client_id:
        raise SignInFailed(server, f"The authorization server of '{server}' registered us without a client id.")
    secret = as_text(document.get("client_secret"))
    end = document.get("client_secret_expires_at")
    preferred = as_text(document.get("token_endpoint_auth_method"))
    method = preferred if preferred in _METHODS else "" if secret else "none"
    return Client(
        issuer=issuer.issuer,
        client_id=client_id,
        client_secret=secret,
        auth_method=method or preferred_method(issuer.auth_methods),
        redirect_uri=redirect_uri,
        expires_at=float(end) if secret and isinstance(end, int | float) and 0 < end < _LATEST else 0.0,
    )


_LATEST = 1e11
_METHODS = ("client_secret_basic", "client_secret_post", "none", "private_key_jwt")


def preferred_method(offered: tuple[str, ...]) -> str:
    """How to send a client's secret; every server must support basic (RFC 6749)."""
    return next((method for method in _METHODS[:2] if method in offered), _METHODS[0])


def authenticate(client: Client, audience: str, form: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The headers and the form of a token request by `client`."""
    if client.private_key:
        claims = {"iss": client.client_id, "sub": client.client_id, "aud": audience}
        assertion = sign({"alg": client.algorithm}, claims, client.private_key)
        form = {**form, "client_assertion_type": _ASSERTION, "client_assertion": assertion}
        return {}, {"client_id": client.client_id, **form}
    if client.auth_method == "client_secret_basic" and client.client_secret:
        pair = f"{quote(client.client_id, safe='')}:{quote(client.client_secret, safe='')}"
        return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}, form
    form = {**form, "client_id": client.client_id} if client.client_id else form
    if client.auth_method == "client_secret_post" and client.client_secret:
        form = {**form, "client_secret": client.client_secret}
    return {}, form


def sign(header: JsonObject, claims: JsonObject, pem: str) -> str:
    """A short-lived JWT with these claims. Raises ValueError if the key does not fit."""
    from joserfc import jwk, jwt  # noqa: PLC0415  (cryptography takes 70 ms to load, and few servers want this)

    algorithm = str(header["alg"])
    key = jwk.ECKey.import_key(pem) if algorithm.startswith("ES") else jwk.RSAKey.import_key(pem)
    now = int(time.time())
    times = {"iat": now, "exp": now + _ASSERTION_LIFE, "jti": secrets.token_urlsafe(16)}
    return jwt.encode(header, {**claims, **times}, key, algorithms=[algorithm])


def read_token(grant: Grant, document: JsonObject) -> Grant:
    """The grant with the token endpoint's answer. Raises ValueError if that is not a token."""
    token, kind = as_text(document.get("access_token")), as_text(document.get("token_type", "bearer"))
    if not token or not token.isascii() or not token.isprintable() or kind.lower() not in ("bearer", "dpop", "n_a"):
        raise ValueError("no usable access token")
    if kind.lower() == "dpop" and not grant.dpop_key:
        raise ValueError("bound to a key that is not ours")
    lasts: Any = document.get("expires_in")
    number = float(lasts) if isinstance(lasts, int | float | str) and str(lasts).replace(".", "", 1).isdigit() else None
    number = None if number is None else min(number, _LONGEST)
    return replace(
        grant,
        access_token=token,
        token_type="DPoP" if kind.lower() == "dpop" else "Bearer",
        expires_at=None if number is None else time.time() + number,
        lasts=number or 0.0,
        refresh_token=as_text(document.get("refresh_token")) or grant.refresh_token,
    )


def read_error(document: JsonObject) -> TokenRefused | None:
    """The error that an answer names, whatever its status: GitHub refuses with 200."""
    error = as_text(document.get("error"))
    if not error or document.get("access_token"):
        return None
    return TokenRefused(clean(error, 80), clean(as_text(document.get("error_description")), _SAID))
