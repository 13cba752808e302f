"""The credentials that connections use: a token for every request, renewed in time, once for all waiting requests.

`PersonCredentials` use a person's sign-in; `MachineCredentials` get a token by themselves. A rejected request did
nothing, so it is sent again with a renewed token if there is one; otherwise NeedsSignIn says what to do.
"""

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from wicket_mcp.config.model.auth import AuthConfig
from wicket_mcp.errors import NeedsSignIn, SignInFailed, WicketError
from wicket_mcp.identity.oauth.client import OAuthClient
from wicket_mcp.identity.oauth.grants import Check, obtain
from wicket_mcp.identity.oauth.keep import Keep
from wicket_mcp.identity.oauth.messages import ENDED, UNKNOWN_CLIENT, Grant, TokenRefused
from wicket_mcp.identity.waiting import Waiting
from wicket_mcp.upstream.credentials import Challenge
from wicket_mcp.upstream.egress import Answer

log = logging.getLogger(__name__)

AHEAD = 60.0  # seconds before its end that a token is renewed
JITTER = 15.0  # and up to this many more, so that sign-ins of one moment are not all renewed at once
TURN = 30.0  # seconds for which one process may renew alone: longer than its request can take
LOOK = 0.2  # seconds between two checks whether another process has renewed it
RENEW_AGAIN = 60.0  # seconds until a rejected token that was renewed in vain is renewed once more
FRESH = 5.0  # seconds for which a value from the vault is current while it is not known whether it has changed

_RENEWAL = "renewal"

OnNeed = Callable[[str, str, Challenge | None], Awaitable[None]]
"""Called with the server, the owner, and the sign-in that is needed; None when it is done."""


class _Tokens:
    """The common part of both kinds: turns a grant into headers."""

    def __init__(self) -> None:
        self._nonce = ""
        self._choose_time()

    def _choose_time(self) -> None:
        """Choose how long before its end the next token is renewed: once for each token, not for each request."""
        self._ahead = AHEAD + random.uniform(0, JITTER)

    def _headers(self, grant: Grant, verb: str, url: str, body: bytes | None) -> Mapping[str, str]:
        headers = {"Authorization": f"{grant.token_type} {grant.access_token}"}
        if grant.token_type == "DPoP":  # noqa: S105  (a name, not a secret)
            from wicket_mcp.identity.oauth.dpop import proof  # noqa: PLC0415  (loads cryptography; few servers want it)

            headers["DPoP"] = proof(grant.dpop_key, verb, url, grant.access_token, self._nonce, body)
        return headers

    def _take_nonce(self, answer: Answer, challenge: Challenge) -> bool:
        """Whether the server only wants its own nonce in the proof."""
        nonce = answer.header("DPoP-Nonce")
        if challenge.error != "use_dpop_nonce" or not nonce or nonce == self._nonce:
            return False
        self._nonce = nonce
        return True


