"""Who runs a server's process: one owner; everybody else reaches it through the owner, by plain MCP.

One Protocol for workers of a machine (a file lock, here) and for replicas (a database's advisory lock). A claim ends
with the process that made it, known by the kernel or the database and never by a clock of ours. Every change of owner
has a higher epoch: it goes with every forwarded request, and an owner refuses an epoch that is not its own.
`connector.py` claims before it starts a child and releases once the child is gone. A shared daemon is one process and
needs no claim.
"""

import asyncio
import fcntl
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from wicket_mcp.codec import decode, encode
from wicket_mcp.errors import NoOwner
from wicket_mcp.model import as_object

PAUSE = 0.02  # seconds between two looks at a claim that is just being made
LOOKS = 100


class Claim(NamedTuple):
    """Who owns a server's process, since which change of owner."""

    epoch: int
    address: str = ""
    """Where its owner is reached (`http://host:port` or `unix:/path`); empty where that is us."""

    @property
    def ours(self) -> bool:
        return not self.address


class Ownership(Protocol):
    """Decides who runs the process behind a key: a server, or a server for one principal or session."""

    async def claim(self, key: str, lost: Callable[[], None]) -> Claim:
        """Own it from now on, or learn who does. A claim that is ours already stays as it is.

        `lost` is called once when our claim ends by itself: the child must be stopped at once. Raises NoOwner when
        nobody can say who owns it.
        """
        ...

    def epoch(self, key: str) -> int:
        """The epoch under which we own it; 0 where we do not."""
        ...

    async def release(self, key: str) -> None:
        """Our child is gone: somebody else may own it."""
        ...

    async def close(self) -> None:
        """Release all."""
        ...


class FileOwnership:
    """Ownership among the processes of one machine: `flock` on a file for each key, which names its owner."""

    def __init__(self, folder: Path, address: str) -> None:
        """`folder` is shared by the processes, private to their user; `address` is where this one is reached."""
        self._folder = folder
        self._address = address
        self._held: dict[str, tuple[int, int]] = {}
        """Descriptor and epoch of every key that is ours."""

    def __repr__(self) -> str:
        return f"<FileOwnership {self._address} owns {len(self._held)}>"

    async def claim(self, key: str, lost: Callable[[], None]) -> Claim:
        """See `Ownership`. `lost` is never called: the kernel keeps the lock for as long as we run."""
        for _ in range(LOOKS):
            if (claim := self._try(key)) is not None:
                return claim
            await asyncio.sleep(PAUSE)  # locked, and its owner has not said yet who it is
        hint = "Try again; it is decided by file locks in the folder of the workers."
        raise NoOwner(key, f"It is not known which gateway runs server '{key}'.", hint=hint)

    def _try(self, key: str) -> Claim | None:
        if key in self._held:
            return Claim(self._held[key][1])
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = os.open(self._path(key), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = _read(file)
            os.close(file)
            return owner if owner and owner.address else None
        except BaseException:
            os.close(file)
            raise
        before = _read(file)
        epoch = before.epoch + 1 if before else 1
        _write(file, {"epoch": epoch, "address": self._address})
        self._held[key] = file, epoch
        return Claim(epoch)

    def epoch(self, key: str) -> int:
        return self._held.get(key, (0, 0))[1]

    async def release(self, key: str) -> None:
        if key in self._held:
            file, epoch = self._held.pop(key)
            _write(file, {"epoch": epoch, "address": ""})
            os.close(file)

    async def close(self) -> None:
        for key in list(self._held):
            await self.release(key)

    def _path(self, key: str) -> Path:
        return self._folder / f"{hashlib.blake2b(key.encode(), digest_size=16).hexdigest()}.owner"


def _read(file: int) -> Claim | None:
    """What the file says; None where its owner has not said anything yet, or has just left."""
    try:
        record = as_object(decode(os.pread(file, 4096, 0)))
    except ValueError:
        return None
    epoch, address = record.get("epoch"), record.get("address")
    return Claim(epoch, address) if isinstance(epoch, int) and isinstance(address, str) else None


def _write(file: int, record: dict[str, object]) -> None:
    data = encode(record)
    os.pwrite(file, data, 0)
    os.ftruncate(file, len(data))
