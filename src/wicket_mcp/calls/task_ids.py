"""Ids of tasks as clients know them: they carry the server and its own id, and are sealed to the principal.

Nothing is kept: an id means the same after a restart, because the key is a file of its own in the state folder. The
empty server stands for Wicket itself, which keeps tasks for servers that have none (`surface/local_tasks.py`).
"""

import base64
import hmac
import secrets
from functools import cached_property
from pathlib import Path

from wicket_mcp.codec import decode, encode
from wicket_mcp.errors import UnknownName
from wicket_mcp.files import replace_file
from wicket_mcp.model import Principal, as_list

KEY_FILE = "task-ids.key"


class TaskIds:
    """Seals and opens ids. The key is made when the first one is needed."""

    def __init__(self, folder: Path | None) -> None:
        """Without a folder, ids mean something as long as this object lives."""
        self._folder = folder

    def seal(self, server: str, task: str, principal: Principal) -> str:
        body = _text(encode([server, task]))
        return f"{body}.{self._sign(body, principal)}"

    def open(self, sealed: str, principal: Principal) -> tuple[str, str]:
        """Server and its own id. Raises UnknownName for what was not sealed for this principal."""
        body, _, signature = sealed.partition(".")
        genuine = hmac.compare_digest(self._sign(body, principal).encode(), signature.encode("utf-8", "replace"))
        fields = as_list(decode(_bytes(body))) if genuine else []
        if len(fields) != 2:
            raise UnknownName("task", sealed[:60])
        return str(fields[0]), str(fields[1])

    def _sign(self, body: str, principal: Principal) -> str:
        message = encode([principal.name, body])
        return _text(hmac.digest(self._key, message, "sha256")[:16])

    @cached_property
    def _key(self) -> bytes:
        if self._folder is None:
            return secrets.token_bytes(32)
        path = self._folder / KEY_FILE
        try:
            return bytes.fromhex(path.read_text("ascii").strip())
        except (OSError, ValueError):
            key = secrets.token_bytes(32)
            replace_file(path, key.hex())
            return key


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
