"""The system's keyring (macOS Keychain, Secret Service, KWallet), where secrets of configured servers can be stored.

One entry for each name, all under the service `wicket`. A keyring may ask its user to unlock it, and answer minutes
later: who has an event loop reads with `load`, and looks at what is known with `peek`. Values are kept for a minute,
and that there is none for some seconds. Loaded for `${keyring:NAME}` and `wicket secret`; the package is an extra.
"""

import asyncio
import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future
from importlib import import_module
from typing import Any

from wicket_mcp.errors import ConfigError

SERVICE = "wicket"
_KEPT_FOR = 60.0
_MISSING_FOR = 5.0  # seconds: soon after `wicket secret set`, it is found
Entry = str | ConfigError | None
"""A secret, None if the keyring has none of this name, or why it cannot be asked."""
_kept: dict[str, tuple[float, Entry]] = {}
"""What the keyring answered, and until when that counts."""
_asked: dict[str, "Future[Entry]"] = {}
_one_at_a_time = threading.Lock()


def read(name: str) -> str | None:
    """The secret of this name, or None. Raises ConfigError if there is no keyring."""
    return value_of(_read(name))


def value_of(entry: Entry) -> str | None:
    """Raises ConfigError."""
    if isinstance(entry, ConfigError):
        raise entry
    return entry


def peek(name: str) -> tuple[Entry] | None:
    """What the keyring answered lately; None if it has not been asked."""
    until, entry = _kept.get(name, (0.0, None))
    return (entry,) if time.monotonic() < until else None


async def load(names: Iterable[str]) -> dict[str, Entry]:
    """These entries. The keyring is asked in a thread of its own, once for all who wait for an entry, and a program may
    end while it is being asked.
    """
    return {name: await asyncio.shield(asyncio.wrap_future(_begin(name))) for name in names}


def _begin(name: str) -> "Future[Entry]":
    asking = _asked.get(name)
    if asking is None or asking.done():
        asking = _asked[name] = Future()
        threading.Thread(target=_answer, args=(name, asking), name="wicket-keyring", daemon=True).start()
    return asking


def _answer(name: str, asking: "Future[Entry]") -> None:
    with _one_at_a_time:  # not every backend may be used by two threads
        asking.set_result(_read(name))


def _read(name: str) -> Entry:
    if (answer := peek(name)) is not None:
        return answer[0]
    entry: Entry
    try:
        entry = _ask("get_password", name)
    except ConfigError as problem:
        entry = problem
    _kept[name] = time.monotonic() + (_KEPT_FOR if isinstance(entry, str) else _MISSING_FOR), entry
    return entry


def write(name: str, value: str) -> None:
    """Store a secret. Raises ConfigError if there is no keyring."""
    _ask("set_password", name, value)
    _kept.pop(name, None)


def remove(name: str) -> None:
    """Delete a secret. Raises ConfigError if there is no keyring."""
    _ask("delete_password", name)
    _kept.pop(name, None)


def is_usable() -> bool:
    """Whether secrets can be stored: the package is installed, and the system has a keyring."""
    try:
        backend: Any = import_module("keyring").get_keyring()
    except Exception:  # noqa: BLE001  (no package, or a backend that cannot be loaded)
        return False
    return backend.priority > 0


def _ask(method: str, *values: str) -> Any:
    try:
        keyring = import_module("keyring")  # an optional package
    except ImportError:
        raise ConfigError(
            "the package 'keyring' is not installed", hint="pip install 'wicket-mcp[keyring]', or use ${env:NAME}."
        ) from None
    try:
        return getattr(keyring, method)(SERVICE, *values)
    except Exception as problem:  # noqa: BLE001  (every backend has errors of its own)
        raise ConfigError(
            f"the system's keyring cannot be used ({type(problem).__name__})",
            hint="Unlock it, or use ${env:NAME} or ${file:path}.",
        ) from None
