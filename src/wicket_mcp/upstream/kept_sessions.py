"""Our sessions at HTTP servers that belong to one client's session, recorded for the replica that continues it.

With `isolation = "session"`, a legacy server may keep state for a client in the session that we have there. Its id and
greeting are recorded in the shared store, sealed: if the client's replica is gone, another one goes on in the same
session, without a second handshake. The id of a client's session cannot carry this, because it is given before servers
are connected. `connector.py` finds and makes records, `http.py` ends them; without replicas there are none.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Container, Mapping
from typing import TypeVar

import msgspec

from wicket_mcp.cluster.members import untag
from wicket_mcp.config.model.config import ServerConfig
from wicket_mcp.errors import Internal
from wicket_mcp.sealing import Ring
from wicket_mcp.store.base import GrantStore
from wicket_mcp.store.model import StoredTicket
from wicket_mcp.upstream.era import Greeting
from wicket_mcp.upstream.key import Key

LIFE = 24 * 3600.0  # seconds: as long as another replica can restore the client's session
FIND_WITHIN = 3.0  # seconds in which the store must answer; after that, what the server keeps for a client is given up
KEEP_WITHIN = 1.0  # the same for a new record: the client's first call waits for it
_KIND = "upstream session"

T = TypeVar("T")


class Record(msgspec.Struct, frozen=True):
    """A session at a server."""

    session: str
    url: str
    greeting: Greeting


class KeptSessions:
    """The records of all clients. `is_elsewhere` says whether another replica than us seems to run, by its id;
    `has_ended`, whether a client has ended its session.
    """

    def __init__(
        self,
        store: GrantStore,
        ring: Ring,
        me: str,
        is_elsewhere: Callable[[str], bool],
        has_ended: Callable[[str], Awaitable[bool | None]],
    ) -> None:
        self.store = store
        self.ring = ring
        self._leaving = False
        self._me = me
        self._is_elsewhere = is_elsewhere
        self._has_ended = has_ended

    def of(self, key: Key, config: ServerConfig) -> "KeptSession | None":
        """The record for this connection; None if no other replica can continue what the server keeps for it."""
        home = untag(key.session)[0]
        if not home or config.url is None:
            return None
        connection = f"{key.server} {key.owner} {key.extensions}"
        return KeptSession(self, key.session, connection, began_here=home == self._me)

    async def find_others(self, own: Mapping[Key, ServerConfig], used: Container[Key]) -> list[Key]:
        """Those of a client's connections that other replicas have begun and that are not in use here."""
        others: list[Key] = []
        for key, config in own.items() if not self._leaving else ():
            record = None if key in used else self.of(key, config)
            if record is not None and config.url is not None and await record.find(config.url) is not None:
                others.append(key)
        return others

    def leave(self) -> None:
        """We stop, and other replicas continue our sessions: leave them open at the servers."""
        self._leaving = True

    async def is_left_to_another(self, session: str) -> bool:
        """Whether a client's session goes on at another replica, although it has ended here: the one that continues it
        if we stop or, if we were only thought to continue it, the one where it began.
        """
        return self._leaving or (self._is_elsewhere(untag(session)[0]) and not await self._has_ended(session))


class KeptSession:
    """The record of one connection."""

    def __init__(self, all_of_them: KeptSessions, session: str, connection: str, *, began_here: bool) -> None:
        self._all = all_of_them
        self._session = session
        name = f"{_KIND} {session} {connection}"
        self._digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
        self._is_new = began_here
        """Whether no other replica can have made a record."""
        self._used = ""
        """The session at the server that we used last: if we connect again, it is lost."""

    async def find(self, url: str) -> Record | None:
        """The session to go on with; None if there is none that we have not lost."""
        if self._is_new:
            return None
        ticket = await _wait_briefly(self._all.store.ticket(self._digest), FIND_WITHIN)
        record = self._open(ticket)
        if record is None or record.url != url or record.session == self._used:
            return None
        self._used = record.session
        return record

    async def keep(self, session: str, url: str, greeting: Greeting) -> None:
        """Record a new session at the server, in place of an earlier one."""
        ring = self._all.ring
        content = msgspec.to_builtins(Record(session, url, greeting))
        sealed = ring.close(_KIND, content, LIFE, self._digest.hex())
        ticket = StoredTicket(self._digest, _KIND, "", {"sealed": sealed}, ring.now() + LIFE)
        self._is_new, self._used = False, session
        await _wait_briefly(self._all.store.drop_ticket(self._digest), KEEP_WITHIN)
        await _wait_briefly(self._all.store.add_ticket(ticket, ring.now()), KEEP_WITHIN)

    async def end(self) -> bool:
        """Whether we, and no other replica, end the session at the server now."""
        if await self._all.is_left_to_another(self._session):
            return False
        try:
            async with asyncio.timeout(FIND_WITHIN):
                ticket = await self._all.store.use_ticket(self._digest, self._all.ring.now())
        except (Internal, TimeoutError):
            return True
        return ticket is None or ticket.used_at is None

    def _open(self, ticket: StoredTicket | None) -> Record | None:
        if ticket is None or ticket.used_at is not None:
            return None
        content = self._all.ring.open(_KIND, str(ticket.body.get("sealed")), self._digest.hex())
        return None if content is None else msgspec.convert(content, Record)


async def _wait_briefly(work: Awaitable[T], seconds: float) -> T | None:
    """The store's answer; None if it does not give one in time."""
    try:
        async with asyncio.timeout(seconds):
            return await work
    except (Internal, TimeoutError):
        return None
