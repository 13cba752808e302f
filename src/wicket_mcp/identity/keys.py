"""API keys and their rights: created once, shown once, stored as a digest; limits that outlive the process.

A key is 256 random bits, so a plain SHA-256 is safe: it can be neither guessed nor found in a dictionary.
"""

import hashlib
import logging
import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from msgspec.structs import replace

from wicket_mcp.config.model.names import is_valid
from wicket_mcp.errors import BadArguments, Internal, RateLimited, UnknownName
from wicket_mcp.model import API_KEY_PREFIX, LOCAL, SCOPES, Principal
from wicket_mcp.spelling import nearest
from wicket_mcp.store.base import KeyStore, LimitStore, OnboardingStore, VaultStore
from wicket_mcp.store.model import StoredKey
from wicket_mcp.trust.policy import demand

log = logging.getLogger(__name__)

KINDS = ("discovery", "registration", "health", "invocation")
"""What is limited per hour, for each key."""
RESERVED = (LOCAL.name, "gateway", "shared")
"""Reserved names: the owner, Wicket itself, and the owner of the vault's shared secrets."""


class KeysStore(KeyStore, LimitStore, OnboardingStore, VaultStore, Protocol):
    """What is stored about keys: the keys, their buckets, the onboarding steps and the credentials of their holders."""


