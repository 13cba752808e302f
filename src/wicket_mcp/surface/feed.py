"""Tells every listening client what changed: coalesced, at most twice a second.

The catalogue may change a thousand times a second; a client is notified once per interval and fetches what it needs.
What a server announces by an extension unknown to Wicket is passed on at once, as it is.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import NamedTuple

from wicket_mcp.catalog.change_notices import Notice
from wicket_mcp.model import Changed, JsonObject

PAUSE = 0.5


class Announcement(NamedTuple):
    """A notification of an unknown extension that belongs to no call."""

    server: str
    session: str
    """The only client session that may be told; empty for all."""
    owner: str
    """The only principal that may be told; empty for all that see the server."""
    extensions: frozenset[str]
    """The server's extensions that Wicket does not know: a client must declare one of them."""
    method: str
    params: JsonObject


class Changes(NamedTuple):
    """What clients are told of at once."""

    kinds: frozenset[Changed]
    notices: tuple[Notice, ...] = ()
    """What the servers said about it that only clients may understand."""
    announcement: Announcement | None = None
    """Told alone, and at once."""


Listener = Callable[[Changes], None]


class Feed:
    """Publishers on one side, open client streams on the other."""

    def __init__(self) -> None:
        self._listeners: dict[object, Listener] = {}
        self._waiting: set[Changed] = set()
        self._notices: list[Notice] = []
        self._timer: asyncio.TimerHandle | None = None
        self._notified_at = float("-inf")

    def publish(self, changes: Iterable[Changed], notices: Iterable[Notice] = ()) -> None:
        self._waiting |= set(changes)
        self._notices += notices
        if self._waiting and self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(max(loop.time(), self._notified_at + PAUSE), self._notify)

    def announce(self, announcement: Announcement) -> None:
        for listener in list(self._listeners.values()):
            listener(Changes(frozenset(), announcement=announcement))

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Receive changes until the returned function is called. Listeners must not block or raise."""
        key = object()
        self._listeners[key] = listener
        return lambda: (self._listeners.pop(key, None), None)[1]

    def _notify(self) -> None:
        changes, self._waiting, self._notices = Changes(frozenset(self._waiting), tuple(self._notices)), set(), []
        self._timer = None
        self._notified_at = asyncio.get_running_loop().time()
        for listener in list(self._listeners.values()):
            listener(changes)
