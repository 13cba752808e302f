"""Sign-in to the dashboard: with a token, a link that works once or an OpenID provider, and then with a cookie.

A session lives in memory and remembers the token it began with, or the secret of a person's sign-in with a provider
(`PERSON`). Either is checked again on every request, so revoking a key ends its sessions at once. When several
processes serve one gateway, the cookie itself is the session, sealed with the keys that they share, so each of them can
read it. Ended sessions and used links (`links.py`) are recorded in the store for all of them.
"""

import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from wicket_mcp.sealing import Ring
from wicket_mcp.store.base import GrantStore
from wicket_mcp.store.model import StoredTicket
from wicket_mcp.surface.dashboard.links import LINK_LIFETIME, is_signed

COOKIE = "wicket_ui"
ROOT = "/ui"
PERSON = "person "
"""Prefix of a session's token that is the secret of a person's sign-in with a provider."""
LIFETIME = 12 * 3600.0
MAX_SESSIONS = 1000
_PURPOSE = "dashboard"


@dataclass(frozen=True, slots=True)
class UiSession:
    """One browser."""

    id: str
    token: str = field(repr=False)
    """The token it signed in with; empty when none is required."""
    csrf: str
    """Repeated in every form: another site's page cannot know it."""
    expires: float


def cookie_of(session: UiSession | None, *, secure: bool) -> str:
    """The `Set-Cookie` that begins a session, or ends it."""
    value, age = (session.id, int(LIFETIME)) if session is not None else ("", 0)
    return f"{COOKIE}={value}; Path={ROOT}; Max-Age={age}; HttpOnly; SameSite=Strict{'; Secure' if secure else ''}"


class UiSessions:
    """All sessions of one gateway, and the used links."""

    def __init__(self, store: GrantStore, clock: Callable[[], float] = time.time, ring: Ring | None = None) -> None:
        """`ring` holds the keys that replicas share, if there are replicas."""
        self._store = store
        self._clock = clock
        self._ring = ring
        self._sessions: OrderedDict[str, UiSession] = OrderedDict()

    def begin(self, token: str) -> UiSession:
        csrf = secrets.token_urlsafe(24)
        number = self._ring.close(_PURPOSE, [token, csrf], LIFETIME) if self._ring else secrets.token_urlsafe(24)
        session = UiSession(number, token, csrf, self._clock() + LIFETIME)
        if self._ring is None:
            self._sessions[session.id] = session
            while len(self._sessions) > MAX_SESSIONS:
                self._sessions.popitem(last=False)
        return session

    async def find(self, session_id: str) -> UiSession | None:
        if self._ring is not None:
            content = self._ring.open(_PURPOSE, session_id)
            if content is None or await self._store.ticket(_digest("end", session_id)) is not None:
                return None
            return UiSession(session_id, content[0], content[1], self._clock() + LIFETIME)
        session = self._sessions.get(session_id)
        if session is not None and session.expires < self._clock():
            del self._sessions[session_id]
            return None
        return session

    async def end(self, session_id: str) -> None:
        self._sessions.pop(session_id, None)
        if self._ring is not None:
            await self._note("end", session_id, LIFETIME)

    async def take_link(self, code: str, token: str, place: str) -> bool:
        """Whether `code` was made from `token` for `place` recently, and is used for the first time in any process."""
        return is_signed(code, token, place, self._clock()) and await self._note("link", code, LINK_LIFETIME)

    async def _note(self, kind: str, text: str, life: float) -> bool:
        """Record something that happens only once; whether this was the first time."""
        now = self._clock()
        ticket = StoredTicket(_digest(kind, text), f"{_PURPOSE} {kind}", "", {}, now + life + 1)
        return await self._store.add_ticket(ticket, now)


def _digest(kind: str, text: str) -> bytes:
    return hashlib.sha256(f"{_PURPOSE} {kind} {text}".encode("utf-8", "replace")).digest()
