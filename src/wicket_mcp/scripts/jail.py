"""The jail around a script's process: rlimits, no_new_privs, Landlock and a seccomp allow-list, by ctypes.

`confine` is called in the child, after its imports and before it reads a byte of the script. `strength` reports what
this system supports. If the kernel lacks a protection, the others still apply, and the caller reports it. Knows nothing
about scripts.
"""

import contextlib
import ctypes
import os
import resource
import signal
import stat
import struct
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import msgspec

from wicket_mcp.scripts import mounts, process_limit, seccomp
from wicket_mcp.scripts.seccomp import libc

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38

_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_EXECUTE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 2, 1 << 3
_PT_INTERP = 3

_FIRST_USER, _USERS = 61_184, 4336
"""Ids that systems reserve for users that exist only while something runs."""


class JailError(Exception):
    """A protection that this system supports could not be applied."""


class Strength(msgspec.Struct, frozen=True):
    """Which protections this system has. A separate process, kill and rlimits are always available on POSIX."""

    landlock: int
    """The Landlock ABI; 0 if the kernel has none."""
    seccomp: bool
    pidfd: bool
    mounts: bool = True
    """Whether the processes of Python scripts can have their own file system. Without it they can find out which paths
    exist, but nothing more: the jail is still complete."""

    @property
    def complete(self) -> bool:
        return not self.missing

    @property
    def missing(self) -> tuple[str, ...]:
        walls = (
            ("Landlock", self.landlock >= 1),
            ("Landlock network rules", self.landlock >= 4 or self.landlock == 0),
            ("seccomp", self.seccomp),
            ("pidfd", self.pidfd),
        )
        return tuple(name for name, stands in walls if not stands)

    def __str__(self) -> str:
        if self.complete:
            unseen = (
                "" if self.mounts else "; Python scripts can see which paths exist, because there is no mount namespace"
            )
            return f"full (own process, rlimits, no_new_privs, Landlock {self.landlock}, seccomp){unseen}"
        return (
            f"degraded: this system has no {', no '.join(self.missing)}; scripts still run in their own limited process"
        )


@cache
def strength() -> Strength:
    """What this system supports, without changing anything."""
    if sys.platform != "linux":
        return Strength(0, False, False, mounts=False)
    return Strength(_landlock_abi(), seccomp.available(), hasattr(os, "pidfd_open"), mounts.available())


def confine(*, memory: int, cpu: float) -> None:
    """Apply every protection that this system has, permanently. Raises JailError if one of them fails."""
    available = strength()
    limit_resources(memory=memory, cpu=cpu)
    leave_root()
    seal()
    if available.landlock:
        restrict_files((), available.landlock)
    if available.seccomp:
        _install(seccomp.interpreter())


def confine_tree(*, memory: int, cpu: float, program: str, readable: Iterable[str]) -> None:
    """The same for a process that must still start one program, which may read little more than its libraries.

    Paths that are not `readable` do not even exist for it, if the system allows a process its own mounts. The kernel
    counts its processes for its own user (a separate one, or one in a namespace), which stops a fork bomb.
    """
    available = strength()
    readable, executable = tuple(readable), (program, *loader_of(program))
    limit_resources(memory=memory, cpu=cpu, processes=None)
    hidden = mounts.hide_host((*readable, *executable))
    is_root = os.geteuid() == 0
    if is_root and _is_reachable(program):
        leave_root()
    if os.geteuid() == 0:
        mounts.drop_capabilities()
    elif is_root or (hidden and mounts.count_processes()):
        resource.setrlimit(resource.RLIMIT_NPROC, (process_limit.MOST, process_limit.MOST))
    seal()
    if available.landlock:
        restrict_files(readable, available.landlock, executable=executable)
    if available.seccomp:
        _install(seccomp.tree())


def _install(program: seccomp.Program) -> None:
    try:
        seccomp.install(program)
    except seccomp.SeccompError as error:
        raise JailError(str(error)) from error


def loader_of(program: str) -> list[str]:
    """The dynamic loader that an ELF program names: the kernel executes it too."""
    with Path(program).open("rb") as file:
        head = file.read(4096)
    if head[:6] != b"\x7fELF\x02\x01":
        return []
    (table,) = struct.unpack_from("<Q", head, 32)
    size, count = struct.unpack_from("<HH", head, 54)
    for entry in range(table, min(table + size * count, len(head) - size), size):
        kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", head, entry)
        if kind == _PT_INTERP:
            return [head[offset : offset + length].rstrip(b"\0").decode()]
    return []


