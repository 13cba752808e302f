"""How much of the available memory is in use: of the container's, of the process's own limit, or of the machine's.

Read from the kernel; 0 if unknown. Called a few times a second by `loop_lag.py`'s thread, for admission
(`surface/admission.py`), which rejects work before the kernel kills the process.
"""

from contextlib import suppress
from pathlib import Path

_CGROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "inactive_file"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        "total_inactive_file",
    ),
)
_UNLIMITED = 2**60


def share_used() -> float:
    """Between 0 and 1, by the nearest limit."""
    return max(_of_container(), _of_own_limit(), _of_machine())


def _of_container() -> float:
    for limit_file, current_file, reclaimable in _CGROUPS:
        with suppress(OSError, ValueError):  # "max" if there is no limit
            limit = int(Path(limit_file).read_text())
            if 0 < limit < _UNLIMITED:
                stat = Path(current_file).with_name("memory.stat").read_text()
                return (int(Path(current_file).read_text()) - _field(stat, reclaimable)) / limit
    return 0.0


def _of_own_limit() -> float:
    with suppress(ImportError, OSError):
        import resource  # noqa: PLC0415  (not on Windows)

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if 0 < limit < _UNLIMITED:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            return pages * resource.getpagesize() / limit
    return 0.0


def _of_machine() -> float:
    with suppress(OSError, ValueError, ZeroDivisionError):
        books = Path("/proc/meminfo").read_text().replace(":", "")
        return 1 - _field(books, "MemAvailable") / _field(books, "MemTotal")
    return 0.0


def _field(books: str, name: str) -> int:
    for line in books.splitlines():
        words = line.split()
        if words[0] == name:
            return int(words[1])
    return 0
