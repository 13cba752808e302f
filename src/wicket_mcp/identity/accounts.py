"""Which account is used at which server, and whether a sign-in is needed first.

The pool gets credentials here (`CredentialSource`); other callers ask what is missing. Every gateway loads this module,
so it loads the OAuth client (`oauth/`) only at the first rejected request or stored sign-in.
"""

import asyncio
import hashlib
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from wicket_mcp.codec import canonical
from wicket_mcp.config.model.auth import AuthConfig
from wicket_mcp.config.model.config import Config, OauthConfig, ResolvedServer, ServerConfig
from wicket_mcp.config.read.secrets import fill_in
from wicket_mcp.errors import Internal, NeedsSignIn
from wicket_mcp.identity.vault import Vault
from wicket_mcp.identity.waiting import Waiting
from wicket_mcp.model import LOCAL, Principal
from wicket_mcp.store.base import GrantStore, NoteStore
from wicket_mcp.upstream.credentials import Challenge, Credentials, owner_of
from wicket_mcp.upstream.egress import Answer

if TYPE_CHECKING:
    from wicket_mcp.identity.oauth.signin import SignIns

log = logging.getLogger(__name__)

LOOK_AGAIN = 5.0  # seconds until the vault is checked again while it is not known whether it has changed
LOOK_WITHIN = 0.5  # seconds that a call waits for this check
_NEEDED = "needed"


class _Kept(Protocol):
    """Credentials with the version of their sign-in."""

    @property
    def version(self) -> str: ...

    def forget(self) -> None: ...

    async def headers(self, verb: str, url: str, body: bytes | None = None) -> Mapping[str, str]: ...

    async def handle_rejection(self, answer: Answer, sent: Mapping[str, str], *, final: bool = False) -> bool: ...


class AccountStore(NoteStore, GrantStore, Protocol):
    """What is stored about accounts besides the vault: missing sign-ins and pending ones."""


