"""Which system calls a script's processes may make: two allow-lists, as programs for the kernel's seccomp.

`interpreter` is for one process that runs a script by itself; `tree` for one that starts a single program, and for that
program. A call that is on neither list kills the process, except the few calls that a C library tries first but can do
without. Pure tables and arithmetic, and `install`, which installs a program in the kernel permanently.
"""

import ctypes
import os
import platform
import struct
import sys
from functools import cache
from typing import NamedTuple, TypeAlias

_PR_SET_SECCOMP = 22
_MODE_FILTER = 2
_GET_ACTION_AVAIL = 2
KILL, ALLOW = 0x80000000, 0x7FFF0000
_EPERM, _EACCES, _EINVAL, _ENOTTY, _ENOSYS = (0x00050000 | number for number in (1, 13, 22, 25, 38))
_LOAD, _EQUAL, _ABOVE, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x25, 0x35, 0x45, 0x06

Program: TypeAlias = list[tuple[int, int, int, int]]
"""Instructions of classic BPF: code, jump if true, jump if false, operand."""


class SeccompError(Exception):
    """The kernel rejected a program, or this machine has no table."""


class Machine(NamedTuple):
    """A machine's column in the tables, its audit architecture, and its number of seccomp()."""

    column: int
    audit: int
    seccomp: int


_MACHINES = {"x86_64": Machine(0, 0xC000003E, 317), "aarch64": Machine(1, 0xC00000B7, 277)}

# Numbers of system calls: x86_64, then aarch64 (None where it has no such call).
_NUMBERS: dict[str, tuple[int | None, int | None]] = {
    # bytes
    "read": (0, 63), "write": (1, 64), "readv": (19, 65), "writev": (20, 66), "pread64": (17, 67),
    "lseek": (8, 62), "close": (3, 57), "close_range": (436, 436), "dup": (32, 23), "dup2": (33, None),
    "dup3": (292, 24), "pipe2": (293, 59), "eventfd2": (290, 19), "poll": (7, None), "ppoll": (271, 73),
    "epoll_create1": (291, 20), "epoll_ctl": (233, 21), "epoll_wait": (232, None), "epoll_pwait": (281, 22),
    "epoll_pwait2": (441, 441), "sendto": (44, 206), "recvfrom": (45, 207), "recvmsg": (47, 212),
    "getsockname": (51, 204), "getpeername": (52, 205), "getsockopt": (55, 209),
    "shutdown": (48, 210), "socketpair": (53, 199), "fcntl": (72, 25), "ioctl": (16, 29),
    # memory, threads, time
    "mmap": (9, 222), "mprotect": (10, 226), "munmap": (11, 215), "brk": (12, 214), "mremap": (25, 216),
    "madvise": (28, 233), "mseal": (462, 462), "map_shadow_stack": (453, 453), "futex": (202, 98),
    "futex_waitv": (449, 449), "futex_wake": (454, 454), "futex_wait": (455, 455), "futex_requeue": (456, 456),
    "sched_yield": (24, 124), "sched_getaffinity": (204, 123), "getcpu": (309, 168), "membarrier": (324, 283),
    "rseq": (334, 293), "set_robust_list": (273, 99), "set_tid_address": (218, 96), "arch_prctl": (158, None),
    "clock_gettime": (228, 113), "clock_getres": (229, 114), "clock_nanosleep": (230, 115),
    "nanosleep": (35, 101), "gettimeofday": (96, 169), "time": (201, None), "getrandom": (318, 278),
    # files, for reading
    "open": (2, None), "openat": (257, 56), "openat2": (437, 437), "stat": (4, None), "lstat": (6, None),
    "fstat": (5, 80), "newfstatat": (262, 79), "statx": (332, 291), "access": (21, None), "faccessat": (269, 48),
    "faccessat2": (439, 439), "readlink": (89, None), "readlinkat": (267, 78), "getdents64": (217, 61),
    "getcwd": (79, 17),
    # processes
    "clone": (56, 220), "clone3": (435, 435), "execve": (59, 221), "execveat": (322, 281), "wait4": (61, 260),
    "waitid": (247, 95), "pidfd_open": (434, 434), "prctl": (157, 167), "prlimit64": (302, 261),
    "getrlimit": (97, 163), "getrusage": (98, 165), "sysinfo": (99, 179), "uname": (63, 160), "getpid": (39, 172),
    "gettid": (186, 178), "getppid": (110, 173), "getuid": (102, 174), "geteuid": (107, 175), "getgid": (104, 176),
    "getegid": (108, 177), "kill": (62, 129), "tgkill": (234, 131), "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "sigaltstack": (131, 132),
    "restart_syscall": (219, 128), "exit": (60, 93), "exit_group": (231, 94),
}  # fmt: skip
_NEWEST = 469
"""The highest system call number that was known when the lists were made."""

