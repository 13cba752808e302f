"""The gateway's own token: a file in the state folder, created once, or a variable that replicas share.

Read by who serves (`guard.py` checks it) and by `wicket dashboard`, which must open at once: imports nothing else.
"""

import os
import secrets
from pathlib import Path

from wicket_mcp.errors import ConfigError
from wicket_mcp.files import check_owner, claim_folder

TOKEN_VARIABLE = "WICKET_TOKEN"  # noqa: S105  (its name)
SHORTEST_TOKEN = 16


def load_token(folder: Path) -> tuple[str, Path | str]:
    """The gateway's token and its source: a file created at the first start, or the variable that replicas share."""
    if named := os.environ.get(TOKEN_VARIABLE, "").strip():
        if len(named) < SHORTEST_TOKEN:
            raise ConfigError("the token is too short", key=TOKEN_VARIABLE, hint="openssl rand -base64 32")
        return named, TOKEN_VARIABLE
    path = folder / "token"
    claim_folder(folder)
    if not path.exists():
        _create_token(path)
    check_owner(path)
    token = path.read_text("utf-8").strip()
    if len(token) < SHORTEST_TOKEN:
        raise ConfigError("the token is too short", file=str(path), hint="Delete the file; a new one is made.")
    if path.stat().st_mode & 0o077:
        path.chmod(0o600)
    return token, path


def _create_token(path: Path) -> None:
    """Write a new token atomically; if another process has already created one, that one stays."""
    draft = path.with_name(f".token-{secrets.token_hex(8)}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secrets.token_urlsafe(32))
    try:
        os.link(draft, path)  # unlike a rename, it never replaces a token that is already in use
    except FileExistsError:
        return
    finally:
        draft.unlink()