class Accounts:
    """See the module's docstring."""

    def __init__(self, vault: Vault, notes: AccountStore, base_dir: Path, options: OauthConfig) -> None:
        self.vault = vault
        self.waiting = Waiting(notes)
        self.options = options
        self.refreshes: Counter[tuple[str, str]] = Counter()
        """Outcomes of access token renewals, by server."""
        self._notes = notes
        self._base_dir = base_dir
        self._credentials: dict[tuple[str, str], _OnDemand] = {}
        self._needs: dict[tuple[str, str], Challenge | None] = {}
        """The sign-in that is needed, by server and owner; None if none is."""
        self._noted: dict[tuple[str, str], int | None] = {}
        """The entries that the store has too, with the version of its notes: a change by another process counts."""
        self._given: dict[tuple[str, str], bytes] = {}
        """A digest of the variables that a command was started with, by server and owner."""
        self._compared: int | None = None
        """The vault's version when these were last compared with it."""
        self._changes: dict[tuple[str, str], int] = {}
        """How often a sign-in to a server happened at run time."""
        self.address = ""
        """Our own address, if browsers return to it; otherwise they return to a loopback port."""
        self._stays = False
        self._on_change: Callable[[str, str], None] | None = None
        self._on_act: Callable[[str, str, str], None] | None = None
        self._sign_ins: SignIns | None = None

    def __repr__(self) -> str:
        needed = sorted(server for (server, _), need in self._needs.items() if need is not None)
        return f"<Accounts {len(self._credentials)} known, sign-in needed: {', '.join(needed) or 'none'}>"

    @property
    def sign_ins(self) -> "SignIns":
        """The sign-ins of users."""
        if self._sign_ins is None:
            from wicket_mcp.identity.oauth.signin import SignIns  # noqa: PLC0415  (few gateways need it)

            self._sign_ins = SignIns(self)
        return self._sign_ins

    def reconfigure(self, config: Config) -> None:
        """Use another configuration for sign-ins from now on."""
        self.options = config.oauth
        if self.address and config.http.public_url:  # over stdio, browsers return to a loopback port
            self.address = config.http.public_url.rstrip("/")

    def tell(self, on_change: Callable[[str, str], None], on_act: Callable[[str, str, str], None]) -> None:
        """Call `on_change` with server and owner after every sign-in or sign-out, of other processes too.

        Call `on_act` with who did what and the server after those that happen here, for the audit.
        """
        self._on_change, self._on_act = on_change, on_act

    def record(self, principal: str, act: str, server: str) -> None:
        """Somebody signed in or out here."""
        if self._on_act is not None:
            self._on_act(principal, act, server)

    @property
    def serves_callback(self) -> bool:
        """Whether we run long enough for a browser to come back."""
        return self._stays

    def stay(self) -> None:
        """We run until we are stopped, so a browser can come back."""
        self._stays = True

    def serve_at(self, address: str) -> None:
        """Browsers come back to this address of ours."""
        self.address = address

    async def close(self) -> None:
        if self._sign_ins is not None:
            await self._sign_ins.close()
        for credentials in self._credentials.values():
            await credentials.close()

    # CredentialSource

    def owner(self, config: ServerConfig, principal: Principal) -> str:
        return owner_of(config, principal)

    def version(self, config: ServerConfig, principal: Principal) -> str:
        changes = self._changes.get((config.name, owner_of(config, principal)), 0)
        return str(changes) if changes else ""

    async def environment(self, config: ServerConfig, principal: Principal) -> Mapping[str, str]:
        from wicket_mcp.identity.oauth.keep import Keep  # noqa: PLC0415  (as above)

        owner = owner_of(config, principal)
        stored = await Keep(self.vault).environment(owner, config.name)
        if stored is None and config.required_keys:
            await self.need(config.name, owner, Challenge())
            raise NeedsSignIn(config.name, f"'{owner}' has not given {', '.join(config.required_keys)}")
        self._given[config.name, owner] = _digest(stored or {})
        return stored or {}

    @property
    def is_behind(self) -> bool:
        """Whether a process may have changed variables that a command was started with."""
        return bool(self._given) and self.vault.version() not in (None, self._compared)

    async def compare_given(self) -> None:
        """Use new connections where another process has changed the variables that commands were started with."""
        from wicket_mcp.identity.oauth.keep import Keep  # noqa: PLC0415  (as above)

        version = self.vault.version()
        for (server, owner), digest in list(self._given.items()):
            now = _digest(await Keep(self.vault).environment(owner, server) or {})
            if now != digest and self._given.get((server, owner)) == digest:
                self._given[server, owner] = now
                await self.on_signed_in(server, owner)
        self._compared = version

    async def find(self, server: ResolvedServer, url: str, principal: Principal) -> Credentials | None:
        config = server.config
        if has_own_token(config.auth, server.headers):
            return None
        key = (config.name, owner_of(config, principal))
        known = self._credentials.get(key)
        if known is None or known.config != config or known.url != url:
            if known is not None:
                await known.close()
            known = self._credentials[key] = _OnDemand(self, config, url, key[1])
        return known

    # Missing sign-ins

    async def need(self, server: str, owner: str, challenge: Challenge | None) -> None:
        """Record the sign-in that is needed; None after a sign-in."""
        before = self._needs.get((server, owner))
        self._needs[server, owner] = challenge
        if (before is None) != (challenge is None) or challenge is None:
            self._noted.pop((server, owner), None)
            await self._notes.save_note(_note(server, owner), "" if challenge is None else _NEEDED)
            self._noted[server, owner] = None

    def challenge(self, server: str, owner: str) -> Challenge:
        """The server's last challenge."""
        return self._needs.get((server, owner)) or Challenge()

    async def missing(self, servers: Iterable[ServerConfig], principal: Principal) -> frozenset[str]:
        """The servers that `principal` cannot use before a sign-in."""
        own = [config for config in servers if config.url is not None or config.credentials != "shared"]
        needed = await asyncio.gather(*(self._is_needed(config.name, owner_of(config, principal)) for config in own))
        return frozenset(config.name for config, is_needed in zip(own, needed, strict=True) if is_needed)

    async def _is_needed(self, server: str, owner: str) -> bool:
        key = (server, owner)
        version = self._notes.notes_version()
        if key in self._needs and (key not in self._noted or self._noted[key] == version is not None):
            return self._needs[key] is not None
        noted = await self._notes.load_note(_note(server, owner))  # another process may have recorded a sign-in
        self._noted[key] = version
        if noted == _NEEDED:
            self._needs[key] = self._needs.get(key) or Challenge()
        elif self._needs.get(key) is not None:
            await self.on_signed_in(server, owner)
        else:
            self._needs[key] = None
        return self._needs[key] is not None

    async def expect(self, server: str, owner: str, client: str) -> None:
        """A browser left to sign in, with this client of ours; empty when it is back."""
        await self._notes.save_note(f"sign-in begun {server} {owner}", client)

    async def pending_client(self, server: str, owner: str) -> str:
        """The client with which a browser left to sign in and did not come back."""
        return await self._notes.load_note(f"sign-in begun {server} {owner}") or ""

    async def bind_client(self, server: str, url: str, client: str, issuer: str) -> str:
        """The issuer at which a configured client was first used: this one, if it is the first."""
        return await self._bind(f"issuer of client {client} for {server} {url}", issuer)

    async def bind_issuer(self, issuer: str, origin: str) -> str:
        """The server, by its origin, for which somebody first signed in at an issuer: this one, if it is the first."""
        return await self._bind(f"first server of issuer {issuer}", origin)

    async def first_server(self, issuer: str) -> str:
        """The same, if anybody ever signed in there."""
        return await self._notes.load_note(f"first server of issuer {issuer}") or ""

    async def _bind(self, key: str, value: str) -> str:
        with suppress(Internal):  # a state that cannot be used must not keep a machine from its token
            if (known := await self._notes.load_note(key)) is not None:
                return known
            await self._notes.save_note(key, value)
        return value

    async def on_signed_in(self, server: str, owner: str, version: str = "") -> None:
        """A sign-in (or, without a version, a sign-out) happened: use new connections from now on."""
        self._supersede(server, owner, version)
        await self.need(server, owner, None)
        if self._on_change is not None:
            self._on_change(server, owner)

    def disown(self, servers: Iterable[ServerConfig], owner: str) -> None:
        """Somebody else has the name of `owner` now, whose credentials were deleted: use none that are in memory."""
        for config in servers:
            if config.credentials == "user":
                self._supersede(config.name, owner, "")

    def _supersede(self, server: str, owner: str, version: str) -> None:
        if (known := self._credentials.get((server, owner))) is not None:
            known.reset(version)
        self._changes[server, owner] = self._changes.get((server, owner), 0) + 1

    async def give(self, config: ServerConfig, principal: Principal, variables: dict[str, str]) -> None:
        """Store the variables that `principal` provides for a command."""
        from wicket_mcp.identity.oauth.keep import Keep  # noqa: PLC0415  (as above)

        owner = owner_of(config, principal)
        self._given[config.name, owner] = _digest(variables)
        await Keep(self.vault).save_environment(owner, config.name, variables)
        await self.on_signed_in(config.name, owner)
        self.record(principal.id, "sign in to a server", config.name)

    async def resolve(self, config: ServerConfig) -> ResolvedServer:
        """The server with its current secrets. Raises ConfigError."""
        return await fill_in(config, os.environ, self._base_dir)


