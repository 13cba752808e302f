"""Storage of credentials: each encrypted (AES-256-GCM) with a random data key, which is stored wrapped by another key.

Owns encryption and rotation; `wrapping.py` knows where the wrapping key comes from; the store keeps the rows and cannot
decrypt them. A secret is bound to its owner, name and data key: moved to another row, it cannot be decrypted. Nothing
here logs, and no error contains a value or a key. Callers name an owner: a principal's name, or `SHARED`.
"""

import secrets
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from wicket_mcp.errors import ConfigError, Internal
from wicket_mcp.identity.key_file import KEY_BYTES, new_key
from wicket_mcp.identity.wrapping import Wrapping, key_id
from wicket_mcp.store.base import VaultStore
from wicket_mcp.store.model import StoredDataKey, StoredSecret

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

SHARED = "shared"
"""The owner of secrets that belong to the gateway rather than to one principal."""
_NONCE = 12
_ATTEMPTS = 5
"""How often another process may rotate while we store one secret."""


class VaultStatus(msgspec.Struct, frozen=True):
    """What may be shown of a vault: numbers and names, no secret."""

    place: str
    """Where the wrapping key is."""
    key: str
    """The data key in use; empty if nothing was ever stored."""
    created_at: float | None
    secrets: int
    unreadable: int
    """Secrets whose data key cannot be unwrapped with the available keys."""


