"""Controls daemons from outside: finds this user's daemons, shows their status and stops them. Used by `wicket daemon`.

Asks each over its own socket; its lock shows whether it runs, never a process id.
"""

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from wicket_mcp.codec import decode
from wicket_mcp.model import JsonObject, as_object
from wicket_mcp.shim.finding import CannotShare, check_peer
from wicket_mcp.shim.identity import SEPARATOR, runtime_folder

PATIENCE = 5.0
STOPPED_WITHIN = 40.0
PAUSE = 0.05


def find_daemons(folder: Path | None = None) -> Iterator[tuple[Path, JsonObject]]:
    """The socket and status of every daemon that answers."""
    for path in sorted((folder or Path(runtime_folder())).glob("*.sock")):
        if status := ask(path, "status"):
            yield path, status


def ask(path: Path, question: str) -> JsonObject:
    """The answer of the daemon at `path` to `status`, `stop` or `dashboard`; empty if there is no daemon."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(PATIENCE)
        try:
            sock.connect(str(path))
            check_peer(sock)
            sock.sendall(SEPARATOR.join(("wicket-control", "1", question)).encode() + b"\n")
            answer = b""
            while piece := sock.recv(65536):
                answer += piece
            return as_object(decode(answer))
        except (OSError, CannotShare, ValueError):
            return {}


def stop(path: Path) -> bool:
    """Stop the daemon at `path` once its calls in flight have ended; False if it still runs after a while."""
    ask(path, "stop")
    deadline = time.monotonic() + STOPPED_WITHIN
    while _is_locked(path.with_suffix(".lock")):
        if time.monotonic() > deadline:
            return False
        time.sleep(PAUSE)
    return True


def _is_locked(path: Path) -> bool:
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False
