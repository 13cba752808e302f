"""Finds or starts the daemon of an identity; if that is impossible, starts our own gateway.

A lock file (`flock`) decides which shim may start it; the daemon inherits the lock and holds it while it runs, so
process ids are never guessed. The starter also creates the listening socket, so that all shims can connect at once and
wait in the kernel's queue until the daemon is ready. The folder is private to the user; both ends check the other's
user.
"""

import _socket
import fcntl
import os
import stat
import sys
import time

from wicket_mcp.interpreter import isolated_environment, module_command
from wicket_mcp.shim.identity import Identity

BACKLOG = 128
PATIENCE = 5.0
"""Seconds in which the holder of the lock must listen."""
PAUSE = 0.01
LISTENER, LOCK = 3, 4
"""The descriptors that a daemon inherits, after the standard three."""
LARGEST_LOG = 1024 * 1024


class CannotShare(Exception):
    """No daemon can be found or started here; says why."""


def find_or_start(identity: Identity) -> int:
    """A descriptor connected to the daemon, which is started if needed. Raises CannotShare."""
    try:
        prepare_folder(identity.folder)
        path = identity.path("sock")
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if (connected := connect(path)) is not None:
                return connected
            lock = os.open(identity.path("lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:  # another process is about to listen, or has just stopped
                time.sleep(PAUSE)
                continue
            else:
                _start(identity, path, lock)
            finally:
                os.close(lock)
    except OSError as problem:
        raise CannotShare(str(problem)) from None
    raise CannotShare(f"the daemon that holds {identity.path('lock')} does not listen")


def connect(path: str) -> "int | None":
    """A connection to the daemon that listens at `path`; None if there is none. Raises CannotShare, OSError."""
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    sock.settimeout(PATIENCE)  # a daemon that does not run any more accepts nobody, and its queue fills
    try:
        sock.connect(path)
        check_peer(sock)
        return sock.detach()
    except (FileNotFoundError, ConnectionRefusedError):
        return None
    finally:
        sock.close()


def is_serving(identity: Identity) -> bool:
    """Whether the daemon has begun to serve: it then writes its process id into its lock."""
    try:
        return os.stat(identity.path("lock")).st_size > 0
    except OSError:
        return False


def check_peer(sock: "_socket.socket") -> None:
    """Raises CannotShare if the other end belongs to another user."""
    if sys.platform == "linux":
        credentials = sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
        uid = int.from_bytes(credentials[4:8], sys.byteorder)
    else:  # struct xucred: version, uid, …
        credentials = sock.getsockopt(0, 0x001, 76)
        uid = int.from_bytes(credentials[4:8], sys.byteorder)
    if uid != os.getuid():
        raise CannotShare(f"the other end belongs to user {uid}")


def prepare_folder(folder: str) -> None:
    """Create a folder that only this user can enter. Raises CannotShare, OSError."""
    try:
        os.makedirs(folder, 0o700)
    except FileExistsError:
        status = os.lstat(folder)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            raise CannotShare(f"{folder} does not belong to this user") from None
        if status.st_mode & 0o077:
            os.chmod(folder, 0o700)


def _start(identity: Identity, path: str, lock: int) -> None:
    """Listen, and start the daemon that accepts."""
    os.ftruncate(lock, 0)  # it does not serve yet
    with _suppress_missing():
        os.unlink(path)
    listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        listener.bind(path)
    finally:
        os.umask(mask)
    try:
        listener.listen(BACKLOG)
        named = ("--config", identity.named) if identity.named else ()
        command = module_command("wicket_mcp.daemon", *named)
        _detach(command, isolated_environment(identity.environment), (listener.fileno(), lock), identity.path("log"))
    finally:
        listener.close()


def _detach(command: tuple[str, ...], environment: dict[str, str], descriptors: tuple[int, int], log: str) -> None:
    """Start a process that outlives us: in its own session, inheriting only what it is given."""
    sys.stderr.flush()
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        os.setsid()
        if os.fork():
            os._exit(0)  # killing us and our children must not reach the daemon
        listener, lock = (fcntl.fcntl(number, fcntl.F_DUPFD, 10) for number in descriptors)
        nowhere = os.open(os.devnull, os.O_RDWR)
        written = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        if os.fstat(written).st_size > LARGEST_LOG:
            os.ftruncate(written, 0)
        for source, target in ((nowhere, 0), (written, 1), (written, 2), (listener, LISTENER), (lock, LOCK)):
            os.dup2(source, target, inheritable=True)
        os.closerange(LOCK + 1, 256)
        os.execve(command[0], command, environment)
    except BaseException:  # noqa: BLE001  (a copy of us must never go on)
        os._exit(127)


def start_own(arguments: list[str]) -> tuple[int, int, int]:
    """Start a gateway of our own: returns the descriptors of its stdout and stdin, and its process id."""
    stdin, written = os.pipe()
    read, stdout = os.pipe()
    child = os.fork()
    if child:
        os.close(stdin)
        os.close(stdout)
        return read, written, child
    try:
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)
        os.closerange(3, 256)
        command = module_command("wicket_mcp", "serve", "--no-daemon", *arguments)
        os.execve(command[0], command, isolated_environment(os.environ))
    except BaseException:  # noqa: BLE001  (as above)
        os._exit(127)


class _suppress_missing:  # noqa: N801  (contextlib is one more module to load)
    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, problem: object, trace: object) -> bool:
        return isinstance(problem, FileNotFoundError)
