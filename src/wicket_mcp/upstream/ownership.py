"""Which process runs a server: one owner; all others reach it through the owner, by plain MCP.

One Protocol for the workers of a machine (a file lock, here) and for replicas (an advisory lock of the database). A
claim ends with the process that made it; the kernel or the database knows this, never a clock of ours. Every change of
owner raises the epoch. Every forwarded request carries the epoch, and an owner rejects any epoch but its own.
`connector.py` claims before it starts a child and releases once the child has ended. An owner that stands still answers
nobody and ends nothing: whoever waits for it reports it (`doubt`). A shared daemon is one process and needs no claim.
"""

import asyncio
import fcntl
import hashlib
import logging
import os
import signal
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from wicket_mcp.codec import decode, encode
from wicket_mcp.errors import NoOwner
from wicket_mcp.model import JsonObject, as_object

if TYPE_CHECKING:
    from wicket_mcp.cluster.pulse import Answers

log = logging.getLogger(__name__)

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

    async def doubt(self, key: str, claim: Claim) -> bool:
        """The owner of this claim owes an answer and is silent. End its claims if it stands still; whether they did."""
        ...

    async def release(self, key: str, epoch: int) -> None:
        """Our child has ended: another gateway may own the key, unless we own it again since, under another epoch."""
        ...

    async def close(self) -> None:
        """Release all."""
        ...


class FileOwnership:
    """Ownership among the processes of one machine: `flock` on a file per key, which names its owner."""

    def __init__(self, folder: Path, address: str, answers: "Answers") -> None:
        """`folder` is shared by the processes and private to their user; `address` is this process's address."""
        self._answers = answers
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
        with ExitStack() as closing:
            file = os.open(self._path(key), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            closing.callback(os.close, file)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                owner = _read(file)
                return owner if owner and owner.address else None
            before = _read(file)
            epoch = before.epoch + 1 if before else 1
            _write(file, {"epoch": epoch, "address": self._address, "pid": os.getpid()})
            closing.pop_all()
        self._held[key] = file, epoch
        return Claim(epoch)

    async def doubt(self, key: str, claim: Claim) -> bool:
        """See `Ownership`. A process that stands still is killed: the kernel releases its locks, its servers end with
        it, and its master starts another one.
        """
        if await self._answers(claim.address):
            return False
        process = self._process_at(claim.address)
        if process:
            log.warning("process %d stands still and is killed: it runs what others wait for", process)
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        return bool(process)

    def _process_at(self, address: str) -> int:
        """The process that owns something under this address; 0 if there is none (any more)."""
        for path in self._folder.glob("*.owner"):
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:  # who wrote it still runs, so that its number is no other's
                record = _read_record(file)
                process = record.get("pid")
                if record.get("address") == address and isinstance(process, int) and process > 1:
                    return process
            finally:
                os.close(file)
        return 0

    def epoch(self, key: str) -> int:
        return self._held.get(key, (0, 0))[1]

    async def release(self, key: str, epoch: int) -> None:
        if self.epoch(key) == epoch:
            file, _ = self._held.pop(key)
            _write(file, {"epoch": epoch, "address": ""})
            os.close(file)

    async def close(self) -> None:
        self._closed = True
        for key, (_, epoch) in list(self._held.items()):
            await self.release(key, epoch)

    def _path(self, key: str) -> Path:
        return self._folder / f"{hashlib.blake2b(key.encode(), digest_size=16).hexdigest()}.owner"


def _read(file: int) -> Claim | None:
    """The claim in the file; None if its owner has not written one yet, or has just ended."""
    record = _read_record(file)
    epoch, address = record.get("epoch"), record.get("address")
    return Claim(epoch, address) if isinstance(epoch, int) and isinstance(address, str) else None


def _read_record(file: int) -> JsonObject:
    try:
        return as_object(decode(os.pread(file, 4096, 0)))
    except ValueError:
        return {}


def _write(file: int, record: dict[str, object]) -> None:
    data = encode(record)
    os.pwrite(file, data, 0)
    os.ftruncate(file, len(data))
