"""Signing in with an OpenID provider at our own authorization server: we are the provider's client.

On the consent page, a user may sign in with a configured issuer (`http.issuers` with a `client_id`) instead of a token.
Their consent waits (`waiting.py`) for ten minutes, for the same browser, until the provider sends it back, to any of
our processes. Code with PKCE, `state`, `nonce` and `iss` are checked, then the ID token. Of the provider's answer only
the claims are stored (`people.py`). `surface/authorization.py` is the HTTP side.
"""

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Collection, Mapping, Sequence
from urllib.parse import urlencode, urlsplit

from msgspec import Struct, convert, to_builtins

from wicket_mcp.config.model.sign_in import IssuerConfig
from wicket_mcp.errors import WicketError
from wicket_mcp.identity.claims import InvalidToken
from wicket_mcp.identity.documents import Documents
from wicket_mcp.identity.grants import AuthorizationRequest, OAuthError
from wicket_mcp.identity.jwks import read_metadata
from wicket_mcp.identity.oauth.discovery import is_safe
from wicket_mcp.identity.oauth.messages import Client, authenticate, preferred_method
from wicket_mcp.identity.tokens import Issuer
from wicket_mcp.identity.waiting import Waiting
from wicket_mcp.model import JsonObject, as_list, as_text
from wicket_mcp.telemetry.log import clean

LIFE = 600.0
_KIND = "visit"
_SCOPES = ("openid", "profile", "email", "groups")


class Visit(Struct, frozen=True):
    """A user is at a provider; their consent waits meanwhile."""

    issuer: str
    request: AuthorizationRequest
    mark: bytes
    scopes: tuple[str, ...]
    redirect_uri: str
    token_endpoint: str
    names_itself: bool
    """Whether every redirect of the provider carries `iss`."""
    method: str
    """How the token endpoint expects our secret."""
    state: str
    browser: str
    """The browser's secret, which it must bring back."""
    verifier: str
    nonce: str

    def __repr__(self) -> str:
        return f"<Visit to {self.issuer}>"


class VisitFailed(OAuthError):
    """The sign-in failed; the waiting client is told."""

    def __init__(self, visit: Visit, words: str, code: str = "access_denied") -> None:
        super().__init__(code, words)
        self.visit = visit


class Providers:
    """The issuers that people may sign in with."""

    def __init__(self, issuers: Sequence[Issuer], documents: Documents, waiting: Waiting) -> None:
        self._issuers = {issuer.config.issuer: issuer for issuer in issuers if issuer.config.client_id}
        self._documents = documents
        self._waiting = waiting

    @property
    def offered(self) -> Sequence[tuple[str, str]]:
        """The issuers, each with its display name."""
        return [(issuer, urlsplit(issuer).netloc) for issuer in self._issuers]

    async def begin(
        self, issuer: str, request: AuthorizationRequest, mark: bytes, scopes: Collection[str], redirect_uri: str
    ) -> tuple[str, Visit]:
        """The provider's address to send the browser to. Raises OAuthError."""
        known = self._issuers.get(issuer)
        if known is None:
            raise OAuthError("invalid_request", "That provider is not offered here.")
        name = urlsplit(issuer).netloc
        try:
            metadata = await read_metadata(issuer, self._documents)
        except WicketError as problem:
            raise OAuthError("temporarily_unavailable", f"{name} cannot be asked now: {problem.message}") from None
        page, endpoint = as_text(metadata.get("authorization_endpoint")), as_text(metadata.get("token_endpoint"))
        encrypted = urlsplit(issuer).scheme == "https"
        if not is_safe(page, encrypted=encrypted) or not is_safe(endpoint, encrypted=encrypted):
            raise OAuthError("temporarily_unavailable", f"{name} does not say where people sign in.")
        methods = tuple(as_text(text) for text in as_list(metadata.get("token_endpoint_auth_methods_supported")))
        visit = Visit(
            issuer,
            request,
            mark,
            tuple(scopes),
            redirect_uri,
            endpoint,
            metadata.get("authorization_response_iss_parameter_supported") is True,
            preferred_method(methods) if known.secret else "none",
            state=secrets.token_urlsafe(32),
            browser=secrets.token_urlsafe(32),
            verifier=secrets.token_urlsafe(48),
            nonce=secrets.token_urlsafe(32),
        )
        await self._waiting.put(_KIND, visit.state, to_builtins(visit), LIFE)
        joint = "&" if urlsplit(page).query else "?"
        return f"{page}{joint}{urlencode(_question(visit, known.config, metadata))}", visit

    async def finish(self, query: Mapping[str, str], browser: str) -> tuple[Visit, IssuerConfig, JsonObject]:
        """The consent, and the provider's claims about the user. Raises OAuthError."""
        content = await self._waiting.take(_KIND, query.get("state", ""))
        visit = None if content is None else convert(content, Visit)
        issuer = None if visit is None else self._issuers.get(visit.issuer)
        if visit is None or issuer is None:
            raise OAuthError("invalid_request", "This sign-in is unknown, has expired or was used already.")
        if not hmac.compare_digest(visit.browser.encode(), browser.encode()):
            raise OAuthError("invalid_request", "This sign-in was begun in another browser.")
        named = query.get("iss")
        if named != visit.issuer and (named is not None or visit.names_itself):
            raise OAuthError("invalid_request", "This answer did not come from the provider that was asked.")
        name = urlsplit(visit.issuer).netloc
        if "error" in query or not query.get("code"):
            reason = query.get("error_description") or query.get("error") or "no code came"
            raise VisitFailed(visit, f"{name} did not sign you in: {clean(reason, 200)}.")
        try:
            return visit, issuer.config, await self._claims(visit, issuer, query["code"])
        except InvalidToken as problem:
            raise VisitFailed(visit, f"What {name} says about you does not count: {problem}.") from None
        except WicketError as problem:
            words = f"{name} could not be asked who you are: {problem.message}"
            raise VisitFailed(visit, words, "temporarily_unavailable") from None

    async def _claims(self, visit: Visit, issuer: Issuer, code: str) -> JsonObject:
        """The claims of the ID token for a code. Raises InvalidToken and WicketError."""
        client = Client(
            issuer=visit.issuer,
            client_id=issuer.config.client_id,
            client_secret=issuer.secret,
            auth_method=visit.method,
        )
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": visit.redirect_uri,
            "code_verifier": visit.verifier,
        }
        headers, form = authenticate(client, visit.issuer, form)
        answer = await self._documents.post(visit.token_endpoint, form, headers)
        return await issuer.read_id_token(as_text(answer.get("id_token")), visit.nonce, time.time())


def _question(visit: Visit, issuer: IssuerConfig, metadata: JsonObject) -> dict[str, str]:
    """The authorization request to the provider, with the scopes that it lists."""
    listed = as_list(metadata.get("scopes_supported")) or _SCOPES[:3]
    digest = hashlib.sha256(visit.verifier.encode()).digest()
    return {
        "response_type": "code",
        "client_id": issuer.client_id,
        "redirect_uri": visit.redirect_uri,
        "scope": " ".join(scope for scope in _SCOPES if scope in listed or scope == "openid"),
        "state": visit.state,
        "nonce": visit.nonce,
        "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
        "code_challenge_method": "S256",
    }
