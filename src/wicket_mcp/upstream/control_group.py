"""A control group (cgroup v2) for each child, if we may create one: processes that a child starts cannot leave it.

Killing a process group misses a daemon that has left the group, and its pipes stay open. A control group contains them
all, and the kernel kills them at once. We can create one if we may divide our own group: as root, in a service with
`Delegate=yes`, and in most containers that may write below /sys/fs/cgroup. Elsewhere only process groups are used. Used
by `keeper.py`; knows no server.
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
    """Our control group, below the one that we run in, with a subgroup for each child."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._ended: set[Path] = set()
        """Groups with processes that are still ending; they are removed afterwards."""

    def __repr__(self) -> str:
        return f"<ControlGroups {self.home}>"

    @classmethod
    def make(cls) -> "ControlGroups | None":
        """Create our group; None if we may not."""
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
        """Put a child that has just started into its own group; None if that was refused."""
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
        """Kill every process in the group."""
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
            except OSError:  # a process is still ending
                continue
            self._ended.discard(group)


def _own_group() -> Path | None:
    """The folder of the group that we run in; None if cgroup version 2 is not mounted."""
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
