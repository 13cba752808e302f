"""Keys in a file of the state folder, readable only by its owner: 32 random bytes as base64, one key per line.

The first key is the one in use. A file is created with one key, once among all processes that want it. Used for the
vault's key (`wrapping.py`) and for the keys with which a gateway seals what clients carry for it (`sealing.py`).
"""

import base64
import binascii
import contextlib
import logging
import os
import re
import secrets
from collections.abc import Sequence
from pathlib import Path

from wicket_mcp.errors import ConfigError
from wicket_mcp.files import check_owner, replace_file

log = logging.getLogger(__name__)

KEY_BYTES = 32
MAKE_ONE = "Make a key with: openssl rand -base64 32"
SEALING_KEYS = "sealing.key"


def sealing_keys(folder: Path) -> list[bytes]:
    """The keys of a state folder for sealing, created if there are none. Raises ConfigError."""
    path = folder / SEALING_KEYS
    keys = read_keys(path)
    if not keys:
        create_key(path)
        keys = read_keys(path)
    return keys


def sealing_keys_or_temporary(folder: Path) -> list[bytes]:
    """Those, or one for the life of this process: a call that was made must not fail because a disk is full."""
    try:
        return sealing_keys(folder)
    except ConfigError as problem:
        log.warning("handles of results and ids of tasks are valid only until Wicket stops: %s", problem)
        return [new_key()]


def new_key() -> bytes:
    return secrets.token_bytes(KEY_BYTES)


def read_keys(path: Path) -> list[bytes]:
    """The keys in a file; empty if there is no file. Raises ConfigError."""
    try:
        check_owner(path)
        text = path.read_text("ascii")
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
    except FileNotFoundError:
        return []
    except (OSError, ValueError):
        raise ConfigError("its keys cannot be read.", file=str(path), hint="Check its owner and permissions.") from None
    return parse_keys(text, str(path))


def create_key(path: Path) -> None:
    """Write a first key, unless another process was quicker. Raises ConfigError."""
    draft = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    replace_file(draft, format_keys([new_key()]))
    try:
        os.link(draft, path)  # unlike a rename, it never replaces a key that is already in use
    except FileExistsError:
        return
    except OSError as problem:
        raise ConfigError(
            f"cannot be written: {problem.strerror}.", file=str(path), hint="Check the folder's permissions."
        ) from None
    finally:
        draft.unlink(missing_ok=True)


def format_keys(keys: Sequence[bytes]) -> str:
    return "".join(f"{base64.b64encode(key).decode()}\n" for key in keys)


def parse_keys(text: str, place: str) -> list[bytes]:
    """The keys in a text, separated by commas or space. Raises ConfigError, which names the `place`."""
    keys: list[bytes] = []
    for part in filter(None, re.split(r"[\s,]+", text)):
        with contextlib.suppress(binascii.Error, ValueError):
            keys.append(base64.b64decode(part.replace("-", "+").replace("_", "/") + "=" * (-len(part) % 4)))
    if not keys or any(len(key) != KEY_BYTES for key in keys):
        raise ConfigError(f"What is in {place} is not a key of 32 bytes in base64.", hint=MAKE_ONE)
    return keys