class PersonCredentials(_Tokens):
    """The sign-in of one owner at one server."""

    def __init__(
        self,
        server: str,
        owner: str,
        oauth: OAuthClient,
        keep: Keep,
        on_need: OnNeed,
        waiting: Waiting,
        refreshes: Counter[tuple[str, str]] | None = None,
        *,
        configured: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`refreshes` counts the outcomes of renewals, by server. `configured`: the configuration says that a person
        signs in, so the server need not.
        """
        super().__init__()
        self._configured = configured
        self._clock = clock
        self._refreshes: Counter[tuple[str, str]] = Counter() if refreshes is None else refreshes
        self._server = server
        self._owner = owner
        self._oauth = oauth
        self._keep = keep
        self._on_need = on_need
        self._waiting = waiting
        self._grant: Grant | None = None
        self._read_at = float("-inf")
        self._read_version: int | None = None
        """The vault's version then."""
        self._dead = ""
        """An access token that was rejected and could not be replaced by one that is accepted: it is not sent again."""
        self._dead_until = 0.0
        """When it may be renewed once more: the server may have rejected everything for a while."""
        self._renewing = asyncio.Lock()
        self._unsaved: Grant | None = None
        """A grant that the vault has not stored yet."""

    @property
    def version(self) -> str:
        return "" if self._grant is None else self._grant.version

    def forget(self) -> None:
        """Read the vault again: a sign-in or sign-out happened."""
        self._read_at, self._read_version, self._unsaved = float("-inf"), None, None

    async def headers(self, verb: str, url: str, body: bytes | None = None) -> Mapping[str, str]:
        grant = await self.current()
        if grant is None or not grant.access_token:
            return {}
        if grant.access_token == self._dead:
            if not grant.refresh_token or self._clock() < self._dead_until:
                return {}
            grant = await self.renew(grant, rejected=True)
            await self._on_need(self._server, self._owner, None)
        elif grant.expires_within(self._ahead) and grant.refresh_token:
            grant = await self.renew(grant)
        return self._headers(grant, verb, url, body)

    async def handle_rejection(self, answer: Answer, sent: Mapping[str, str], *, final: bool = False) -> bool:
        challenge = Challenge.read(answer.challenges)
        if self._take_nonce(answer, challenge):
            return True
        if answer.status == 403:
            if challenge.error != "insufficient_scope":
                return False
            await self._on_need(self._server, self._owner, challenge)
            raise NeedsSignIn(self._server, "it asks for more rights than were given")
        token = sent.get("Authorization", "").partition(" ")[2]
        grant = await self.current(fresh=True)
        if grant is not None and grant.access_token not in ("", token, self._dead):
            return True  # another process has renewed it, or signed in
        if grant is not None and token and grant.refresh_token and not final:
            await self.renew(grant, rejected=True)
            return True
        if not token and not challenge.token and not self._configured:
            return False  # it does not want OAuth: its answer says what it wants
        if token:
            self._dead, self._dead_until = token, self._clock() + RENEW_AGAIN
        await self._on_need(self._server, self._owner, challenge)
        why = "the sign-in is not accepted any more" if token else ""
        raise NeedsSignIn(self._server, why)

    async def current(self, *, fresh: bool = False) -> Grant | None:
        """The current grant, even if another process changed it."""
        now, version = self._clock(), self._keep.version()
        if self._unsaved is not None:
            await self._store(self._unsaved)
        elif fresh or version != self._read_version or (version is None and now - self._read_at > FRESH):
            self._grant = await self._keep.grant(self._owner, self._server, self._oauth.url)
            self._read_at, self._read_version = now, version
        return self._grant

    async def renew(self, old: Grant, *, rejected: bool = False) -> Grant:
        """A new token for the old one; one request, however many callers and processes wait: a server may end a sign-in
        whose refresh token comes twice. The old one if it cannot be renewed now, is valid and was not `rejected`.
        Raises NeedsSignIn and SignInFailed.
        """
        async with self._renewing:
            end = self._clock() + TURN
            while (grant := await self.current(fresh=True)) is not None:
                if grant.access_token != old.access_token:
                    return grant
                if not await self._claim(grant) and self._clock() < end:
                    await asyncio.sleep(LOOK)
                    continue
                try:
                    if await self.current(fresh=True) == grant:
                        return await self._request(grant, rejected=rejected)
                finally:
                    await self._release(grant)
            raise NeedsSignIn(self._server)

    async def _request(self, grant: Grant, *, rejected: bool) -> Grant:
        form = {"grant_type": "refresh_token", "refresh_token": grant.refresh_token, "resource": grant.resource}
        try:
            renewed = await self._oauth.token(grant, form)
        except TokenRefused as refused:
            self._refreshes[self._server, "refused"] += 1
            return await self._lose(grant, refused, usable=not rejected and not grant.expires_within(0))
        except SignInFailed:
            self._refreshes[self._server, "failed"] += 1
            if rejected or grant.expires_within(0):
                raise
            return grant  # the authorization server is unreachable, but the token is still valid
        self._refreshes[self._server, "ok"] += 1
        await self._store(renewed)
        return renewed

    async def _claim(self, grant: Grant) -> bool:
        try:
            return await self._waiting.claim(_RENEWAL, grant.refresh_token, TURN)
        except WicketError:
            return True  # a state that cannot be written must not end a sign-in

    async def _release(self, grant: Grant) -> None:
        with suppress(WicketError):
            await self._waiting.release(_RENEWAL, grant.refresh_token)

    async def _lose(self, grant: Grant, refused: TokenRefused, *, usable: bool) -> Grant:
        forgotten = refused.error in UNKNOWN_CLIENT and await self._keep.drop_client(grant.client)
        if refused.error not in ENDED and not forgotten:
            if usable:
                return grant
            text = f"The sign-in to '{self._server}' could not be renewed: {refused}."
            raise SignInFailed(self._server, text, hint=f"Sign in again with: wicket login {self._server}")
        stored = await self.current(fresh=True)
        if stored is not None and stored.refresh_token != grant.refresh_token:
            return stored  # another process was quicker, with the same refresh token
        await self._keep.drop_grant(self._owner, self._server)
        self._grant = None
        await self._on_need(self._server, self._owner, Challenge(scope=grant.scope))
        raise NeedsSignIn(self._server, "the sign-in has ended or was revoked")

    async def _store(self, grant: Grant) -> None:
        """Store a renewed grant; keep it in memory until the vault accepts it, because the old one is void."""
        self._grant, self._read_at = grant, self._clock()
        self._choose_time()
        try:
            await self._keep.save_grant(self._owner, self._server, grant)
            self._unsaved = None
        except WicketError as problem:
            if self._unsaved is None:
                log.warning("the sign-in to '%s' could not be stored, and is kept in memory: %s", self._server, problem)
            self._unsaved = grant


class MachineCredentials(_Tokens):
    """A token that Wicket gets by itself, for one server."""

    version = ""

    def forget(self) -> None:
        self._grant = None

    def __init__(
        self, server: str, auth: Callable[[], Awaitable[AuthConfig]], oauth: OAuthClient, check_issuer: Check
    ) -> None:
        """`auth` returns the section with its current secrets."""
        super().__init__()
        self._check_issuer = check_issuer
        self._server = server
        self._auth = auth
        self._oauth = oauth
        self._grant: Grant | None = None
        self._challenge = Challenge()
        self._obtaining = asyncio.Lock()
        self._uses = 0
        """Requests that the current token was sent with."""

    async def headers(self, verb: str, url: str, body: bytes | None = None) -> Mapping[str, str]:
        grant = self._grant
        if grant is None:
            return {}  # the server first says where to get a token
        if grant.expires_within(self._ahead):
            grant = await self._obtain(grant)
        self._uses += 1
        return self._headers(grant, verb, url, body)

    async def handle_rejection(self, answer: Answer, sent: Mapping[str, str], *, final: bool = False) -> bool:
        challenge = Challenge.read(answer.challenges)
        if final:
            return False
        if self._take_nonce(answer, challenge):
            return True
        if answer.status == 403 and challenge.error != "insufficient_scope":
            return False  # another token would have the same rights
        token = sent.get("Authorization", "").partition(" ")[2]
        known = self._grant
        if known is not None and known.access_token != token:
            return True
        if known is not None and self._uses < 2 and challenge.scope == self._challenge.scope:
            self._grant = None  # even a new token is rejected; the next request may try again
            return False
        self._challenge = challenge
        await self._obtain(known)
        return True

    async def _obtain(self, old: Grant | None) -> Grant:
        async with self._obtaining:
            if self._grant is None or self._grant is old:
                self._grant = await obtain(self._oauth, await self._auth(), self._challenge, self._check_issuer)
                self._uses = 0
                self._choose_time()
            return self._grant
