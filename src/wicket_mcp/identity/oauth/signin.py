"""A person's sign-in: an address to open, a redirect back, and a grant in the vault.

`begin` finds the authorization server and returns the link to open. `finish` handles the browser's return to the
callback (`visits.py`): on a loopback port, or at the gateway's own address in any of its processes, because a pending
sign-in is in the store (`waiting.py`). Then callers that wait for the `Pending` continue. A `state` works once, within
ten minutes, only for the person it was created for, and only in the browser that opened the link.
"""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct, convert, to_builtins
from msgspec.structs import replace

from wicket_mcp.config.model.auth import AuthConfig
from wicket_mcp.config.model.config import ServerConfig
from wicket_mcp.errors import ConfigError, Denied, SignInFailed, WicketError
from wicket_mcp.identity.accounts import Accounts, may_sign_in
from wicket_mcp.identity.oauth.client import OAuthClient
from wicket_mcp.identity.oauth.credentials import MachineCredentials, PersonCredentials
from wicket_mcp.identity.oauth.discovery import Issuer, check_code_flow, choose_scopes, is_safe, origin_of
from wicket_mcp.identity.oauth.grants import configured_client, new_dpop_key
from wicket_mcp.identity.oauth.keep import Keep
from wicket_mcp.identity.oauth.loopback import Loopback
from wicket_mcp.identity.oauth.messages import (
    UNKNOWN_CLIENT,
    Authorization,
    Client,
    Grant,
    TokenRefused,
    authorization,
    read_redirect,
)
from wicket_mcp.identity.oauth.visits import Visits
from wicket_mcp.identity.pages import PATH, START
from wicket_mcp.model import Principal
from wicket_mcp.upstream.credentials import Challenge, owner_of

_BEGUN, _LINK, _ENDED = "sign-in", "sign-in link", "sign-in ended"
LIFE = 600.0  # seconds in which a sign-in must be finished
MOST_PENDING = 100
LOOK = 1.0  # seconds between two checks whether another process has finished it
STEPS = 3  # times in a row that more rights are requested


class Begun(Struct, frozen=True):
    """A pending sign-in: everything needed to finish it, in any process."""

    server: str
    owner: str
    issuer: Issuer
    authorization: Authorization
    grant: Grant
    trusted: tuple[str, ...]
    """Addresses that the configuration names for signing in."""
    user: str
    """The name of the user whose own account it is; empty if it is the gateway's, or the link works only on this
    machine.
    """
    address: str
    """Our address, or that of the loopback port."""
    ticket: str
    browser: str
    """The secret of the browser that opened the link, which it must bring back."""
    other: str = ""
    """Another server for which somebody signs in at this issuer, whose tokens may be good for it too."""

    def __repr__(self) -> str:
        return f"<Begun sign-in of {self.owner} to {self.server}>"

    @property
    def link(self) -> str:
        """The link that a person opens to sign in, in any browser."""
        return f"{self.address}{START}{self.ticket}"

    @property
    def url(self) -> str:
        """The authorization server's page for signing in."""
        return self.authorization.url


@dataclass(slots=True)
class Pending:
    """A sign-in that a caller in this process waits for."""

    begun: Begun
    until: float
    done: "asyncio.Future[None]" = field(repr=False)
    look: Callable[[], Awaitable[None]] = field(repr=False)
    """Check whether another process has finished it."""
    shared: bool
    challenge: Challenge
    """What the server asked for."""

    @property
    def link(self) -> str:
        return self.begun.link

    async def wait(self) -> None:
        """Wait until it is finished. Raises SignInFailed."""
        server = self.begun.server
        while (left := self.until - time.monotonic()) > 0:
            await asyncio.wait((self.done,), timeout=min(left, LOOK) if self.shared else left)
            if self.done.done():
                return self.done.result()
            await self.look()
        text = f"Nobody signed in to '{server}' within {LIFE / 60:.0f} minutes."
        raise SignInFailed(server, text, hint=f"Try again: wicket login {server}")