def leave_root() -> None:
    """If we are root, switch to a separate user without groups, capabilities, processes or files.

    Call it before `seal`, whose effect it would undo, and after reading everything needed, including our own modules.
    """
    if sys.platform != "linux" or os.geteuid() != 0:
        return
    user = _FIRST_USER + os.getpid() % _USERS
    with contextlib.suppress(OSError):  # root in name only: a container that may not change users
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)


def _is_reachable(program: str) -> bool:
    """Whether any user may read and execute the file."""
    path = Path(program)
    needed = stat.S_IXOTH | stat.S_IROTH
    return path.stat().st_mode & needed == needed and all(p.stat().st_mode & stat.S_IXOTH for p in path.parents)


def limit_resources(*, memory: int, cpu: float, processes: int | None = 0) -> None:
    """Limit memory above the current use, CPU seconds, files, core dumps, and processes; None for any number."""
    seconds = int(cpu) + 1
    limits = [
        (resource.RLIMIT_CPU, (seconds, seconds + 1)),
        (resource.RLIMIT_CORE, (0, 0)),
        (resource.RLIMIT_FSIZE, (0, 0)),
    ]
    if processes is not None:
        limits.append((resource.RLIMIT_NPROC, (processes, processes)))
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        ceiling = pages * resource.getpagesize() + memory
        limits.append((resource.RLIMIT_AS, (ceiling, ceiling)))
    for kind, pair in limits:
        with contextlib.suppress(ValueError, OSError):  # a lower limit is already set
            resource.setrlimit(kind, pair)


def seal() -> None:
    """No new privileges, no core dump, no debugger of the same user, and killed with its parent."""
    if sys.platform != "linux":
        return
    for option, value in (
        (_PR_SET_PDEATHSIG, int(signal.SIGKILL)),
        (_PR_SET_DUMPABLE, 0),
        (_PR_SET_NO_NEW_PRIVS, 1),
    ):
        if libc().prctl(option, value, 0, 0, 0) != 0:
            raise JailError(f"prctl {option} failed: {os.strerror(ctypes.get_errno())}")


def protect_host() -> None:
    """For the gateway itself: another process of the same user can neither trace it nor read its memory."""
    if sys.platform == "linux":
        libc().prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def adopt_orphans() -> None:
    """For the zygote: it reaps what its children leave behind, instead of init."""
    if sys.platform == "linux":
        libc().prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def restrict_files(readable: Iterable[str], abi: int, executable: Iterable[str] = ()) -> None:
    """Landlock: only reading below `readable` and executing `executable`; no TCP, no signals to other processes."""
    handled_files = (1 << {1: 13, 2: 14}.get(abi, 15)) - 1
    if abi >= 5:
        handled_files |= 1 << 15  # device ioctls
    network = 0b11 if abi >= 4 else 0
    scoped = 0b11 if abi >= 6 else 0
    attributes = struct.pack("=QQQ", handled_files, network, scoped)
    size = 8 if abi < 4 else 16 if abi < 6 else 24
    ruleset = libc().syscall(_LANDLOCK_CREATE, attributes, size, 0)
    if ruleset < 0:
        raise JailError(f"Landlock refused: {os.strerror(ctypes.get_errno())}")
    try:
        for path in readable:
            _allow(ruleset, path, _READ_FILE | (_READ_DIR if Path(path).is_dir() else 0))
        for path in executable:
            _allow(ruleset, path, _READ_FILE | _EXECUTE)
        if libc().syscall(_LANDLOCK_RESTRICT, ruleset, 0) != 0:
            raise JailError(f"Landlock refused: {os.strerror(ctypes.get_errno())}")
    finally:
        os.close(ruleset)


def _landlock_abi() -> int:
    return max(0, int(libc().syscall(_LANDLOCK_CREATE, None, 0, 1)))


def _allow(ruleset: int, path: str, access: int) -> None:
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # a library folder that this system does not have
        return
    try:
        if libc().syscall(_LANDLOCK_ADD, ruleset, 1, struct.pack("=Qi", access, handle), 0) != 0:
            raise JailError(f"Landlock refused {path}: {os.strerror(ctypes.get_errno())}")
    finally:
        os.close(handle)