class Keys:
    """All keys, their principals, and their limits."""

    def __init__(
        self,
        store: KeysStore,
        rates: Mapping[str, int],
        clock: Callable[[], float] = time.time,
        on_holder: Callable[[str, str], None] = lambda owner, earlier: None,
    ) -> None:
        """`on_holder` is called when a key is met for the first time, with the `id` of its holder, and of the holder of
        an earlier key of this name that was met, if any.
        """
        self._store = store
        self._clock = clock
        self._known: dict[bytes, tuple[StoredKey, Principal]] = {}
        """Keys that were read while the store was at `_version`, and their holders."""
        self._texts: dict[str, tuple[bytes, StoredKey, Principal]] = {}
        """The same by their text, for as long: a digest costs as much as the rest of recognising a caller."""
        self._last: dict[bytes, tuple[StoredKey, Principal]] = {}
        """Keys as they were last read, for when the store cannot be read."""
        self._version: int | None = None
        self._holders: dict[str, str] = {}
        """The last one of each name."""
        self._on_holder = on_holder
        self.use(rates)

    def use(self, rates: Mapping[str, int]) -> None:
        """Use these requests per hour by kind from now on, for keys without limits of their own."""
        self._rates = rates

    async def create(
        self,
        name: str,
        scopes: Collection[str],
        *,
        lifetime: float | None = None,
        rates: Mapping[str, int] | None = None,
        successor: bool = False,
    ) -> tuple[str, StoredKey]:
        """A new key, and its stored form. The key cannot be shown again. Raises BadArguments.

        Its holder is another one than that of any earlier key, unless it is the `successor` of the last one of its
        name.
        """
        _check(name, scopes, rates or {})
        earlier = [key for key in await self._store.keys() if key.name == name]
        if any(map(self._usable, earlier)):
            raise BadArguments(f"There is a key named '{name}' already.", hint="Revoke it first, or take another name.")
        if successor and not earlier:
            raise BadArguments(f"There was no key named '{name}' before.", hint="Leave out --successor.")
        now = self._clock()
        text = API_KEY_PREFIX + secrets.token_urlsafe(32)
        stored = StoredKey(
            name,
            _digest(text),
            text[: len(API_KEY_PREFIX) + 4],
            frozenset(scopes),
            now,
            None if lifetime is None else now + lifetime,
            rates=dict(rates or {}),
            holder=earlier[-1].holder if successor else secrets.token_hex(8),
        )
        for key in earlier:
            if key.id != stored.id:  # it has expired, and nobody comes back for them
                await self._drop_credentials(key.id)
        await self._store.save_key(stored)
        await self._store.record_step(stored.id, "account_created", now)
        return text, stored

    async def list(self) -> Sequence[StoredKey]:
        return await self._store.keys()

    async def revoke(self, name: str) -> StoredKey:
        """Revoke a key at once, and delete the credentials of its holder. Raises UnknownName."""
        usable = [key for key in await self._store.keys() if self._usable(key)]
        active = next((key for key in usable if key.name == name), None)
        if active is None:
            raise UnknownName("key", name, nearest(name, [key.name for key in usable]))
        ended = replace(active, revoked_at=self._clock())
        await self._store.save_key(ended)
        await self._drop_credentials(ended.id)
        return ended

    async def principal(self, text: str) -> Principal | None:
        """The holder of this key; None if it is unknown, expired or revoked, without telling these apart."""
        self._follow_store()
        digest, key, principal = self._texts.get(text) or await self._recognise(text)
        now = self._clock()
        if key is None or (key.expires_at is not None and now >= key.expires_at):
            return None
        self._store.mark_key_used(digest, now)
        return principal

    async def _recognise(self, text: str) -> tuple[bytes, StoredKey | None, Principal | None]:
        if not text.startswith(API_KEY_PREFIX) or len(text) > 200:
            return b"", None, None
        digest = _digest(text)
        key, principal = self._known.get(digest) or await self._read(digest)
        if key is not None and principal is not None and digest in self._known:
            self._texts[text] = digest, key, principal
        return digest, key, principal

    async def holder(self, digest: bytes) -> Principal | None:
        """The holder of the key with this digest, while it is valid."""
        self._follow_store()
        key, principal = self._known.get(digest) or await self._read(digest)
        return principal if key is not None and self._usable(key) else None

    async def admit(self, principal: Principal, scope: str, kind: str = "") -> None:
        """Let a request pass or reject it. Raises Denied, or RateLimited with the seconds to wait."""
        demand(principal, scope)
        await self.take(principal, kind)

    def allowance(self, principal: Principal, kind: str) -> int:
        """Requests an hour; 0 for no limit."""
        usual = self._rates.get(kind, 0)
        return dict(principal.rates).get(kind, usual) if principal.rates else usual

    async def take(self, principal: Principal, kind: str) -> None:
        """Count a request against the key's hourly limit. Raises RateLimited with the seconds to wait."""
        per_hour = self.allowance(principal, kind)
        if per_hour and principal.id != LOCAL.name:
            wait = 0.0
            try:
                wait = await self._store.take(principal.id, kind, per_hour, self._clock())
            except Internal as problem:  # a state that cannot be written must not stop requests
                log.warning("a limit could not be counted: %s", problem)
            if wait:
                raise RateLimited(f"Rate limit exceeded: {per_hour} {kind} requests an hour.", retry_after=wait)

    async def give_back(self, principal: Principal, kind: str) -> None:
        """Take back what `take` counted: the request was not sent."""
        if (per_hour := self.allowance(principal, kind)) and principal.name != LOCAL.name:
            with suppress(Internal):  # as for `take`
                await self._store.draw(principal.id, kind, per_hour, self._clock(), -1.0)

    def _follow_store(self) -> None:
        """Drop what is in memory when any process has written to the store: a revoked key ends at once."""
        version = self._store.keys_version()
        if version is None or version != self._version:
            self._last.update(self._known)
            self._known.clear()
            self._texts.clear()
            self._version = version

    async def _read(self, digest: bytes) -> tuple[StoredKey | None, Principal | None]:
        """The key and its holder from the store, or from memory if the store cannot be read; None for an ended key."""
        version = self._version
        try:
            key = await self._store.key_of(digest)
        except Internal:
            if digest in self._last:  # the state cannot be read: a key that was valid a moment ago still is
                return self._last[digest]
            raise
        self._last.pop(digest, None)
        if key is None or not self._usable(key):
            return None, None
        if self._holders.get(key.name) != key.id:
            earlier, self._holders[key.name] = self._holders.get(key.name, ""), key.id
            self._on_holder(key.id, earlier)
        known = key, Principal(key.name, key.scopes, tuple(key.rates.items()), holder=key.holder)
        if version is not None and version == self._version:
            self._known[digest] = known  # unknown keys are not cached: guesses must not fill the memory
        return known

    async def _drop_credentials(self, owner: str) -> None:
        for secret in await self._store.secrets(owner):
            await self._store.drop_secret(owner, secret.name)

    def _usable(self, key: StoredKey) -> bool:
        return key.revoked_at is None and (key.expires_at is None or self._clock() < key.expires_at)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()


def _check(name: str, scopes: Collection[str], rates: Mapping[str, int]) -> None:
    if not is_valid(name) or name in RESERVED:
        raise BadArguments(
            f"'{name}' cannot name a key.",
            hint=f"Use up to 64 letters, digits, '_', '-' and '.', but not {', '.join(RESERVED)}.",
        )
    unknown = sorted(set(scopes) - SCOPES)
    if unknown or not scopes:
        raise BadArguments(
            f"'{unknown[0]}' is not a scope." if unknown else "A key needs a scope.",
            hint=f"Scopes are {', '.join(sorted(SCOPES))}.",
        )
    wrong = next((kind for kind, count in rates.items() if kind not in KINDS or count < 0), None)
    if wrong is not None:
        raise BadArguments(f"'{wrong}' is not a limit.", hint=f"Limits are {', '.join(KINDS)}: requests an hour.")