_COMPUTES = """
    read write close poll ppoll recvfrom recvmsg munmap brk mremap madvise futex sched_yield membarrier rseq
    set_robust_list clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday getrandom getrusage getpid gettid
    rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack restart_syscall exit exit_group
"""
_STARTS_ONE_PROGRAM = """
    readv writev pread64 lseek close_range dup dup2 dup3 pipe2 eventfd2 epoll_create1 epoll_ctl epoll_wait epoll_pwait
    epoll_pwait2 getsockname getpeername getsockopt shutdown futex_waitv futex_wake futex_wait futex_requeue
    sched_getaffinity getcpu set_tid_address arch_prctl time stat lstat fstat newfstatat statx access faccessat
    faccessat2 readlink readlinkat getdents64 getcwd execve execveat wait4 waitid getrlimit sysinfo uname getppid
    getuid geteuid getgid getegid
"""

_PROT_WRITE, _PROT_EXEC, _MAP_ANONYMOUS = 2, 4, 0x20
_WRITES = 0o1 | 0o2 | 0o100 | 0o1000 | 0o2000 | 0o20000000  # wronly, rdwr, creat, trunc, append, tmpfile
_AF_UNIX = 1
_CONNECTED = tuple(kind | flags for kind in (1, 5) for flags in (0, 0o4000, 0o2000000, 0o2004000))
"""Socket types that only talk to their other end: stream and seqpacket, each also non-blocking or close-on-exec."""
_FD_COMMANDS = (0, 1, 2, 3, 4, 1030)  # duplicate, and descriptor flags: no locks, leases or signals
_IOCTLS = (0x5421, 0x5451, 0x5450)  # FIONBIO, FIOCLEX, FIONCLEX
_PRCTLS = (15, 16)  # the name of a thread
# Threads, fork and vfork as C libraries create them; any other bit, such as a new namespace, is forbidden.
_CLONE_FLAGS = (
    0xFF | 0x100 | 0x200 | 0x400 | 0x800 | 0x4000 | 0x10000 | 0x40000 | 0x80000 | 0x100000 | 0x200000 | 0x400000
    | 0x1000000
)  # fmt: skip


def machine(name: str = "") -> Machine | None:
    """The machine of that name, or this one; None if there is no table for it."""
    if name:
        return _MACHINES.get(name)
    return _MACHINES.get(platform.machine()) if sys.platform == "linux" and sys.maxsize > 2**32 else None


@cache
def available() -> bool:
    """Whether this system can kill a process for a forbidden call."""
    current = machine()
    kill = ctypes.c_uint32(KILL)
    return current is not None and libc().syscall(current.seccomp, _GET_ACTION_AVAIL, 0, ctypes.byref(kill)) == 0


def interpreter(on: str = "") -> Program:
    """For a process that only computes and uses its open descriptors."""
    target, program = _prologue(on)
    program += _allow(target, _COMPUTES) + _sends_to_the_other_end(target)
    for memory in ("mmap", "mprotect"):  # memory, but never executable
        program += _guard_call(target, memory, _without(2, _PROT_EXEC, KILL))
    program += _guard_call(target, "tgkill", _one_of(0, (os.getpid(),), KILL))  # abort() signals its own process
    return [*program, _verdict(KILL)]


