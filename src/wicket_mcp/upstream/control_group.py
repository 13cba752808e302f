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
from collections.abc import Mapping, Sequence
from pathlib import Path

log = logging.getLogger(__name__)

_MOUNTS = Path("/proc/self/mountinfo")
_OWN = Path("/proc/self/cgroup")
_numbers = itertools.count(1)
_ENTER = '{ echo 0 > "$0"; } 2> /dev/null; unset PWD OLDPWD SHLVL; exec "$@"'
"""0 is the writer itself. A shell adds variables of its own."""


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

    def prepare(self) -> Path | None:
        """An empty group for a child that is about to start; None if that was refused."""
        self._sweep()
        group = self.home / str(next(_numbers))
        try:
            group.mkdir()
        except OSError as problem:
            log.debug("no control group for a child: %s", problem)
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


def in_group(group: Path, command: Sequence[str]) -> tuple[str, ...]:
    """A command that enters the group and becomes `command`: nothing that it starts can be outside."""
    return "/bin/sh", "-c", _ENTER, str(group / "cgroup.procs"), *command


def is_program(command: str, environment: Mapping[str, str], folder: str | None) -> bool:
    """Whether the kernel can run `command` in `folder`. If not, only an attempt without a shell tells why."""
    if folder is not None and not Path(folder).is_dir():
        return False
    places = ("",) if "/" in command else os.get_exec_path(environment)
    for place in places:
        file = Path(folder or "", place, command)
        try:
            if os.access(file, os.X_OK) and file.is_file():
                with file.open("rb") as content:
                    return content.read(4).startswith((b"#!", b"\x7fELF"))
        except OSError:
            return False
    return False


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
