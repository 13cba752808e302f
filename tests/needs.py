"""What some tests need that a machine may lack. A skipped test says `WHAT: HOW TO GET IT`, in these words only.

`told` sums up what was skipped in the one line that ends a run (`conftest.py`).
"""

from collections.abc import Iterable

_SYSTEM = "run scripts/system as root"
_NPM = "run scripts/node, with Node ≥ 20 and npm"
_ROOT = "run the tests as root"
_KERNEL = "only another machine has it"

CHROMIUM = f"Chromium: {_SYSTEM}"
FAKETIME = f"faketime: {_SYSTEM}"
HAPROXY = f"HAProxy: {_SYSTEM}"
POSTGRES = f"PostgreSQL: {_SYSTEM}"
PROMETHEUS = f"Prometheus: {_SYSTEM}"
REDIS = f"Redis: {_SYSTEM}"
NPM_SERVERS = f"npm's servers: {_NPM}"
NPM = "npm: install Node ≥ 20 and npm"
UV = "uv: install requirements/dev.txt"
OTHER_USERS = f"other users: {_ROOT}"
MOUNTS = f"mounts of its own: {_ROOT}"
NAMESPACES = f"network namespaces: {_ROOT}"
LOW_PORTS = f"port 443: {_ROOT}"
CONTROL_GROUPS = f"control groups: {_ROOT}"
JAIL = f"a complete jail: {_KERNEL}"
NEW_KERNEL = f"a kernel from 5.14 on: {_KERNEL}"
LINUX = f"Linux: {_KERNEL}"


def told(reasons: Iterable[str]) -> str:
    """What is missing, under how to get it; nothing if nothing is."""
    found: dict[str, set[str]] = {}
    count = 0
    for reason in reasons:
        what, _, how = reason.removeprefix("Skipped: ").rpartition(": ")
        found.setdefault(how, set()).add(what or how)
        count += 1
    parts = [f"{', '.join(sorted(whats, key=str.lower))} ({how})" for how, whats in sorted(found.items())]
    return f"{count} skipped for want of {'; '.join(parts)}" if parts else ""