class SignIns:
    """All sign-ins of one gateway."""

    def __init__(self, accounts: Accounts) -> None:
        self.keep = Keep(accounts.vault)
        self._accounts = accounts
        self.visits = Visits(self)
        self._loopback = Loopback(self.visits)
        self._pending: dict[str, Pending] = {}
        self._clients: dict[tuple[str, str], OAuthClient] = {}
        self._steps: dict[tuple[str, str], tuple[int, float]] = {}

    async def close(self) -> None:
        await self._loopback.close()
        for pending in self._pending.values():
            pending.done.cancel()
        for client in self._clients.values():
            await client.close()

    def credentials(self, config: ServerConfig, url: str, owner: str) -> PersonCredentials | MachineCredentials:
        """The credentials of one owner for one server."""
        oauth = self._oauth(config.name, url, owner, _trusted_issuers(config))
        if config.auth.kind in ("auto", "oauth"):
            accounts = self._accounts
            return PersonCredentials(
                config.name,
                owner,
                oauth,
                self.keep,
                accounts.need,
                accounts.waiting,
                accounts.refreshes,
                configured=config.auth.kind == "oauth",
            )

        async def check_issuer(auth: AuthConfig, issuer: str) -> None:
            await self._check_issuer(config.name, url, auth, issuer)

        async def read_auth() -> AuthConfig:
            return (await self._accounts.resolve(config)).auth

        return MachineCredentials(config.name, read_auth, oauth, check_issuer)

    async def release(self, server: str, owner: str) -> None:
        """The server's connection settings change: close its OAuth client."""
        client = self._clients.pop((server, owner), None)
        if client is not None:
            await client.close()

    async def begin(self, config: ServerConfig, principal: Principal) -> Pending:
        """Start a sign-in. Raises SignInFailed, Denied, or ConfigError if there is nothing to sign in to."""
        server, owner = await self._accounts.resolve(config), owner_of(config, principal)
        if server.url is None or config.auth.kind not in ("auto", "oauth"):
            raise ConfigError(f"Server '{config.name}' is not one that a person signs in to.")
        _check_right(config, principal)
        self._drop_expired()
        known = self._accounts.challenge(config.name, owner)
        if (pending := self._find_pending(config.name, owner, server.url, known)) is not None:
            return pending
        oauth = self._oauth(config.name, server.url, owner, _trusted_issuers(config))
        challenge = known
        if not known.token:  # not what the server said: the sign-in has ended, or another process heard it
            challenge = await oauth.probe()
            challenge = replace(challenge, scope=known.scope or challenge.scope)
        resource, issuer = await oauth.discover(challenge, server.auth.issuer)
        check_code_flow(config.name, issuer)
        earlier = await self.keep.grant(owner, config.name, server.url)
        same = earlier is not None and earlier.client.issuer == issuer.issuer
        if challenge.error == "insufficient_scope":
            self._count_step(config.name, owner)
        scope = choose_scopes(
            challenge.scope, resource, issuer, server.auth.scopes, earlier.scope if earlier and same else ""
        )
        redirect_uri = await self._redirect_uri(issuer)
        client = configured_client(server.auth, issuer)
        if client is not None:
            await self._check_issuer(config.name, server.url, server.auth, issuer.issuer)
        else:
            client = await self._client(oauth, issuer, redirect_uri, owner)
        request = authorization(issuer, client, resource.resource, scope, redirect_uri)
        if not is_safe(request.url, encrypted=oauth.encrypted):
            raise SignInFailed(config.name, f"The address to sign in to '{config.name}' at is not a safe one.")
        grant = Grant(
            url=server.url,
            resource=resource.resource,
            client=client,
            token_endpoint=issuer.token_endpoint,
            scope=scope,
            version=secrets.token_hex(8),
            dpop_key=new_dpop_key(challenge, issuer),
        )
        begun = Begun(
            server=config.name,
            owner=owner,
            issuer=issuer,
            authorization=request,
            grant=grant,
            trusted=_trusted_issuers(config),
            user=(principal.label or principal.name) if config.credentials == "user" and self._accounts.address else "",
            other=first if (first := await self._accounts.first_server(issuer.issuer)) != origin_of(server.url) else "",
            address=redirect_uri.removesuffix(PATH),
            ticket=secrets.token_urlsafe(32),
            browser=secrets.token_urlsafe(32),
        )
        waiting = self._accounts.waiting
        await waiting.put(_LINK, begun.ticket, request.state, LIFE)
        await waiting.put(_BEGUN, request.state, to_builtins(begun), LIFE)
        return self._expect(begun, known)

    def _find_pending(self, server: str, owner: str, url: str, challenge: Challenge) -> Pending | None:
        """The sign-in that the same user has just begun here: a call that is repeated gets the same link."""
        for pending in self._pending.values():
            begun = pending.begun
            same = (begun.server, begun.owner, begun.grant.url, pending.challenge) == (server, owner, url, challenge)
            if same and not pending.done.done() and pending.until - time.monotonic() > LIFE / 2:
                return pending
        return None

    async def leave(self, begun: Begun) -> None:
        """A browser leaves for the authorization server's page."""
        await self._accounts.expect(begun.server, begun.owner, begun.grant.client.client_id)

    def _expect(self, begun: Begun, challenge: Challenge) -> Pending:
        state, done = begun.authorization.state, asyncio.get_running_loop().create_future()

        async def look() -> None:
            outcome = await self._accounts.waiting.take(_ENDED, state)
            if outcome is not None and not done.done():
                self._pending.pop(state, None)
                await self._hear(pending, str(outcome))

        pending = Pending(begun, time.monotonic() + LIFE, done, look, self._accounts.waiting.shared, challenge)
        self._pending[state] = pending
        return pending

    async def _hear(self, pending: Pending, problem: str) -> None:
        """Another process has finished a sign-in that we wait for."""
        server = pending.begun.server
        if problem:
            _fail(pending, SignInFailed(server, problem))
            return
        await self._accounts.on_signed_in(server, pending.begun.owner, pending.begun.grant.version)
        if not pending.done.done():
            pending.done.set_result(None)

    async def find(self, ticket: str) -> Begun | None:
        """The sign-in that a link belongs to."""
        state = await self._accounts.waiting.peek(_LINK, ticket)
        return await self.read(state) if state is not None else None

    async def read(self, state: str) -> Begun | None:
        """The pending sign-in with this `state`."""
        return _read_begun(await self._accounts.waiting.peek(_BEGUN, state))

    async def finish(self, query: dict[str, str]) -> str:
        """Handle a browser's return; returns the sentence that it shows."""
        self._drop_expired()
        state = query.get("state", "")
        begun, pending = _read_begun(await self._accounts.waiting.take(_BEGUN, state)), self._pending.pop(state, None)
        if begun is None:
            return "This sign-in is unknown, has expired or was used already. Begin again from your client."
        problem = ""
        try:
            await self._accounts.expect(begun.server, begun.owner, "")
            await self._complete(begun, query)
        except WicketError as error:
            problem = str(error)
            if pending is not None:
                _fail(pending, error)
        except BaseException:
            if pending is not None:
                pending.done.cancel()
            raise
        if pending is None:
            await self._accounts.waiting.put(_ENDED, state, problem, LIFE)
        elif not pending.done.done():
            pending.done.set_result(None)
        return problem or f"You are signed in to '{begun.server}'. You can close this page."

    async def sign_out(self, config: ServerConfig, principal: Principal) -> bool:
        """Delete the sign-in of `principal`; whether there was one. Raises Denied."""
        _check_right(config, principal)
        owner = owner_of(config, principal)
        forgotten = await self.keep.drop_grant(owner, config.name)
        forgotten |= await self.keep.drop_environment(owner, config.name)
        if forgotten:
            await self._accounts.on_signed_in(config.name, owner)
            await self._accounts.need(config.name, owner, Challenge())
            self._accounts.record(principal.id, "sign out of a server", config.name)
        return forgotten

    async def _complete(self, begun: Begun, query: dict[str, str]) -> None:
        server, owner = begun.server, begun.owner
        code = read_redirect(server, begun.issuer, query)
        grant, request = begun.grant, begun.authorization
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": request.redirect_uri,
            "code_verifier": request.verifier,
            "resource": grant.resource,
        }
        known = self._clients.get((server, owner))
        if known is not None and known.url != grant.url:
            raise SignInFailed(server, f"Server '{server}' was reconfigured meanwhile.", hint="Try again.")
        oauth = self._oauth(server, grant.url, owner, begun.trusted)
        try:
            grant = await oauth.token(grant, form)
        except TokenRefused as refused:
            if refused.error in UNKNOWN_CLIENT:
                await self.keep.drop_client(grant.client)  # register again the next time
            text = f"The authorization server of '{server}' refused the sign-in: {refused}."
            raise SignInFailed(server, text, hint="Sign in again.") from None
        await self.keep.save_grant(owner, server, grant)
        await self._accounts.bind_issuer(begun.issuer.issuer, origin_of(grant.url))
        await self._accounts.on_signed_in(server, owner, grant.version)
        self._accounts.record(owner, "sign in to a server", server)

    def _oauth(self, server: str, url: str, owner: str, trusted: tuple[str, ...]) -> OAuthClient:
        known = self._clients.get((server, owner))
        if known is None or known.url != url:
            known = self._clients[server, owner] = OAuthClient(server, url, trusted)
        return known

    async def _redirect_uri(self, issuer: Issuer) -> str:
        if self._accounts.address:
            return f"{self._accounts.address}{PATH}"
        known = [urlsplit(client.redirect_uri).port or 0 for client in await self.keep.clients(issuer.issuer)]
        return await self._loopback.open(known[0] if known else 0)

    async def _client(self, oauth: OAuthClient, issuer: Issuer, redirect_uri: str, owner: str) -> Client:
        """Our client at this issuer: described by a document, registered before, or registered now.

        If a browser did not come back from the last sign-in, the server may have forgotten the client: a page that says
        so never reaches us.
        """
        if issuer.takes_documents and (document := self._document()):
            return Client(issuer=issuer.issuer, client_id=document, auth_method="none", redirect_uri=redirect_uri)
        known = await self.keep.client(issuer.issuer, redirect_uri)
        if known is None or await self._accounts.pending_client(oauth.server, owner) == known.client_id:
            known = replace(await oauth.register(issuer, redirect_uri), redirect_uri=redirect_uri)
            await self.keep.save_client(known)
        return known

    async def _check_issuer(self, server: str, url: str, auth: AuthConfig, issuer: str) -> None:
        """Show what the configuration holds for one authorization server to no other one that the server names later.

        Raises SignInFailed.
        """
        known = issuer if auth.issuer else await self._accounts.bind_client(server, url, auth.client_id, issuer)
        if known != issuer:
            raise SignInFailed(
                server,
                f"Server '{server}' now names another authorization server: {issuer} instead of {known}.",
                hint="Nothing was sent to it. If that is right, set auth.issuer to it, and auth.client_id to a client "
                "that is registered there.",
            )

    def _document(self) -> str:
        own = f"{self._accounts.address}/oauth/client.json" if self._accounts.address.startswith("https://") else ""
        return self._accounts.options.client_metadata_url or own

    def _count_step(self, server: str, owner: str) -> None:
        count, at = self._steps.get((server, owner), (0, 0.0))
        now = time.monotonic()
        count = count + 1 if now - at < LIFE else 1
        self._steps[server, owner] = count, now
        if count >= STEPS:
            raise SignInFailed(
                server,
                f"Server '{server}' asks for more rights again and again, even after they were granted.",
                hint="Ask its operator which rights it needs, and name them in auth.scopes.",
            )

    def _drop_expired(self) -> None:
        now = time.monotonic()
        expired = [state for state, pending in self._pending.items() if pending.until < now]
        expired += list(self._pending)[: max(0, len(self._pending) - len(expired) - MOST_PENDING + 1)]
        for state in dict.fromkeys(expired):
            pending = self._pending.pop(state)
            server = pending.begun.server
            _fail(pending, SignInFailed(server, f"The sign-in to '{server}' has expired."))


def _read_begun(content: Any) -> Begun | None:
    return None if content is None else convert(content, Begun)


def _check_right(config: ServerConfig, principal: Principal) -> None:
    """Raises Denied if others would get the account that `principal` signs in with, or lose it."""
    if not may_sign_in(config, principal):
        raise Denied(
            f"All users of this gateway share one account at '{config.name}'; only its owner can sign in or out.",
            hint=f"Ask the owner to run: wicket login {config.name}",
        )


def _trusted_issuers(config: ServerConfig) -> tuple[str, ...]:
    return tuple(address for address in (config.auth.issuer, config.auth.idp) if address)


def _fail(pending: Pending, problem: WicketError) -> None:
    if not pending.done.done():
        pending.done.set_exception(problem)
        pending.done.exception()  # an error with no waiter is not a bug
