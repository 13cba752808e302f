"""Where the key that protects the vault comes from: a file, the system's keyring, or an environment variable.

A source holds one key or, while `wicket vault rotate` works, several: the first wraps, the others only unwrap. Keys are
32 random bytes, written as base64 (`key_file.py`). Called by `vault.py` and for what replicas share.
"""

import asyncio
import fcntl
import hashlib
import os
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Protocol

from wicket_mcp.config.model.config import Config
from wicket_mcp.errors import ConfigError
from wicket_mcp.files import replace_file
from wicket_mcp.identity.key_file import MAKE_ONE, create_key, format_keys, new_key, parse_keys, read_keys

VARIABLE = "WICKET_VAULT_KEY"
KEY_FILE = "vault.key"
_LOOK = 0.05  # seconds


class Wrapping(Protocol):
    """A source of wrapping keys."""

    @property
    def place(self) -> str:
        """Where the keys are, as text for a person; never a key."""
        ...

    @property
    def writable(self) -> bool:
        """Whether we may store a new key there."""
        ...

    async def keys(self) -> list[bytes]:
        """The keys, the one in use first; empty if there is none yet. Raises ConfigError."""
        ...

    async def create(self) -> None:
        """Store a first key, unless another process was quicker. Raises ConfigError."""
        ...

    async def store(self, keys: list[bytes]) -> None:
        """Use these keys from now on. Raises ConfigError."""
        ...


def wrapping(config: Config) -> Wrapping:
    """The source that the configuration and the environment select. Reads nothing yet."""
    if os.environ.get(VARIABLE):
        return FromEnvironment()
    if config.vault.key == "keyring":
        return FromKeyring(config.state_path)
    return FromFile(config.state_path / KEY_FILE)


def key_id(key: bytes) -> str:
    """A name for a key, stored beside what it wraps; reveals nothing about the key."""
    return hashlib.sha256(b"wicket vault key" + key).hexdigest()[:16]


class FromEnvironment:
    """`WICKET_VAULT_KEY`: one key, or several separated by commas."""

    place = f"the variable {VARIABLE}"
    writable = False

    async def keys(self) -> list[bytes]:
        return parse_keys(os.environ.get(VARIABLE, ""), self.place)

    async def create(self) -> None:
        raise ConfigError(f"{VARIABLE} is empty.", hint=MAKE_ONE)

    async def store(self, keys: list[bytes]) -> None:
        raise ConfigError(
            f"The vault's key is in {VARIABLE}, which Wicket cannot change.",
            hint="Put a new key before the old one, with a comma between them, and run this again.",
        )


class FromFile:
    """A file beside the state, readable only by its owner: one key per line."""

    writable = True

    def __init__(self, path: Path) -> None:
        self._path = path
        self.place = str(path)

    async def keys(self) -> list[bytes]:
        return read_keys(self._path)

    async def create(self) -> None:
        create_key(self._path)

    async def store(self, keys: list[bytes]) -> None:
        replace_file(self._path, format_keys(keys))


class FromKeyring:
    """The system's keyring: one entry for each state folder. It may prompt its user, so it is called in a thread."""

    place = "the system's keyring"
    writable = True

    def __init__(self, state: Path) -> None:
        self._state = state.absolute()
        self._entry = f"vault of {self._state}"

    async def keys(self) -> list[bytes]:
        text: str | None = await self._ask("get_password")
        return parse_keys(text, self.place) if text else []

    async def create(self) -> None:
        with await _lock(self._state):  # a keyring cannot refuse to replace a key
            if not await self.keys():
                await self.store([new_key()])

    async def store(self, keys: list[bytes]) -> None:
        await self._ask("set_password", format_keys(keys).strip())

    async def _ask(self, method: str, *values: str) -> Any:
        try:
            keyring = import_module("keyring")  # an optional package
        except ImportError:
            raise ConfigError(
                "the package 'keyring' is not installed",
                key="vault.key",
                hint='Install it (pip install keyring), or use key = "file".',
            ) from None
        try:
            return await asyncio.to_thread(getattr(keyring, method), "wicket", self._entry, *values)
        except Exception as problem:  # noqa: BLE001  (every backend has errors of its own)
            raise ConfigError(
                f"the system's keyring cannot be used ({type(problem).__name__})",
                key="vault.key",
                hint=f'Unlock it, or use key = "file" or {VARIABLE}.',
            ) from None


async def _lock(folder: Path) -> IO[bytes]:
    """Held by one process at a time, until the file is closed. Raises ConfigError."""
    file = _open_lock(folder)
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            await asyncio.sleep(_LOOK)  # no thread waits, because the holder may need one for its keyring
        else:
            return file


def _open_lock(folder: Path) -> IO[bytes]:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return (folder / ".vault.lock").open("wb")
    except OSError as problem:
        raise ConfigError(
            f"cannot be written: {problem.strerror}.", file=str(folder), hint="Check the folder's permissions."
        ) from None
