"""The workers of one machine as members: each holds a lock (`flock`) on a file with its address.

The kernel releases a lock when its process ends for any reason, so a file that can be locked belongs to a dead worker
and is removed. There are no suspects on one machine. The folder belongs to the master (`workers.py`), for its own
workers. Implements `cluster/members.py`.
"""

import asyncio
import fcntl
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from wicket_mcp.cluster.members import Member
from wicket_mcp.tasks import Tasks

LOOK_EVERY = 0.25
ENDING = ".member"


class FileMembers:
    """Open it with `FileMembers.join(...)`."""

    def __init__(self, folder: Path, me: str, address: str) -> None:
        self.me = me
        self.all: Mapping[str, Member] = {}
        self.suspects: Mapping[str, Member] = {}
        self.problem = ""
        self.on_change: list[Callable[[], None]] = []
        self._folder = folder
        self._address = address
        self._file = -1
        self._tasks = Tasks()

    def __repr__(self) -> str:
        return f"<FileMembers {self.me} among {len(self.all)}>"

    @classmethod
    async def join(cls, folder: Path, me: str, address: str) -> "FileMembers":
        members = cls(folder, me, address)
        # Written under another name first: a file that others see is complete and locked.
        new_path = folder / f"{me}.new"
        members._file = os.open(new_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(members._file, fcntl.LOCK_EX)
        os.write(members._file, address.encode())
        new_path.rename(members._path(me))
        members._look()
        members._tasks.start(members._stay(), "see other workers")
        return members

    def clock(self) -> float:
        return time.time()

    async def look(self) -> bool:
        self._look()
        return True

    async def forget(self, member: Member) -> None:
        """There are no suspects here."""

    async def leave(self) -> None:
        with suppress(FileNotFoundError):
            self._path(self.me).unlink()

    async def close(self) -> None:
        await self.leave()
        await self._tasks.close()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    async def _stay(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY)
            self._look()

    def _look(self) -> None:
        addresses = {path.stem: self._read(path) for path in self._folder.glob(f"*{ENDING}")}
        members = {number: Member(number, address) for number, address in addresses.items() if address}
        if members != self.all:
            self.all = members
            for hear in self.on_change:
                hear()

    def _read(self, path: Path) -> str:
        """The address of the worker whose file it is; empty if it is dead."""
        if path.stem == self.me:
            return self._address
        try:
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return ""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return os.pread(file, 4096, 0).decode()
        else:
            path.unlink(missing_ok=True)
            return ""
        finally:
            os.close(file)

    def _path(self, member: str) -> Path:
        return self._folder / f"{member}{ENDING}"
