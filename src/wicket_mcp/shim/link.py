"""One connection to a gateway: its output queue, its input, and its requests in flight.

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
        """`key` identifies the daemon; `child` is the process id of our own gateway, written to at `out`."""
        self.fd = fd
        self.out = out if child else fd
        self.key = key
        self.child = child
        self.outgoing = bytearray(hello)
        self.incoming: list[bytes] = []
        self.ready = bool(child)
        self.opened = time.monotonic()
        self.unanswered: dict[Key, tuple[str, bytes]] = {}
        """Method and line of every unanswered request of the client."""
        self.own: set[Key] = set()
        """Ids of our own requests, whose answers the client does not see."""
        self.greeting: Key | None = None
        """The id under which we announce the client's session, until it is answered."""
        self.later = bytearray()
        """What is sent after that."""
        self.closing = False
        os.set_blocking(self.fd, False)
        os.set_blocking(self.out, False)

    def put(self, line: bytes) -> None:
        """Queue a line, after what must be sent first."""
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
