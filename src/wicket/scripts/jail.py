"""The walls around a script's process: rlimits, no_new_privs, Landlock and a seccomp allow-list, by ctypes.

`confine` is called in the child, after its imports and before it reads a byte of the script. `strength` says
what this system offers. Where the kernel lacks a wall the rest still stand, and the caller says so. Knows
nothing of scripts.
"""

import contextlib
import ctypes
import os
import platform
import resource
import signal
import struct
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_SECCOMP = 22
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_MODE_FILTER = 2
_SECCOMP_GET_ACTION_AVAIL = 2
_RET_KILL = 0x80000000
_RET_ALLOW = 0x7FFF0000
_RET_EPERM = 0x00050000 | 1
_PROT_EXEC = 4

_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_LANDLOCK_READ_AND_EXECUTE = 0b1101  # execute, read_file, read_dir

# Numbers of the calls that a confined interpreter makes: x86_64, then aarch64 (None where it has no such call).
_CALLS: dict[str, tuple[int | None, int | None]] = {
    "read": (0, 63), "write": (1, 64), "close": (3, 57), "poll": (7, None), "ppoll": (271, 73),
    "sendto": (44, 206), "recvfrom": (45, 207), "sendmsg": (46, 211), "recvmsg": (47, 212),
    "munmap": (11, 215), "brk": (12, 214), "mremap": (25, 216), "madvise": (28, 233),
    "futex": (202, 98), "sched_yield": (24, 124), "membarrier": (324, 283), "rseq": (334, 293),
    "set_robust_list": (273, 99), "clock_gettime": (228, 113), "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115), "nanosleep": (35, 101), "gettimeofday": (96, 169),
    "getrandom": (318, 278), "getrusage": (98, 165), "getpid": (39, 172), "gettid": (186, 178),
    "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132), "restart_syscall": (219, 128), "exit": (60, 93), "exit_group": (231, 94),
}  # fmt: skip
_MMAP, _MPROTECT, _TGKILL = (9, 222), (10, 226), (234, 131)

# What a tree of processes must never do, whoever is in it: x86_64, then aarch64.
_NEVER: dict[str, tuple[int | None, int | None]] = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "bpf": (321, 280),
    "perf_event_open": (298, 241), "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "unshare": (272, 97),
    "setns": (308, 268), "init_module": (175, 105), "finit_module": (313, 273), "kexec_load": (246, 104),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "userfaultfd": (323, 282),
    "setsid": (112, 157), "setpgid": (109, 154), "pidfd_getfd": (438, 438), "pidfd_open": (434, 434),
    "socket": (41, 198), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201), "accept": (43, 202),
    "personality": (135, 92), "symlinkat": (266, 36), "linkat": (265, 37), "mknodat": (259, 33),
}  # fmt: skip

_ARCHES = {"x86_64": (0, 0xC000003E, 317), "aarch64": (1, 0xC00000B7, 277)}


class JailError(Exception):
    """A wall that should stand could not be put up."""


@dataclass(frozen=True, slots=True)
class Strength:
    """Which walls this system has. Process, kill and rlimits are always there on POSIX."""

    landlock: int
    """The Landlock ABI; 0 when the kernel has none."""
    seccomp: bool
    pidfd: bool

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
            return f"full (own process, rlimits, no_new_privs, Landlock {self.landlock}, seccomp)"
        return (
            f"degraded: this system has no {', no '.join(self.missing)}; scripts still run in their own limited process"
        )


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _arch() -> tuple[int, int, int] | None:
    return _ARCHES.get(platform.machine()) if sys.platform == "linux" and sys.maxsize > 2**32 else None


@cache
def strength() -> Strength:
    """What this system offers, without changing anything."""
    if sys.platform != "linux":
        return Strength(0, False, False)
    arch = _arch()
    kill = ctypes.c_uint32(_RET_KILL)
    seccomp = arch is not None and _libc().syscall(arch[2], _SECCOMP_GET_ACTION_AVAIL, 0, ctypes.byref(kill)) == 0
    return Strength(_landlock_abi(), seccomp, hasattr(os, "pidfd_open"))


def confine(*, memory: int, cpu: float) -> None:
    """Put up every wall this system has, for good. Raises JailError when one that it has does not stand."""
    limit_resources(memory=memory, cpu=cpu)
    seal()
    available = strength()
    if available.landlock:
        restrict_files((), available.landlock)
    if available.seccomp:
        install_filter(_allow_list())


def confine_tree(*, memory: int, cpu: float, readable: Iterable[str]) -> None:
    """The same for a process that must still start one program: that may be read and executed, little else."""
    limit_resources(memory=memory, cpu=cpu, processes=False)
    seal()
    available = strength()
    if available.landlock:
        restrict_files(readable, available.landlock)
    if available.seccomp:
        install_filter(_deny_list())


def limit_resources(*, memory: int, cpu: float, processes: bool = True) -> None:
    """Memory above what the process has now, CPU seconds, and no files, cores or children."""
    seconds = int(cpu) + 1
    limits = [
        (resource.RLIMIT_CPU, (seconds, seconds + 1)),
        (resource.RLIMIT_CORE, (0, 0)),
        (resource.RLIMIT_FSIZE, (0, 0)),
    ]
    if processes:
        limits.append((resource.RLIMIT_NPROC, (0, 0)))
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        ceiling = pages * resource.getpagesize() + memory
        limits.append((resource.RLIMIT_AS, (ceiling, ceiling)))
    for which, pair in limits:
        with contextlib.suppress(ValueError, OSError):  # a lower limit is already set: good
            resource.setrlimit(which, pair)


