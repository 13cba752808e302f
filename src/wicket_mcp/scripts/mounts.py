"""A separate file system for a process, with only a few files of the host.

Landlock refuses to open a path, but its error reveals whether the path exists, and it does not cover `stat`.
`hide_host` puts the process into a mount namespace (and, without root, a user namespace) whose root has only what it
must read. Linux only, by ctypes; `jail.py` calls it, in a single-threaded process, before the other protections. Knows
nothing about them.
"""

import contextlib
import ctypes
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from wicket_mcp.scripts.seccomp import libc

_NEW_MOUNTS, _NEW_USERS = 0x00020000, 0x10000000
_BIND, _RECURSIVE, _PRIVATE, _MOVE = 0x1000, 0x4000, 0x40000, 0x2000
_NO_SUID, _NO_DEVICES, _NO_PROGRAMS = 0x2, 0x4, 0x8
_DETACH = 2
_SET_DUMPABLE = 4
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_CAPABILITY_VERSION = 0x20080522
_SYS_ADMIN = 21
_PLACES = ("/dev/shm", "/mnt", "/media", "/run", "/tmp")  # noqa: S108  (mounted over in our own namespace alone)
"""Folders that most systems have: the new root is mounted over one of them until it becomes the root."""
_LIBRARY = re.compile(r"(?<!\S)(/\S++)\s++\(0x")
_LISTING_PATIENCE = 10.0


class _Impossible(Exception):
    """The kernel or its configuration does not allow it."""


@cache
def available() -> bool:
    """Whether this system allows a process its own mounts, as far as can be known without trying."""
    try:
        status = Path("/proc/self/status").read_text("utf-8")
    except OSError:
        return False
    fields: dict[str, str] = {}
    for line in status.splitlines():
        name, _, value = line.partition(":")
        fields[name] = value.strip()
    if os.geteuid() == 0 and int(fields.get("CapEff", "0"), 16) >> _SYS_ADMIN & 1:
        return True
    # A container's own filter forbids namespaces to processes that may not mount.
    free = fields.get("Seccomp", "0") == "0"
    return free and not _setting(_RESTRICTION, 0) and all(_setting(*setting) for setting in _SETTINGS.items())


_SETTINGS = {"user/max_user_namespaces": 0, "kernel/unprivileged_userns_clone": 1}
_RESTRICTION = "kernel/apparmor_restrict_unprivileged_userns"
"""Ubuntu: a namespace may be created, but nothing can be mounted in it."""


def _setting(name: str, default: int) -> bool:
    try:
        return int(Path("/proc/sys", name).read_text("utf-8")) > 0
    except (OSError, ValueError):
        return default > 0


def count_processes() -> bool:
    """Whether the kernel counts a user's processes in each user namespace by itself: since Linux 5.14."""
    version = [int(number) for number in re.findall(r"\d+", os.uname().release)[:2]]
    return version >= [5, 14]


@cache
def libraries_of(program: str, loader: str) -> tuple[str, ...] | None:
    """The files that the dynamic loader maps for a program; None if it does not tell."""
    try:
        command = [loader, "--list", program]
        listed = subprocess.run(
            command, capture_output=True, text=True, timeout=_LISTING_PATIENCE, check=True, env={}, cwd="/"
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return tuple(dict.fromkeys(_LIBRARY.findall(listed.stdout))) or None


def hide_host(keep: Iterable[str]) -> bool:
    """Leave only these files and folders of the host visible, permanently; False if that is not possible."""
    if sys.platform != "linux" or os.uname().machine not in _PIVOT_ROOT:
        return False
    existing = [path for path in keep if Path(path).exists()]
    used = [Path(path).resolve() for path in existing] + [Path(path) for path in existing]
    places = (Path(place) for place in _PLACES if Path(place).is_dir())
    place = next((place for place in places if not any(path.is_relative_to(place) for path in used)), None)
    try:
        if place is None:
            return False
        os.umask(0o022)  # the user that we become must be able to enter the folders that we create
        _enter_namespace()
        _mount(None, "/", None, _RECURSIVE | _PRIVATE)
        _mount("tmpfs", str(place), "tmpfs", _NO_SUID | _NO_DEVICES | _NO_PROGRAMS)
        for path in existing:
            _bind(path, place)
        _change_root(place)
        if os.geteuid() != 0:  # root's own capabilities end with its user, which needs them to change
            drop_capabilities()
    except (_Impossible, OSError):
        return False
    return True


def _enter_namespace() -> None:
    """Get our own mounts: directly as root, else as the root of a new user namespace."""
    if os.geteuid() == 0 and libc().unshare(_NEW_MOUNTS) == 0:
        return
    user, group = os.geteuid(), os.getegid()
    # A process that changed its user may not write to its own entries in /proc; the jail reverts this.
    if libc().prctl(_SET_DUMPABLE, 1, 0, 0, 0) != 0 or libc().unshare(_NEW_USERS | _NEW_MOUNTS) != 0:
        raise _Impossible
    Path("/proc/self/setgroups").write_text("deny", "utf-8")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1", "utf-8")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1", "utf-8")


def _bind(path: str, root: Path) -> None:
    target = root / path.lstrip("/")
    if Path(path).is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():  # it may be in a folder that is there already, and not ours to touch
            target.touch()
    _mount(path, str(target), None, _BIND | _RECURSIVE)


def _change_root(root: Path) -> None:
    os.chdir(root)
    if libc().syscall(_PIVOT_ROOT[os.uname().machine], b".", b".") == 0:  # the old root is now over the new one
        if libc().umount2(b".", _DETACH) != 0:
            raise _Impossible
    else:  # if the root is the kernel's initial one, which cannot be moved
        _mount(".", "/", None, _MOVE)
        os.chroot(".")
    os.chdir("/")


def drop_capabilities() -> None:
    """Drop every capability, permanently once no new privileges can be gained."""
    if sys.platform != "linux":
        return
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    with contextlib.suppress(OSError):
        libc().capset(header, (ctypes.c_uint32 * 6)())


def _mount(source: str | None, target: str, kind: str | None, flags: int) -> None:
    texts = [text.encode() if text is not None else None for text in (source, target, kind)]
    if libc().mount(*texts, ctypes.c_ulong(flags), None) != 0:
        raise _Impossible(os.strerror(ctypes.get_errno()))