def tree(on: str = "") -> Program:
    """For a process that starts one program, and for that program: Landlock decides which one, and what both may
    read.
    """
    target, program = _prologue(on)
    program += _allow(target, _COMPUTES + _STARTS_ONE_PROGRAM) + _sends_to_the_other_end(target)
    # The program's dynamic loader maps code: only from files that it may read, never from memory that it could have
    # written.
    program += _guard_call(target, "mmap", _code_from_files())
    # On aarch64 the loader sets protection again for libraries with branch protection; it works without.
    program += _guard_call(target, "mprotect", _without(2, _PROT_EXEC, _EPERM if target.column else KILL))
    program += _guard_call(target, "clone", _without(0, ~_CLONE_FLAGS & 0xFFFFFFFF, KILL))
    program += _guard_call(target, "socketpair", _one_of(0, (_AF_UNIX,), KILL) + _one_of(1, _CONNECTED, KILL))
    program += _guard_call(target, "open", _without(1, _WRITES, _EACCES))
    program += _guard_call(target, "openat", _without(2, _WRITES, _EACCES))
    program += _guard_call(target, "fcntl", _one_of(1, _FD_COMMANDS, _EINVAL))
    program += _guard_call(target, "ioctl", _one_of(1, _IOCTLS, _ENOTTY))
    program += _guard_call(target, "prctl", _one_of(0, _PRCTLS, _EINVAL))
    program += _guard_call(target, "prlimit64", _one_of(0, (0,), _EPERM) + _null(2, _EPERM))  # its own, to read
    program += _guard_call(target, "tgkill", _one_of(0, (os.getpid(),), _EPERM))
    program += _guard_call(target, "kill", [_verdict(_EPERM)])  # a stuck process is killed from outside
    # Tried first, but not required: the flags of clone() can be checked, but clone3() reads them from memory.
    for newer in ("clone3", "pidfd_open", "openat2", "mseal", "map_shadow_stack"):
        program += _guard_call(target, newer, [_verdict(_ENOSYS)])
    # A newer system call may become a C library's first choice: for it, this looks like an older kernel.
    return [*program, (_ABOVE, 0, 1, _NEWEST), _verdict(_ENOSYS), _verdict(KILL)]


def install(program: Program) -> None:
    """Install a program in the kernel, for this process and all its children. Raises SeccompError."""
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    description = _SockFprog(len(program), ctypes.cast(buffer, ctypes.c_void_p))
    if libc().prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(description), 0, 0) != 0:
        raise SeccompError(f"seccomp refused: {os.strerror(ctypes.get_errno())}")


@cache
def libc() -> ctypes.CDLL:
    """The C library, with its errno."""
    return ctypes.CDLL(None, use_errno=True)


class _SockFprog(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def _prologue(on: str) -> tuple[Machine, Program]:
    """The machine, and the check that a call belongs to it; afterwards the call's number is loaded."""
    target = machine(on)
    if target is None:
        raise SeccompError("no seccomp table for this machine")
    program: Program = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, target.audit), _verdict(KILL), (_LOAD, 0, 0, 0)]
    if target.column == 0:  # the x32 calls, a second interface to the same kernel
        program += [(_AT_LEAST, 0, 1, 0x40000000), _verdict(KILL)]
    return target, program


def _allow(target: Machine, names: str) -> Program:
    program: Program = []
    for name in names.split():
        program += _guard_call(target, name, [])
    return program


def _guard_call(target: Machine, name: str, checks: Program) -> Program:
    """Allows a call that passes its checks."""
    number = _NUMBERS[name][target.column]
    return [] if number is None else [(_EQUAL, 0, len(checks) + 1, number), *checks, _verdict(ALLOW)]


def _sends_to_the_other_end(target: Machine) -> Program:
    """No address: a datagram socket could reach any named one. What sendmsg() reads from memory cannot be seen."""
    return _guard_call(target, "sendto", _null(4, KILL))


def _without(argument: int, bits: int, verdict: int) -> Program:
    return [_argument(argument), (_ANY_BIT, 0, 1, bits), _verdict(verdict)]


def _one_of(argument: int, values: tuple[int, ...], verdict: int) -> Program:
    count = len(values)
    return [_argument(argument), *((_EQUAL, count - at, 0, v) for at, v in enumerate(values)), _verdict(verdict)]


def _null(argument: int, verdict: int) -> Program:
    halves = [_argument(argument), _argument(argument, high=True)]
    return [step for half in halves for step in (half, (_EQUAL, 1, 0, 0), _verdict(verdict))]


def _code_from_files() -> Program:
    checks = [*_without(2, _PROT_WRITE, KILL), *_without(3, _MAP_ANONYMOUS, KILL)]
    return [_argument(2), (_ANY_BIT, 0, len(checks), _PROT_EXEC), *checks]


def _argument(number: int, *, high: bool = False) -> tuple[int, int, int, int]:
    return (_LOAD, 0, 0, 16 + 8 * number + (4 if high else 0))


def _verdict(action: int) -> tuple[int, int, int, int]:
    return (_RETURN, 0, 0, action)