class _OnDemand:
    """Credentials of one owner at one server, loaded on first use."""

    def __init__(self, accounts: Accounts, config: ServerConfig, url: str, owner: str) -> None:
        self.config = config
        self.url = url
        self._accounts = accounts
        self._owner = owner
        self._inner: _Kept | None = None
        self._looked_at = float("-inf")
        self._looked_version: int | None = None
        """The vault's version when it was last checked for a sign-in."""
        self._version = ""

    async def headers(self, verb: str, url: str, body: bytes | None = None) -> Mapping[str, str]:
        inner = self._inner
        if inner is None:
            if self.config.auth.kind == "auto" and not (self._must_look() and await self._has_account()):
                return {}
            inner = self._load()
        headers = await inner.headers(verb, url, body)
        await self._note_version(inner)
        return headers

    def _must_look(self) -> bool:
        """Whether somebody may have signed in since the vault was last checked, in any process."""
        now, version = asyncio.get_running_loop().time(), self._accounts.vault.version()
        is_countable = version is not None and self._looked_version is not None
        known = version == self._looked_version if is_countable else now - self._looked_at < LOOK_AGAIN
        if not known:
            self._looked_at, self._looked_version = now, version
        return not known

    async def _has_account(self) -> bool:
        """Whether somebody signed in. A state that does not answer does not hold the call up: then it is as before."""
        try:
            async with asyncio.timeout(LOOK_WITHIN):
                return f"oauth {self.config.name}" in await self._accounts.vault.names(self._owner)
        except (Internal, TimeoutError) as problem:
            log.warning("it is not known whether '%s' has an account: %s", self.config.name, problem or "no answer")
            self._looked_version = None
            return False

    async def handle_rejection(self, answer: Answer, sent: Mapping[str, str], *, final: bool = False) -> bool:
        if self._inner is None and not Challenge.read(answer.challenges).token:
            return False
        return await (self._inner or self._load()).handle_rejection(answer, sent, final=final)

    def reset(self, version: str) -> None:
        """Check again which credentials exist, for the sign-in `version`."""
        self._version, self._looked_at, self._looked_version = version, float("-inf"), None
        if self._inner is not None:
            self._inner.forget()

    async def close(self) -> None:
        if self._inner is not None:
            await self._accounts.sign_ins.release(self.config.name, self._owner)

    def _load(self) -> _Kept:
        self._inner = self._accounts.sign_ins.credentials(self.config, self.url, self._owner)
        return self._inner

    async def _note_version(self, inner: _Kept) -> None:
        """Another process may have signed in with another account."""
        version = inner.version
        if version == self._version:
            return
        first, self._version = not self._version, version
        if version:
            await self._accounts.need(self.config.name, self._owner, None)
        if not first:
            await self._accounts.on_signed_in(self.config.name, self._owner, version)


def may_sign_in(config: ServerConfig, principal: Principal) -> bool:
    """Whether `principal` may choose the account that is used: everyone their own, only an administrator the one that
    all users share.
    """
    return config.credentials == "user" or principal.id == LOCAL.name or principal.may("admin")


def has_own_token(auth: AuthConfig, headers: Iterable[str]) -> bool:
    """Whether the configuration itself says which token a server gets, so that nobody signs in."""
    return auth.kind == "auto" and any(name.lower() == "authorization" for name in headers)


def has_own_account(config: ServerConfig) -> bool:
    """Whether each user signs in to the server with an account of their own."""
    by_person = config.auth.kind in ("auto", "oauth") and not has_own_token(config.auth, config.headers)
    return by_person and config.url is not None and config.credentials == "user"


def own_keys(config: ServerConfig) -> tuple[str, ...]:
    """The variables that each user gives for themselves; empty if the server is no command that takes any."""
    return config.required_keys if config.url is None and config.credentials == "user" else ()


def _digest(variables: Mapping[str, str]) -> bytes:
    return hashlib.sha256(canonical(dict(variables))).digest()


def _note(server: str, owner: str) -> str:
    return f"sign-in {server} {owner}"
