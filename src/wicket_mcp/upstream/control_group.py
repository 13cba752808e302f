"""A control group (cgroup v2) for each child, where we may make one: what a child starts cannot leave it.

A process group ends who stays in it; a daemon leaves it, and the pipes it holds stay open. A control group has all of
them, and the kernel ends them at once. There is one to make where the group that we run in is ours to divide: as root,
in a service with `Delegate=yes`, in most containers that may write below /sys/fs/cgroup. Anywhere else there is none,
and process groups have to do. Used by `keeper.py`; knows no server.
"""

import contextlib
import itertools
import logging
import os
from pathlib import Path

log = logging.getLogger(__name__)

_MOUNTS = Path("/proc/self/mountinfo")
_OWN = Path("/proc/self/cgroup")
_numbers = itertools.count(1)


class ControlGroups:
    """Ours, below the group that we run in, and in it one for each child."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._ended: set[Path] = set()
        """Groups in which somebody is still dying; the kernel lets them go afterwards."""

    def __repr__(self) -> str:
        return f"<ControlGroups {self.home}>"

    @classmethod
    def make(cls) -> "ControlGroups | None":
        """None where we may not."""
        parent = _own_group()
        if parent is None:
            return None
        home = parent / f"wicket-{os.getpid()}-{next(_numbers)}"
        try:
            home.mkdir(exist_ok=True)
            if not (home / "cgroup.kill").exists():  # a kernel before 5.14
                home.rmdir()
                return None
        except OSError:
            return None
        return cls(home)

    def place(self, pid: int) -> Path | None:
        """Put a child that has just been started into a group of its own; None where that was refused."""
        self._sweep()
        group = self.home / str(pid)
        try:
            group.mkdir(exist_ok=True)
            (group / "cgroup.procs").write_text(str(pid))
        except OSError as problem:
            log.debug("no control group for process %d: %s", pid, problem)
            with contextlib.suppress(OSError):
                group.rmdir()
            return None
        return group

    def kill(self, group: Path) -> None:
        """End everybody in it."""
        with contextlib.suppress(OSError):
            (group / "cgroup.kill").write_text("1")
        self._ended.add(group)
        self._sweep()

    def close(self) -> None:
        for group in self._groups():
            self.kill(group)
        with contextlib.suppress(OSError):
            self.home.rmdir()

    def _groups(self) -> list[Path]:
        try:
            return [path for path in self.home.iterdir() if path.is_dir()]
        except OSError:
            return []

    def _sweep(self) -> None:
        for group in tuple(self._ended):
            try:
                group.rmdir()
            except FileNotFoundError:
                self._ended.discard(group)
            except OSError:  # somebody is still dying
                continue
            self._ended.discard(group)


def _own_group() -> Path | None:
    """The folder of the group that we run in; None where version 2 is not mounted."""
    try:
        own = next(line[3:] for line in _OWN.read_text("utf-8").splitlines() if line.startswith("0::"))
        for line in _MOUNTS.read_text("utf-8").splitlines():
            fields = line.split(" ")
            if "cgroup2" in fields[fields.index("-") :][:2]:
                root, point = fields[3], fields[4]
                return Path(point) / os.path.relpath(own, root)
    except (OSError, StopIteration, ValueError, IndexError):
        pass
    return None
