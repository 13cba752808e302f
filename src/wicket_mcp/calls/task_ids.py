"""Ids of tasks as clients know them: they carry the server and its own id, and are sealed to the principal.

No state is kept: an id stays valid after a restart, because the key is a file of its own in the state folder. The empty
server stands for Wicket itself, which keeps tasks for servers that have none (`surface/local_tasks.py`). With other
gateways, the id of such a task begins with the gateway that keeps it (`gateway~`), also outside the seal, so that each
of them can forward a request.
"""

import secrets
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from wicket_mcp.codec import decode, encode
from wicket_mcp.errors import UnknownName
from wicket_mcp.files import replace_file
from wicket_mcp.model import Principal, as_list
from wicket_mcp.sealing import seal, unseal

KEY_FILE = "task-ids.key"


class TaskIds:
    """Seals and opens ids. The key is created when first needed."""

    def __init__(self, folder: Path | None) -> None:
        """Without a folder, ids are valid only as long as this object lives."""
        self._folder = folder

    def share(self, keys: Sequence[bytes]) -> None:
        """Use the keys that all replicas share, the first for sealing."""
        self._keys = tuple(keys)

    def seal(self, server: str, task: str, principal: Principal) -> str:
        keeper = "" if server else task[: task.find("~") + 1]
        return f"{keeper}{seal(self._keys[0], encode([server, task]), _binding(principal))}"

    def open(self, sealed: str, principal: Principal) -> tuple[str, str]:
        """The server and its own id. Raises UnknownName for an id that was not sealed for this principal."""
        data = unseal(self._keys, sealed.rpartition("~")[2], _binding(principal))
        fields = as_list(decode(data)) if data is not None else []
        if len(fields) != 2:
            raise UnknownName("task", sealed[:60])
        return str(fields[0]), str(fields[1])

    @cached_property
    def _keys(self) -> tuple[bytes, ...]:
        if self._folder is None:
            return (secrets.token_bytes(32),)
        path = self._folder / KEY_FILE
        try:
            return (bytes.fromhex(path.read_text("ascii").strip()),)
        except (OSError, ValueError):
            key = secrets.token_bytes(32)
            replace_file(path, key.hex())
            return (key,)


def _binding(principal: Principal) -> bytes:
    return encode(["task", principal.name])
