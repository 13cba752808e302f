"""Our own authorization server, without HTTP: approved grants, and their codes and tokens.

A grant is one person's consent to one client. Its tokens are one family: access tokens for 15 minutes, one refresh
token at a time; a code or refresh token that is used a second time ends all of them. All secrets are random and stored
as digests, and a revoked grant ends at once, in every process. `surface/authorization.py` is the HTTP side.
"""

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from msgspec.structs import replace

from wicket_mcp.codec import decode, encode
from wicket_mcp.config.model.sign_in import IssuerConfig
from wicket_mcp.errors import UnknownName
from wicket_mcp.identity.claims import InvalidToken
from wicket_mcp.model import JsonObject, Principal
from wicket_mcp.sealing import Ring
from wicket_mcp.store.base import GrantStore
from wicket_mcp.store.model import StoredGrant, StoredTicket

ISSUER = "wicket"
ACCESS, REFRESH = "wa_", "wr_"
CODE_LIFE = 60.0
ACCESS_LIFE = 900.0
REFRESH_LIFE = 30 * 86400.0
REQUEST_LIFE = 600.0
SESSION_LIFE = 12 * 3600.0


class OAuthError(Exception):
    """An error of the protocol, with its code."""

    def __init__(self, code: str, words: str) -> None:
        super().__init__(words)
        self.code = code


class Holders(Protocol):
    """Who may approve: the owner with the gateway's token, others with an API key or by signing in with a provider."""

    async def check(self, credential: str) -> Principal | None: ...

    async def holder(self, digest: bytes) -> Principal | None:
        """The principal whose credential has this digest, if it is still valid."""
        ...

    async def remember(self, issuer: IssuerConfig, claims: Mapping[str, Any]) -> tuple[Principal, bytes]:
        """The principal who signed in with a provider, and the digest that represents them. Raises InvalidToken."""
        ...


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """A client's checked request, which waits for approval."""

    client: str
    client_name: str
    redirect_uri: str
    scopes: tuple[str, ...]
    state: str
    challenge: str


@dataclass(frozen=True, slots=True)
class Issued:
    """Tokens for a client."""

    access: str
    refresh: str
    scopes: frozenset[str]


