"""The sessions of legacy HTTP clients: their principal, their stream of unsolicited messages, when they were last used.

A session id is its principal's secret: to anyone else it looks like an id that never existed. Sessions are limited in
number, for each principal and in total. A principal that opens too many loses its own oldest idle session, never
another principal's. A session with calls in flight is never ended to make room.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from wicket_mcp.codec import encode
from wicket_mcp.errors import Overloaded
from wicket_mcp.extensions import PROTOCOL_EVENTS
from wicket_mcp.model import JsonObject, Principal
from wicket_mcp.surface.caller import LegacyClient
from wicket_mcp.surface.event_stream import EventStream
from wicket_mcp.surface.exchange import Exchange
from wicket_mcp.surface.feed import Changes
from wicket_mcp.surface.outbox import Counters
from wicket_mcp.surface.protocol import Protocol

IDLE_LIMIT = 1800.0  # seconds
SWEEP = 60.0  # seconds between two checks for idle sessions
MAX_SESSIONS = 1000
MAX_PER_PRINCIPAL = 100
MAX_MISSED = 100  # notifications that wait for a session's stream
_NEWS = frozenset(
    {
        "notifications/tools/list_changed",
        "notifications/resources/list_changed",
        "notifications/prompts/list_changed",
        "notifications/groups/list_changed",
        "notifications/resources/updated",
    }
)


@dataclass(slots=True)
class HttpSession:
    """One legacy client."""

    id: str
    principal: Principal
    protocol: Protocol
    used_at: float
    counters: Counters
    running: dict[str | int, Exchange] = field(default_factory=dict[str | int, Exchange])
    stream: EventStream | None = None
    missed: dict[bytes, JsonObject] = field(default_factory=dict[bytes, JsonObject])
    """Changes while the client had no stream: it opens one shortly after the handshake, or reopens it."""
    began: float = field(default_factory=time.monotonic)
    client: LegacyClient = field(init=False)

    def __post_init__(self) -> None:
        self.client = LegacyClient(self.post)

    def post(self, message: JsonObject) -> None:
        """Queue a message for the client's stream. Without one, change notifications wait, one of each kind."""
        if self.stream is not None:
            self.stream.post(message)
        elif "id" not in message and (message["method"] in _NEWS or message["method"] not in PROTOCOL_EVENTS):
            self.missed[encode(message)] = message
            if len(self.missed) > MAX_MISSED:
                del self.missed[next(iter(self.missed))]
                self.counters.dropped += 1

    def open_stream(self) -> EventStream:
        stream = self.stream = EventStream(self.counters)
        missed, self.missed = self.missed, {}
        for message in missed.values():
            stream.post(message)
        return stream

    def close_stream(self) -> None:
        self.stream = None


class Sessions:
    """All sessions. `on_end` is called with the id and principal of every session that ends, for whatever reason."""

    def __init__(
        self,
        on_end: Callable[[str, Principal], None],
        counters: Counters | None = None,
        *,
        on_duration: Callable[[float], None] | None = None,
        most: int = MAX_SESSIONS,
        most_per_principal: int = MAX_PER_PRINCIPAL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.counters = Counters() if counters is None else counters
        """What slow clients have missed."""
        self._identify: Callable[[Principal, str, JsonObject], str] = lambda _principal, _path, _params: (
            secrets.token_urlsafe(24)
        )
        """Creates the id of a new session from its principal, path and parameters."""
        self._sessions: dict[str, HttpSession] = {}
        self._on_end = on_end
        self._on_duration = on_duration
        """Called with the length of each session, in seconds."""
        self._most = most
        self._most_per_principal = most_per_principal
        self._clock = clock
        self._sweeping: asyncio.TimerHandle | None = None

    def name_by(self, identify: Callable[[Principal, str, JsonObject], str]) -> None:
        """Create the ids of new sessions with `identify`."""
        self._identify = identify

    def __len__(self) -> int:
        return len(self._sessions)

    def list(self) -> Sequence[HttpSession]:
        return tuple(self._sessions.values())

    def open(self, principal: Principal, protocol: Protocol, path: str, params: JsonObject) -> HttpSession:
        """A new session. Raises Overloaded if there is no room and none of the principal's own sessions can be
        ended.
        """
        return self.adopt(self._identify(principal, path, params), principal, protocol)

    def adopt(self, number: str, principal: Principal, protocol: Protocol) -> HttpSession:
        """A session with this id, which may have begun elsewhere. Raises Overloaded as `open` does."""
        self._make_room(principal)
        session = self._sessions[number] = HttpSession(number, principal, protocol, self._clock(), self.counters)
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(SWEEP, self._sweep)
        return session

    def find(self, session_id: str, principal: Principal, protocol: Protocol) -> HttpSession | None:
        session = self._sessions.get(session_id)
        if session is None or session.principal.id != principal.id or session.protocol is not protocol:
            return None
        session.used_at = self._clock()
        return session

    def end(self, session: HttpSession, *, cancel: bool = True) -> None:
        """End the session; its calls in flight are cancelled, or finished for clients that still wait for them."""
        if self._sessions.pop(session.id, None) is not None:
            for exchange in list(session.running.values()) if cancel else ():
                exchange.cancel()
            session.client.leave()
            if session.stream is not None:
                session.stream.end()
            self._on_end(session.id, session.principal)
            if self._on_duration is not None:
                self._on_duration(time.monotonic() - session.began)

    def end_all(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None
        for session in list(self._sessions.values()):
            self.end(session, cancel=False)

    def end_idle(self) -> None:
        """End sessions that have been unused for long: no request, no call in flight, no stream."""
        oldest = self._clock() - IDLE_LIMIT
        for session in list(self._sessions.values()):
            if session.used_at < oldest and not session.running and session.stream is None:
                self.end(session)

    def notify_changes(self, changes: Changes) -> None:
        for session in self._sessions.values():
            session.client.list_changed(session.protocol.changed_lists(changes, session.principal))
            caller = session.client.caller(session.principal, session.id, session.post)
            session.client.announce(session.protocol.announcement(changes, caller))

    def _make_room(self, principal: Principal) -> None:
        """End the principal's least recently used sessions if it has too many, or if there are too many in total."""
        if len(self._sessions) < min(self._most, self._most_per_principal):
            return
        own = [session for session in self._sessions.values() if session.principal.id == principal.id]
        surplus = max(len(own) - self._most_per_principal, len(self._sessions) - self._most) + 1
        if surplus <= 0:
            return
        idle = sorted((s for s in own if not s.running), key=lambda s: (s.stream is not None, s.used_at))
        if len(idle) < surplus:
            raise Overloaded(
                "Too many sessions are open.", hint="End one with DELETE, or try again when calls in flight have ended."
            )
        for session in idle[:surplus]:
            self.end(session)

    def _sweep(self) -> None:
        self._sweeping = None
        self.end_idle()
        if self._sessions:
            self._sweeping = asyncio.get_running_loop().call_later(SWEEP, self._sweep)