def seal() -> None:
    """No new privileges, no core, no debugger from the same user, and gone when the parent is."""
    if sys.platform != "linux":
        return
    for option, value in (
        (_PR_SET_PDEATHSIG, int(signal.SIGKILL)),
        (_PR_SET_DUMPABLE, 0),
        (_PR_SET_NO_NEW_PRIVS, 1),
    ):
        if _libc().prctl(option, value, 0, 0, 0) != 0:
            raise JailError(f"prctl {option} failed: {os.strerror(ctypes.get_errno())}")


def protect_host() -> None:
    """For the gateway itself: another process of the same user can neither trace it nor read its memory."""
    if sys.platform == "linux":
        _libc().prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def adopt_orphans() -> None:
    """For the zygote: what its children leave behind becomes its own to reap, not the system's."""
    if sys.platform == "linux":
        _libc().prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def restrict_files(readable: Iterable[str], abi: int) -> None:
    """Landlock: nothing but reading and executing below `readable`, no TCP, no signals to the outside."""
    handled_files = (1 << {1: 13, 2: 14}.get(abi, 15)) - 1
    if abi >= 5:
        handled_files |= 1 << 15  # device ioctls
    network = 0b11 if abi >= 4 else 0
    scoped = 0b11 if abi >= 6 else 0
    attributes = struct.pack("=QQQ", handled_files, network, scoped)
    size = 8 if abi < 4 else 16 if abi < 6 else 24
    libc = _libc()
    ruleset = libc.syscall(_LANDLOCK_CREATE, attributes, size, 0)
    if ruleset < 0:
        raise JailError(f"Landlock refused: {os.strerror(ctypes.get_errno())}")
    try:
        for path in readable:
            _allow_reading(ruleset, path)
        if libc.syscall(_LANDLOCK_RESTRICT, ruleset, 0) != 0:
            raise JailError(f"Landlock refused: {os.strerror(ctypes.get_errno())}")
    finally:
        os.close(ruleset)


def _landlock_abi() -> int:
    return max(0, int(_libc().syscall(_LANDLOCK_CREATE, None, 0, 1)))


def _allow_reading(ruleset: int, path: str) -> None:
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # a library folder that this system does not have
        return
    try:
        wanted = _LANDLOCK_READ_AND_EXECUTE if Path(path).is_dir() else _LANDLOCK_READ_AND_EXECUTE & 0b0101
        rule = struct.pack("=Qi", wanted, handle)
        if _libc().syscall(_LANDLOCK_ADD, ruleset, 1, rule, 0) != 0:
            raise JailError(f"Landlock refused {path}: {os.strerror(ctypes.get_errno())}")
    finally:
        os.close(handle)


Program = list[tuple[int, int, int, int]]


def _prologue() -> tuple[int, Program]:
    """The machine's column in the tables, and the check that a call is of that machine."""
    arch = _arch()
    if arch is None:
        raise JailError("no seccomp table for this machine")
    column, audit, _ = arch
    program: Program = [(0x20, 0, 0, 4), (0x15, 1, 0, audit), (0x06, 0, 0, _RET_KILL), (0x20, 0, 0, 0)]
    if column == 0:  # the x32 calls, a second door into the same kernel
        program += [(0x35, 0, 1, 0x40000000), (0x06, 0, 0, _RET_KILL)]
    return column, program


def _deny_list() -> Program:
    column, program = _prologue()
    for numbers in _NEVER.values():
        number = numbers[column]
        if number is not None:
            program += [(0x15, 0, 1, number), (0x06, 0, 0, _RET_EPERM)]
    return [*program, (0x06, 0, 0, _RET_ALLOW)]


def _allow_list() -> Program:
    column, program = _prologue()
    for numbers in _CALLS.values():
        number = numbers[column]
        if number is not None:
            program += [(0x15, 0, 1, number), (0x06, 0, 0, _RET_ALLOW)]
    for guarded in (_MMAP, _MPROTECT):  # memory, but never executable
        program += [
            (0x15, 0, 4, guarded[column]),
            (0x20, 0, 0, 32),
            (0x45, 0, 1, _PROT_EXEC),
            (0x06, 0, 0, _RET_KILL),
            (0x06, 0, 0, _RET_ALLOW),
        ]
    return [  # abort() signals its own process; nobody else's
        *program,
        (0x15, 0, 4, _TGKILL[column]),
        (0x20, 0, 0, 16),
        (0x15, 1, 0, os.getpid()),
        (0x06, 0, 0, _RET_KILL),
        (0x06, 0, 0, _RET_ALLOW),
        (0x06, 0, 0, _RET_KILL),
    ]


class _SockFprog(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def install_filter(program: Program) -> None:
    """Give a seccomp program to the kernel, for this process and all it starts. Raises JailError."""
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    description = _SockFprog(len(program), ctypes.cast(buffer, ctypes.c_void_p))
    if _libc().prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(description), 0, 0) != 0:
        raise JailError(f"seccomp refused: {os.strerror(ctypes.get_errno())}")
