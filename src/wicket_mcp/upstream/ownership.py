"""Which process runs a server: one owner; all others reach it through the owner, by plain MCP.

One Protocol for the workers of a machine (a file lock, here) and for replicas (an advisory lock of the database). A
claim ends with the process that made it; the kernel or the database knows this, never a clock of ours. Every change of
owner raises the epoch. Every forwarded request carries the epoch, and an owner rejects any epoch but its own.
`connector.py` claims before it starts a child and releases once the child has ended. A shared daemon is one process and
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

PAUSE = 0.02  # seconds between two looks at a claim that is being made
LOOKS = 100


class Claim(NamedTuple):
    """The owner of a server's process, and since which change of owner."""

    epoch: int
    address: str = ""
    """Where the owner is reached (`http://host:port` or `unix:/path`); empty if we are the owner."""

    @property
    def ours(self) -> bool:
        return not self.address


class Ownership(Protocol):
    """Decides which gateway runs the process of a key: a server, or a server for one principal or session."""

    @property
    def keys(self) -> list[str]:
        """The keys that we own."""
        ...

    async def claim(self, key: str, lost: Callable[[], None]) -> Claim:
        """Own the key from now on, or get its owner. A claim that we already have stays as it is.

        `lost` is called once when our claim ends by itself: the child must be stopped at once. Raises NoOwner if the
        owner cannot be found out.
        """
        ...

    def epoch(self, key: str) -> int:
        """The epoch of our claim; 0 if we do not own the key."""
        ...

    async def release(self, key: str) -> None:
        """Our child has ended: another gateway may own the key."""
        ...

    async def close(self) -> None:
        """Release all."""
        ...


class FileOwnership:
    """Ownership among the processes of one machine: `flock` on a file per key, which names its owner."""

    def __init__(self, folder: Path, address: str) -> None:
        """`folder` is shared by the processes and private to their user; `address` is this process's address."""
        self._folder = folder
        self._address = address
        self._held: dict[str, tuple[int, int]] = {}
        """The descriptor and epoch of every key that we own."""
        self._closed = False

    def __repr__(self) -> str:
        return f"<FileOwnership {self._address} owns {len(self._held)}>"

    @property
    def keys(self) -> list[str]:
        return list(self._held)

    async def claim(self, key: str, lost: Callable[[], None]) -> Claim:
        """See `Ownership`. `lost` is never called: the kernel keeps the lock as long as we run."""
        for _ in range(LOOKS):
            if (claim := self._try(key)) is not None:
                return claim
            await asyncio.sleep(PAUSE)  # locked, but the owner has not written its address yet
        hint = "Try again; it is decided by file locks in the folder of the workers."
        raise NoOwner(key, f"It is not known which gateway runs server '{key}'.", hint=hint)

    def _try(self, key: str) -> Claim | None:
        if key in self._held:
            return Claim(self._held[key][1])
        if self._closed:
            raise NoOwner(key, f"This gateway is stopping and does not start server '{key}'.", hint="Try again.")
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
        self._closed = True
        for key in list(self._held):
            await self.release(key)

    def _path(self, key: str) -> Path:
        return self._folder / f"{hashlib.blake2b(key.encode(), digest_size=16).hexdigest()}.owner"


def _read(file: int) -> Claim | None:
    """The claim in the file; None if its owner has not written one yet, or has just ended."""
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
