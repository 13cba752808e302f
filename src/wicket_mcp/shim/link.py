"""One connection to a gateway: what waits to be written to it, what has been read of it, and what is in flight there.

Used by `relay.py`, which decides what is sent where.
"""

import os
import time

TYPE_CHECKING = False  # as in `relay.py`
if TYPE_CHECKING:
    from wicket_mcp.shim.messages import Key


class Link:
    """One connection to a gateway."""

    def __init__(self, fd: int, hello: bytes, key: str = "", out: int = -1, child: int = 0) -> None:
        """`key` says which daemon it is; `child` is the process id of a gateway of our own, written to at `out`."""
        self.fd = fd
        self.out = out if child else fd
        self.key = key
        self.child = child
        self.outgoing = bytearray(hello)
        self.incoming: list[bytes] = []
        self.ready = bool(child)
        self.opened = time.monotonic()
        self.asked: dict[Key, tuple[str, bytes]] = {}
        """Method and line of every request of the client that it has not answered."""
        self.own: set[Key] = set()
        """Ids of what we asked ourselves, whose answers the client does not see."""
        self.greeting: Key | None = None
        """The id under which we tell it of the client's session, until it has answered."""
        self.later = bytearray()
        """What is sent then."""
        self.closing = False
        os.set_blocking(self.fd, False)
        os.set_blocking(self.out, False)

    def put(self, line: bytes) -> None:
        """Queue a line; after what it must know before."""
        if self.greeting is None:
            self.outgoing += line
        else:
            self.later += line


def half_close(fd: int) -> None:
    from _socket import SHUT_WR, dup, socket  # pyright: ignore[reportMissingImports]

    sock = socket(fileno=dup(fd))
    try:
        sock.shutdown(SHUT_WR)
    except OSError:
        pass
    finally:
        sock.close()
