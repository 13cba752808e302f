"""What the machine says: how busy it is, and how much processor time a process has used. Linux only for the latter."""

import os
import platform
import socket
from pathlib import Path


def cpu_seconds(pid: int) -> float:
    """Processor time of a process, all its threads, to the nanosecond; NaN where there is no /proc."""
    total = 0
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            total += int((thread / "schedstat").read_text().split()[0])
    except (FileNotFoundError, ProcessLookupError):
        return float("nan")
    return total / 1e9


def children(pid: int, word: str = "") -> list[int]:
    """The processes that a process has started and that still run; only those with `word` in their command."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    started = [int(child) for thread in threads for child in (thread / "children").read_text().split()]
    return [child for child in started if not word or word in _command(child)]


def _command(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except (FileNotFoundError, ProcessLookupError):
        return []


def load_average() -> str:
    return "/".join(f"{value:.1f}" for value in os.getloadavg())


def description() -> str:
    return f"{os.cpu_count()} cores, Python {platform.python_version()}, {platform.system()} {platform.machine()}"


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]