class Grants:
    """All grants of this gateway. `on_act` is called for the audit."""

    def __init__(
        self,
        store: GrantStore,
        holders: Holders,
        on_act: Callable[[str, str, str], None],
        clock: Callable[[], float] = time.time,
        *,
        ring: Ring | None = None,
    ) -> None:
        """`ring` has the keys that replicas share, because another replica than the one that showed the consent page
        may get the answer.
        """
        self._store = store
        self._holders = holders
        self._on_act = on_act
        self._clock = clock
        self._ring = ring or Ring([secrets.token_bytes(32)])
        self._known: dict[bytes, tuple[Principal, float]] = {}
        self._version: int | None = None

    # Consent

    def seal(self, request: AuthorizationRequest, session: str) -> str:
        """The request in the form that the consent page carries: valid for ten minutes, for the browser that was shown
        the page.
        """
        r = request
        content = [r.client, r.client_name, r.redirect_uri, list(r.scopes), r.state, r.challenge]
        body = encode([content, secrets.token_hex(16), self._clock() + REQUEST_LIFE])
        return self._ring.seal("consent", body, session.encode("utf-8", "replace"))

    def open(self, sealed: str, session: str) -> tuple[AuthorizationRequest, bytes]:
        """Opens what `seal` sealed, with its mark. Raises OAuthError if it was changed, has expired or belongs to
        another browser.
        """
        body = self._ring.unseal("consent", sealed, session.encode("utf-8", "replace"))
        if body is None:
            raise OAuthError("invalid_request", "This page is not from here, or was opened in another browser.")
        content, mark, until = decode(body)
        if self._clock() >= until:
            raise OAuthError("invalid_request", "This page is more than ten minutes old.")
        client, name, redirect_uri, scopes, state, challenge = content
        return AuthorizationRequest(client, name, redirect_uri, tuple(scopes), state, challenge), mark.encode()

    async def sign_in(self, credential: str) -> tuple[Principal, bytes] | None:
        """The principal of this token or API key, and its digest."""
        principal = await self._holders.check(credential)
        return None if principal is None else (principal, digest_of(credential))

    async def welcome(self, issuer: IssuerConfig, claims: Mapping[str, Any]) -> tuple[Principal, bytes]:
        """The principal who signed in with a provider, and the digest of their credential. Raises InvalidToken."""
        holder = await self._holders.remember(issuer, claims)
        self._on_act(holder[0].name, "sign-in", f"{holder[0].label} ({holder[0].subject}) of {issuer.issuer}".strip())
        return holder

    def forget(self) -> None:
        """Look up every principal again: the configuration has changed."""
        self._known.clear()

    async def open_session(self, digest: bytes) -> str:
        """A secret for a browser's cookie, which represents a sign-in with that credential."""
        session = secrets.token_urlsafe(32)
        body = {"credential": digest.hex()}
        now = self._clock()
        await self._store.add_ticket(StoredTicket(digest_of(session), "session", "", body, now + SESSION_LIFE), now)
        return session

    async def session(self, session: str) -> tuple[Principal, bytes] | None:
        """The principal of this cookie, while the credential is valid."""
        ticket = await self._store.ticket(digest_of(session)) if session else None
        if ticket is None or ticket.kind != "session" or self._clock() >= ticket.expires_at:
            return None
        digest = bytes.fromhex(ticket.body["credential"])
        principal = await self._holders.holder(digest)
        return None if principal is None else (principal, digest)

    async def approve(
        self, request: AuthorizationRequest, mark: bytes, holder: tuple[Principal, bytes], scopes: Collection[str]
    ) -> str:
        """A code for the client. Raises OAuthError if the page was already used, or no scope remains."""
        principal, credential = holder
        allowed = frozenset(scope for scope in request.scopes if scope in scopes and principal.may(scope))
        if not allowed:
            raise OAuthError("access_denied", "None of what was asked for is allowed.")
        now = self._clock()
        if not await self._store.add_ticket(StoredTicket(digest_of(mark), "page", "", {}, now + REQUEST_LIFE), now):
            raise OAuthError("invalid_request", "This page was used already.")
        grant = StoredGrant(
            secrets.token_hex(6),
            request.client,
            request.client_name,
            principal.id,
            credential,
            allowed,
            now,
            now + REFRESH_LIFE,
        )
        await self._store.add_grant(grant)
        body = {"challenge": request.challenge, "redirect_uri": request.redirect_uri}
        self._on_act(principal.id, "grant", f"{request.client_name} ({request.client}): {' '.join(sorted(allowed))}")
        return await self._issue("", "code", grant.id, body, CODE_LIFE)

    # Tokens

    async def redeem(self, code: str, client: str, redirect_uri: str, verifier: str) -> Issued:
        """Tokens for a code. Raises OAuthError."""
        ticket, grant = await self._find(code, "code", client)
        problem = ""
        if redirect_uri and redirect_uri != ticket.body["redirect_uri"]:
            problem = "The redirect address is not the one that was approved."
        proof = _text(hashlib.sha256(verifier.encode("utf-8", "replace")).digest())
        if not 43 <= len(verifier) <= 128 or not hmac.compare_digest(proof, ticket.body["challenge"]):
            problem = problem or "The code verifier does not match."
        if problem:
            await self._use(ticket, grant)
            raise OAuthError("invalid_grant", problem)
        return await self._exchange(ticket, grant, grant.scopes)

    async def refresh(self, token: str, client: str, scopes: Collection[str]) -> Issued:
        """New tokens for a refresh token, which is used up by this. Raises OAuthError."""
        ticket, grant = await self._find(token, "refresh", client)
        if not grant.scopes.issuperset(scopes):
            raise OAuthError("invalid_scope", "More than was approved.")
        return await self._exchange(ticket, grant, frozenset(scopes) or grant.scopes)

    async def principal(self, token: str, base: str) -> Principal | None:
        """The principal of an access token; None if it is not ours. Raises InvalidToken if it has ended."""
        if not token.startswith(ACCESS):
            return None
        version = self._store.grants_version()
        if version is None or version != self._version:
            self._known.clear()
            self._version = version
        digest = digest_of(token)
        known = self._known.get(digest)
        if known is None:
            known = await self._lookup(digest)
            if known is not None and version is not None and version == self._version:
                self._known[digest] = known
        if known is None or self._clock() >= known[1]:
            raise InvalidToken("it has expired or was revoked")
        return known[0]

    async def _lookup(self, digest: bytes) -> tuple[Principal, float] | None:
        ticket = await self._store.ticket(digest)
        grant = await self._store.grant(ticket.grant) if ticket is not None and ticket.kind == "access" else None
        if ticket is None or grant is None or grant.revoked_at is not None:
            return None
        holder = await self._holders.holder(grant.credential)
        if holder is None:
            return None
        scopes = frozenset(scope for scope in ticket.body["scopes"] if scope in grant.scopes and holder.may(scope))
        issuer, subject = (holder.issuer, holder.subject) if holder.issuer else (ISSUER, holder.name)
        return replace(holder, scopes=scopes, issuer=issuer, subject=subject), ticket.expires_at

    # Grants

    async def list(self) -> Sequence[StoredGrant]:
        return await self._store.grants()

    async def revoke(self, grant_id: str, reason: str = "revoked", by: str = "local") -> StoredGrant:
        """End a grant and all its tokens at once. Raises UnknownName."""
        grant, now = await self._store.grant(grant_id), self._clock()
        if grant is None or not await self._store.revoke_grant(grant_id, now, reason):
            raise UnknownName("grant", grant_id, hint="See wicket grants list.")
        self._on_act(by, "revoke grant", f"{grant.client_name} ({grant_id}): {reason}")
        return replace(grant, revoked_at=now, reason=reason)

    async def revoke_token(self, token: str, client: str) -> None:
        """A client's request when its user signs out (RFC 7009): the whole grant ends."""
        ticket = await self._store.ticket(digest_of(token))
        grant = await self._store.grant(ticket.grant) if ticket is not None and ticket.grant else None
        if grant is not None and grant.client == client:
            with suppress(UnknownName):
                await self.revoke(grant.id, "the client signed out", grant.principal)

    async def _find(self, text: str, kind: str, client: str) -> tuple[StoredTicket, StoredGrant]:
        """A valid code or refresh token and its grant. Raises OAuthError; a replay ends the grant."""
        ticket = await self._store.ticket(digest_of(text))
        grant = await self._store.grant(ticket.grant) if ticket is not None and ticket.kind == kind else None
        if ticket is None or grant is None or grant.client != client or grant.revoked_at is not None:
            raise OAuthError("invalid_grant", f"This {kind} is not valid.")
        if ticket.used_at is not None:
            raise await self._end_replayed(ticket, grant)
        if self._clock() >= ticket.expires_at or await self._holders.holder(grant.credential) is None:
            raise OAuthError("invalid_grant", f"This {kind} has expired.")
        return ticket, grant

    async def _exchange(self, ticket: StoredTicket, grant: StoredGrant, scopes: frozenset[str]) -> Issued:
        """Tokens for a code or refresh token. It is used up last, so that a full disk costs nobody their sign-in; until
        then, nobody has the new tokens.
        """
        now = self._clock()
        access = await self._issue(ACCESS, "access", grant.id, {"scopes": sorted(scopes)}, ACCESS_LIFE)
        refresh = await self._issue(REFRESH, "refresh", grant.id, {}, REFRESH_LIFE)
        if not await self._store.touch_grant(grant.id, now, now + REFRESH_LIFE):
            raise OAuthError("invalid_grant", "This grant was revoked.")
        await self._use(ticket, grant)
        return Issued(access, refresh, scopes)

    async def _use(self, ticket: StoredTicket, grant: StoredGrant) -> None:
        """Raises OAuthError if another request was quicker: then the grant ends."""
        before = await self._store.use_ticket(ticket.digest, self._clock())
        if before is None or before.used_at is not None:
            raise await self._end_replayed(ticket, grant)

    async def _end_replayed(self, ticket: StoredTicket, grant: StoredGrant) -> OAuthError:
        with suppress(UnknownName):  # another replay was quicker
            await self.revoke(grant.id, f"a {ticket.kind} was used twice", grant.principal)
        words = f"This {ticket.kind} was used before; all tokens that came from it were revoked."
        return OAuthError("invalid_grant", words)

    async def _issue(self, prefix: str, kind: str, grant: str, body: JsonObject, life: float) -> str:
        text, now = prefix + secrets.token_urlsafe(32), self._clock()
        await self._store.add_ticket(StoredTicket(digest_of(text), kind, grant, body, now + life), now)
        return text


def digest_of(text: str | bytes) -> bytes:
    """The stored form of a secret of 256 random bits."""
    return hashlib.sha256(text.encode("utf-8", "replace") if isinstance(text, str) else text).digest()


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
