"""A keyring whose entries are lines of a file: what a system's keyring is to a program, where a machine has none.

Chosen by PYTHON_KEYRING_BACKEND; the file is named by FILE_KEYRING.
"""

import json
import os
import threading
from pathlib import Path

from keyring.backend import KeyringBackend
from keyring.errors import PasswordDeleteError


class FileKeyring(KeyringBackend):
    priority = 1  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]

    def get_password(self, service: str, username: str) -> str | None:
        return self._entries.get(f"{service} {username}")

    def set_password(self, service: str, username: str, password: str) -> None:
        self._file.write_text(json.dumps({**self._entries, f"{service} {username}": password}))

    def delete_password(self, service: str, username: str) -> None:
        entries = self._entries
        if entries.pop(f"{service} {username}", None) is None:
            raise PasswordDeleteError
        self._file.write_text(json.dumps(entries))

    @property
    def _file(self) -> Path:
        return Path(os.environ["FILE_KEYRING"])

    @property
    def _entries(self) -> dict[str, str]:
        return json.loads(self._file.read_text()) if self._file.exists() else {}


class AsksItsUser(KeyringBackend):
    """A keyring that is locked: it answers once its user has typed a password."""

    priority = 1  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]

    def __init__(self, **entries: str) -> None:
        super().__init__()
        self.entries = entries
        self.asked_for: list[str] = []
        self.asked = threading.Event()
        self.unlocked = threading.Event()
        self.gave_up = False

    def get_password(self, service: str, username: str) -> str | None:
        self.asked_for.append(username)
        self.asked.set()
        self.gave_up |= not self.unlocked.wait(20)
        return self.entries.get(username)

    def set_password(self, service: str, username: str, password: str) -> None:
        self.entries[username] = password
