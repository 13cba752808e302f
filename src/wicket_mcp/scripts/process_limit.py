"""A control group for each script that starts processes: the kernel refuses a fork beyond its limit.

`ControlGroups.make` finds a place for the groups: the `pids` controller of cgroup version 1, or of version 2 if we run
in the root group; below it, a limit would keep the groups of servers (`upstream/control_group.py`) from working. The
zygote makes a group before it forks and removes it afterwards; the child enters it before it is confined. Where there
is no such place, the jail uses RLIMIT_NPROC, and the gateway ends a child with too many processes (`child.py`). Knows
nothing about scripts.
"""

import contextlib
import os
from pathlib import Path

MOST = 300
"""Processes and threads of one script. An engine starts a few, and threads for each core."""
_ENTRANCE = "cgroup.procs"
_LIMIT = "pids.max"
_NAME = "wicket-scripts-"


class ControlGroups:
    """The groups of one zygote, in a folder of the kernel's."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._ended: set[Path] = set()
        """Groups with processes that are still ending; they are removed afterwards."""

    @classmethod
    def make(cls) -> "ControlGroups | None":
        """None if this system gives us no place for them."""
        for parent in _parents():
            _remove_stale(parent)
            home = parent / f"{_NAME}{os.getpid()}"
            groups = cls(home)
            with contextlib.suppress(OSError):
                home.mkdir(exist_ok=True)
                _hand_down(home)
                if (probe := groups.add(0)) is not None:
                    groups.remove(probe)
                    return groups
            with contextlib.suppress(OSError):
                home.rmdir()
        return None

    def add(self, number: int) -> Path | None:
        """A new group with its limit; None if the kernel refuses."""
        self._sweep()
        group = self._home / str(number)
        try:
            group.mkdir()
            (group / _LIMIT).write_text(str(MOST), "ascii")
        except OSError:
            with contextlib.suppress(OSError):
                group.rmdir()
            return None
        return group

    def remove(self, group: Path) -> None:
        self._ended.add(group)
        self._sweep()

    def close(self) -> None:
        self._sweep()
        with contextlib.suppress(OSError):
            self._home.rmdir()

    def _sweep(self) -> None:
        for group in tuple(self._ended):
            try:
                group.rmdir()
            except FileNotFoundError:
                pass
            except OSError:  # a process is still ending
                continue
            self._ended.discard(group)


def enter(group: Path) -> bool:
    """Put this process, and everything it will start, into the group."""
    try:
        (group / _ENTRANCE).write_text("0", "ascii")
    except OSError:
        return False
    return True


def _parents() -> list[Path]:
    """Our own groups that may have the controller: version 1, then version 2."""
    try:
        own = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text("utf-8").splitlines()]
        mounts = [line.split(" ") for line in Path("/proc/self/mountinfo").read_text("utf-8").splitlines()]
    except OSError:
        return []
    parents: list[Path] = []
    for _, controllers, path in own:
        kind = "cgroup" if "pids" in controllers.split(",") else "cgroup2" if not controllers else ""
        for fields in mounts:
            end = fields.index("-")
            if fields[end + 1] == kind and (kind == "cgroup2" or "pids" in fields[end + 3].split(",")):
                parents.append(Path(fields[4]) / os.path.relpath(path, fields[3]))
    return parents


def _remove_stale(parent: Path) -> None:
    """Remove what a zygote that was killed left behind."""
    with contextlib.suppress(OSError):
        for home in parent.glob(f"{_NAME}*"):
            if not Path("/proc", home.name.removeprefix(_NAME)).exists():
                for group in (*home.glob("[0-9]*"), home):
                    with contextlib.suppress(OSError):
                        group.rmdir()


def _hand_down(home: Path) -> None:
    """In version 2, a group has a controller only if every group above hands it down. Raises OSError if one cannot.

    Below the root, a group with processes in it could do so too, but then no group below it could be killed at once.
    """
    for group in (home.parent, home):
        control = group / "cgroup.subtree_control"
        if control.exists() and "pids" not in control.read_text("ascii").split():
            if (group / "cgroup.type").exists() and (group / _ENTRANCE).read_text("ascii"):
                raise OSError(f"{group} has processes in it")
            control.write_text("+pids", "ascii")
