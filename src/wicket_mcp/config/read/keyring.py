"""The system's keyring (macOS Keychain, Secret Service, KWallet), where secrets of configured servers can be stored.

One entry for each name, all under the service `wicket`. Values are cached for a minute, because every search checks
which servers lack a secret. Loaded for `${keyring:NAME}` and `wicket secret`; the package is an extra.
"""

import time
from importlib import import_module
from typing import Any

from wicket_mcp.errors import ConfigError

SERVICE = "wicket"
_KEPT_FOR = 60.0
_kept: dict[str, tuple[float, str]] = {}


def read(name: str) -> str | None:
    """The secret of this name, or None. Raises ConfigError if there is no keyring."""
    known = _kept.get(name)
    if known is not None and time.monotonic() - known[0] < _KEPT_FOR:
        return known[1]
    value: str | None = _ask("get_password", name)
    if value is not None:
        _kept[name] = time.monotonic(), value
    return value


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
