"""The sessions of legacy HTTP clients: who opened each, its stream of unasked messages, when it was last used.

A session id is a secret of its principal: somebody else's is as unknown as one that never existed.
"""

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from wicket_mcp.model import Changed, JsonObject, Principal
from wicket_mcp.surface.caller import LegacyClient
from wicket_mcp.surface.exchange import Exchange, frame
from wicket_mcp.surface.protocol import Protocol

IDLE_LIMIT = 1800.0  # seconds
MAX_SESSIONS = 1000


@dataclass(slots=True)
class HttpSession:
    """One legacy client."""

    id: str
    principal: Principal
    protocol: Protocol
    used_at: float
    running: dict[str | int, Exchange] = field(default_factory=dict[str | int, Exchange])
    streaming: bool = False
    frames: list[bytes] = field(default_factory=list[bytes])
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    closed: bool = False
    client: LegacyClient = field(init=False)

    def __post_init__(self) -> None:
        self.client = LegacyClient(self.post)

    def post(self, message: JsonObject) -> None:
        """Queue a message for the client's stream; kept only while there is one."""
        if self.streaming:
            self.frames.append(frame(message))
            self.wake.set()


class Sessions:
    """All of them. `on_end` hears the id of a session that ended, however it ended."""

    def __init__(self, on_end: Callable[[str], None]) -> None:
        self._sessions: dict[str, HttpSession] = {}
        self._on_end = on_end

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, principal: Principal, protocol: Protocol) -> HttpSession:
        self._expire()
        session = HttpSession(secrets.token_urlsafe(24), principal, protocol, time.monotonic())
        self._sessions[session.id] = session
        return session

    def find(self, session_id: str, principal: Principal, protocol: Protocol) -> HttpSession | None:
        session = self._sessions.get(session_id)
        if session is None or session.principal != principal or session.protocol is not protocol:
            return None
        session.used_at = time.monotonic()
        return session

    def end(self, session: HttpSession, *, cancel: bool = True) -> None:
        """The session is over; its calls in flight are cancelled, or finished for whoever still waits for them."""
        if self._sessions.pop(session.id, None) is not None:
            session.closed = True
            for exchange in list(session.running.values()) if cancel else ():
                exchange.cancel()
            session.client.leave()
            session.wake.set()
            self._on_end(session.id)

    def end_all(self) -> None:
        for session in list(self._sessions.values()):
            self.end(session, cancel=False)

    def changed(self, changes: frozenset[Changed]) -> None:
        for session in self._sessions.values():
            session.client.list_changed(session.protocol.told(changes))

    def _expire(self) -> None:
        """Drop what nobody used for long, and the longest unused ones when there are too many."""
        now = time.monotonic()
        by_age = sorted(self._sessions.values(), key=lambda session: session.used_at)
        surplus = len(by_age) + 1 - MAX_SESSIONS
        for number, session in enumerate(by_age):
            if number < surplus or (now - session.used_at > IDLE_LIMIT and not session.streaming):
                self.end(session)
