"""A keyring whose entries are lines of a file: what a system's keyring is to a program, where a machine has none.

Chosen by PYTHON_KEYRING_BACKEND; the file is named by FILE_KEYRING.
"""

import json
import os
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