class Vault:
    """Secrets by owner and name. Loads the cipher on first use, and creates the keys at the first `put`."""

    def __init__(self, store: VaultStore, wrapping: Wrapping) -> None:
        self._store = store
        self._wrapping = wrapping
        self._keys: dict[str, bytes] = {}
        self._newest: str | None = None

    def __repr__(self) -> str:
        return f"<Vault key in {self._wrapping.place}>"

    def version(self) -> int | None:
        """Differs from every earlier value if a secret may have changed since, in any process; None if unknown."""
        return self._store.vault_version()

    async def get(self, owner: str, name: str) -> bytes | None:
        """The secret; None if there is none. Raises ConfigError without its key, Internal if it is damaged."""
        stored = await self._store.secret(owner, name)
        return None if stored is None else await self._open(stored)

    async def put(self, owner: str, name: str, value: bytes) -> None:
        """Store a secret in place of an earlier one. Raises ConfigError without a key."""
        for _ in range(_ATTEMPTS):
            key = self._newest or await self._load_newest()
            if await self._store.save_secret(self._seal(owner, name, key, value)):
                return
            self._newest = None  # another process has rotated
        raise Internal("The vault's key changed while a credential was being stored.", hint="Try again.")

    async def delete(self, owner: str, name: str) -> bool:
        """Delete a secret; whether there was one."""
        return await self._store.drop_secret(owner, name)

    async def names(self, owner: str) -> Sequence[str]:
        return [stored.name for stored in await self._store.secrets(owner)]

    async def status(self) -> VaultStatus:
        """Raises ConfigError if the wrapping key cannot be read."""
        keys, stored_secrets = await self._store.data_keys(), await self._store.secrets()
        await self._unwrap()
        newest = keys[0] if keys else None
        unreadable = sum(secret.key not in self._keys for secret in stored_secrets)
        return VaultStatus(
            self._wrapping.place,
            newest.id if newest else "",
            newest.created_at if newest else None,
            len(stored_secrets),
            unreadable,
        )

    async def rotate(self, *, discard: bool = False) -> int:
        """Encrypt everything again with new keys and delete the old ones; returns the number of secrets.

        It may be interrupted at any point and run again, and the vault may be used meanwhile. `discard` drops secrets
        that no available key can decrypt, which is otherwise an error. Raises ConfigError.
        """
        await self._unwrap()
        stored_secrets = await self._store.secrets()
        lost = [secret for secret in stored_secrets if secret.key not in self._keys]
        if lost and not discard:
            raise self._missing(lost[0].key)
        for secret in lost:
            await self._store.drop_secret(secret.owner, secret.name)
        known = await self._wrapping.keys()
        if self._wrapping.writable and known:
            await self._wrapping.store([new_key(), *known])
        newest = await self._add_data_key()
        for secret in stored_secrets:
            if secret not in lost and secret.key != newest:
                value = await self._open(secret)
                await self._store.replace_secret(secret, self._seal(secret.owner, secret.name, newest, value))
        await self._store.drop_data_keys()
        if self._wrapping.writable:
            needed = {key.wrapped_by for key in await self._store.data_keys()}
            await self._wrapping.store([key for key in await self._wrapping.keys() if key_id(key) in needed])
        return len(stored_secrets) - len(lost)

    async def _load_newest(self) -> str:
        keys = await self._store.data_keys()
        if not keys:
            return await self._add_data_key()
        await self._unwrap(keys)
        if keys[0].id not in self._keys:
            raise self._missing(keys[0].id)
        self._newest = keys[0].id
        return keys[0].id

    async def _add_data_key(self) -> str:
        """A new data key, in use from now on; or the one that another process has just created."""
        before = await self._store.data_keys()
        if not await self._wrapping.keys():
            await self._wrapping.create()
        wrapper = (await self._wrapping.keys())[0]  # read back: another process may have been quicker
        name, data_key, nonce = secrets.token_hex(8), secrets.token_bytes(KEY_BYTES), secrets.token_bytes(_NONCE)
        wrapped = nonce + _cipher(wrapper).encrypt(nonce, data_key, name.encode())
        stored = StoredDataKey(name, wrapped, key_id(wrapper), time.time())
        if not await self._store.add_data_key(stored, after=before[0].id if before else None):
            return await self._load_newest()
        self._keys[name], self._newest = data_key, name
        return name

    async def _unwrap(self, keys: Sequence[StoredDataKey] | None = None) -> None:
        """Unwrap the data keys with the available wrapping keys."""
        unknown = [key for key in keys or await self._store.data_keys() if key.id not in self._keys]
        if not unknown:
            return
        wrappers = {key_id(key): key for key in await self._wrapping.keys()}
        for data_key in unknown:
            wrapper = wrappers.get(data_key.wrapped_by)
            opened = _decrypt(wrapper, data_key.wrapped, data_key.id.encode()) if wrapper else None
            if opened is not None:
                self._keys[data_key.id] = opened

    def _seal(self, owner: str, name: str, key: str, value: bytes) -> StoredSecret:
        nonce = secrets.token_bytes(_NONCE)
        sealed = nonce + _cipher(self._keys[key]).encrypt(nonce, value, _binding(owner, name, key))
        return StoredSecret(owner, name, key, sealed, time.time())

    async def _open(self, stored: StoredSecret) -> bytes:
        if stored.key not in self._keys:
            await self._unwrap()
        key = self._keys.get(stored.key)
        if key is None:
            raise self._missing(stored.key)
        value = _decrypt(key, stored.sealed, _binding(stored.owner, stored.name, stored.key))
        if value is None:
            raise Internal(
                f"The credential '{stored.name}' in the vault is damaged.", hint="Sign in again to replace it."
            )
        return value

    def _missing(self, key: str) -> ConfigError:
        return ConfigError(
            f"The vault's key in {self._wrapping.place} does not open data key {key}: it was lost or replaced.",
            hint="Bring the earlier key back, or drop what it protected: wicket vault rotate --discard",
        )


def _binding(owner: str, name: str, key: str) -> bytes:
    """What a secret is bound to; with length prefixes, so that no two rows have the same."""
    return f"{len(owner)} {owner} {len(name)} {name} {key}".encode("utf-8", "surrogatepass")


def _decrypt(key: bytes, sealed: bytes, binding: bytes) -> bytes | None:
    """None if it was not encrypted with this key for this row."""
    cipher = _cipher(key)
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415  (70 ms, for those who keep credentials)

    try:
        return cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], binding)
    except (InvalidTag, ValueError):
        return None


def _cipher(key: bytes) -> "AESGCM":
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415  (as above)
    except ImportError:
        raise ConfigError(
            "Keeping credentials needs the package 'cryptography'.", hint="Install wicket-mcp[auth]."
        ) from None
    return AESGCM(key)
