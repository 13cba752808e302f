"""One connection to a gateway: its output queue, its input, its requests in flight, and whether it still answers.

Used by `relay.py`, which decides what is sent where.
"""

import os
import time

TYPE_CHECKING = False  # as in `relay.py`
if TYPE_CHECKING:
    from wicket_mcp.shim.messages import Key

STARTS_WITHIN = 20.0
"""Seconds for the first word of a daemon that may be starting."""
PING_AFTER = 5.0
"""Seconds without a word, while something waits for one, before the daemon is asked whether it is there."""
ANSWERS_WITHIN = 5.0
"""Seconds for its answer to that; twice that for the first word of a daemon that serves others already."""
OVERSLEPT = 1.0
"""We cannot judge the silence of others if we were late by so many seconds: then the whole machine stood still."""


class Link:
    """One connection to a gateway."""

    def __init__(
        self, fd: int, hello: bytes, key: str = "", out: int = -1, child: int = 0, patience: float = STARTS_WITHIN
    ) -> None:
        """`key` identifies the daemon; `child` is the process id of our own gateway, written to at `out`."""
        self.fd = fd
        self.out = out if child else fd
        self.key = key
        self.child = child
        self.outgoing = bytearray(hello)
        self.incoming: list[bytes] = []
        self.ready = bool(child)
        self.silent = False
        """Whether it did not answer when it had to."""
        self._due = time.monotonic() + patience
        """When we must have heard of it, if anything waits."""
        self._pinged = False
        self.unanswered: dict[Key, tuple[str, bytes]] = {}
        """Method and line of every unanswered request of the client."""
        self.own: set[Key] = set()
        """Ids of our own requests, whose answers the client does not see."""
        self.greeting: Key | None = None
        """The id under which we announce the client's session, until it is answered."""
        self.later = bytearray()
        """What is sent after that."""
        self.closing = False
        """Whether we have said that nothing more will come."""
        os.set_blocking(self.fd, False)
        os.set_blocking(self.out, False)

    def put(self, line: bytes) -> None:
        """Queue a line, after what must be sent first."""
        if self.greeting is None:
            self.outgoing += line
        else:
            self.later += line

    def expect(self, key: "Key", method: str, line: bytes) -> None:
        """An answer to this request is expected from now on."""
        if self.deadline() is None:
            self.hear()
        self.unanswered[key] = method, line

    def hear(self) -> None:
        """It has said something: it is there."""
        self._due = time.monotonic() + PING_AFTER
        self._pinged = False

    def deadline(self) -> "float | None":
        """When we must have heard of it; None if nothing waits. Our own gateway ends visibly."""
        if self.child:
            return None
        # A subscription is answered when it ends, and nobody waits for that.
        waits = not self.ready or self.closing or any(m != "subscriptions/listen" for m, _ in self.unanswered.values())
        return self._due if waits else None

    def look(self, now: float) -> None:
        """Once it is due, ask whether it is there; if it was asked already, it is silent."""
        deadline = self.deadline()
        if deadline is None or now < deadline:
            return
        if now < deadline + OVERSLEPT and (self._pinged or not self.ready):
            self.silent = True
            return
        if self.ready and not self._pinged:
            self.outgoing += b"!ping\n"
            self._pinged = True
        self._due = now + ANSWERS_WITHIN
