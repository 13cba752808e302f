"""How many descriptors (files, sockets, pipes) this process and what it starts may have open.

The usual soft limit of 1,024 is meant for programs that wait with `select`, and is enough for 330 servers. We do not,
so we raise ours; servers start with the limit that we found, because some of them do.
"""

import contextlib
import sys

if sys.platform != "win32":
    import resource

ENOUGH = 65_536
_found: list[tuple[int, int]] = []


def raise_limit() -> None:
    """Raise our soft limit to the hard one, once in the life of a process that serves."""
    if sys.platform == "win32" or _found:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH)
    if 0 <= soft < most:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            _found.append((soft, hard))


def restore_limit(pid: int) -> None:
    """Give a process that we have just started the limit that we found."""
    if sys.platform == "linux" and _found:
        with contextlib.suppress(OSError, ValueError):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, _found[0])
