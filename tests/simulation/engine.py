"""The database of simulated replicas: what `PostgresMembers` has in PostgreSQL, in memory, on a simulated network.

`SimulatedMembers` is one replica's side of it. It differs from the real one in its SQL only: the heartbeat, the lease
and all that stands above are the production code. An `Engine` can be away, a member can be cut off from it.
"""

import asyncio
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from tests.simulation.clock import beyond
from wicket_mcp.cluster.claims import ClaimsAway, Holder, Taken
from wicket_mcp.cluster.heartbeat import Heartbeat
from wicket_mcp.cluster.lease import LEASE, MARGIN
from wicket_mcp.cluster.members import Member

T = TypeVar("T")

ANSWER_WITHIN = 5.0
BUSY = 2.0
DROPS_AFTER = 12.0
"""Seconds after which the engine drops a connection that is cut."""


@dataclass(eq=False)
class Session:
    """A connection to the engine, as the engine sees it."""

    member: Member
    locks: set[str] = field(default_factory=set[str])
    asked_at: float = 0.0


@dataclass
class Owner:
    """A row."""

    member: str
    address: str
    epoch: int


class Engine:
    """See the module's docstring."""

    def __init__(self, seed: int = 0) -> None:
        self.sessions: list[Session] = []
        self.owners: dict[str, Owner] = {}
        self.cut: set[str] = set()
        """The members whose packets are lost."""
        self.away = False
        self.random = random.Random(seed)
        self.mended = asyncio.Condition()

    def lose(self, member: str) -> None:
        """All connections of a member break."""
        self.sessions = [session for session in self.sessions if session.member.id != member]

    async def mend(self) -> None:
        """Whatever was away or cut off is back. Connections that were cut for longer are gone by then."""
        self.away = False
        self.cut.clear()
        async with self.mended:
            self.mended.notify_all()

    def is_silent(self, member: str) -> bool:
        return self.away or member in self.cut

    def cut_off(self, member: str) -> None:
        """Until all is mended; the engine drops its connections after a while."""
        self.cut.add(member)
        beyond(self._drop(member, [session for session in self.sessions if session.member.id == member]))

    async def _drop(self, member: str, cut: list[Session]) -> None:
        await asyncio.sleep(DROPS_AFTER)
        if member in self.cut:
            self.sessions = [session for session in self.sessions if session not in cut]

    async def reach(self, member: str) -> None:
        """A packet between the engine and a member, in one direction."""
        await asyncio.sleep(self.random.uniform(0.001, 0.05))
        async with self.mended:
            while self.is_silent(member):
                await self.mended.wait()


class SimulatedMembers:
    """Implements ClaimingMembers, and the heartbeat's Line."""

    def __init__(self, engine: Engine, me: str) -> None:
        self.me = me
        self.all: Mapping[str, Member] = {}
        self.suspects: Mapping[str, Member] = {}
        self.on_change: list[Callable[[], None]] = []
        self.is_open = False
        self._engine = engine
        self._session = Session(Member(me, me))
        self._heartbeat = beat = Heartbeat(self)
        self.on_away, self.on_lost, self.on_back = beat.on_away, beat.on_lost, beat.on_back

    async def join(self) -> None:
        await self._heartbeat.start()

    @property
    def problem(self) -> str:
        return self._heartbeat.problem

    @property
    def certain(self) -> bool:
        return self._heartbeat.certain

    def trust(self, asked_at: float) -> None:
        self._heartbeat.trust(asked_at)

    def clock(self) -> float:
        return asyncio.get_running_loop().time()

    # The heartbeat's line

    async def connect(self) -> None:
        session = Session(Member(self.me, self.me))
        await self._at_engine(lambda: self._engine.sessions.append(session))
        self._session, self.is_open = session, True

    async def ask(self) -> None:
        before = self.all
        self.all = await self._ask(lambda: {each.member.id: each.member for each in self._engine.sessions})
        if before != self.all:
            for hear in self.on_change:
                hear()

    def hang_up(self) -> None:
        self.is_open = False
        beyond(self._leave(self._session))

    # What members do

    async def look(self) -> bool:
        try:
            await self.ask()
        except ClaimsAway:
            return False
        return True

    async def forget(self, member: Member) -> None: ...

    async def leave(self) -> None: ...

    async def close(self) -> None:
        await self._heartbeat.close()
        self.hang_up()

    async def claim(self, name: str) -> Taken | None:
        def claim() -> Taken | None:
            if any(name in each.locks for each in self._engine.sessions if each is not self._session):
                return None
            self._session.locks.add(name)
            owner = self._engine.owners.get(name)
            if owner is not None and owner.member not in ("", self.me):
                return Taken(owner.epoch, Member(owner.member, owner.address))
            return Taken(self._record(name))

        return await self._ask(claim)

    async def record(self, name: str) -> int | None:
        return await self._ask(lambda: self._record(name) if name in self._session.locks else None)

    async def holder(self, name: str) -> Holder | None:
        owner = await self._ask(lambda: self._engine.owners.get(name))
        return Holder(Member(owner.member, owner.address), owner.epoch) if owner and owner.member else None

    async def release(self, name: str) -> None:
        def release() -> None:
            if (owner := self._engine.owners.get(name)) is not None and owner.member == self.me:
                owner.member = ""
            self._session.locks.discard(name)

        with suppress(ClaimsAway):
            await self._ask(release)

    async def depose(self, address: str) -> bool:
        now = asyncio.get_running_loop().time
        while True:
            session = await self._ask(
                lambda: next((each for each in self._engine.sessions if each.member.address == address), None)
            )
            if session is None or now() - session.asked_at < BUSY:
                return False
            if now() - session.asked_at > LEASE + MARGIN:
                await self._ask(partial(self._depose, session))
                return True
            await asyncio.sleep(0.05)

    def _depose(self, session: Session) -> None:
        if session not in self._engine.sessions:
            return
        self._engine.sessions.remove(session)
        for owner in self._engine.owners.values():
            if owner.member == session.member.id:
                owner.member = ""

    def _record(self, name: str) -> int:
        owner = self._engine.owners.setdefault(name, Owner(self.me, self.me, 0))
        if owner.member != self.me or not owner.epoch:
            owner.epoch += 1
        owner.member, owner.address = self.me, self.me
        return owner.epoch

    async def _ask(self, work: Callable[[], T]) -> T:
        """Do something in our session."""
        session = self._session

        def at_engine() -> T:
            if session not in self._engine.sessions or session is not self._session:
                raise ClaimsAway("the connection is gone")
            session.asked_at = asyncio.get_running_loop().time()
            return work()

        if not self.is_open:
            raise ClaimsAway("not connected")
        return await self._at_engine(at_engine)

    async def _at_engine(self, work: Callable[[], T]) -> T:
        async def ask() -> T:
            await self._engine.reach(self.me)
            done = work()
            await self._engine.reach(self.me)
            return done

        asking = beyond(ask())
        try:
            async with asyncio.timeout(ANSWER_WITHIN):
                return await asking
        except TimeoutError:
            self.hang_up()
            raise ClaimsAway("no answer") from None

    async def _leave(self, session: Session) -> None:
        await self._engine.reach(self.me)
        if session in self._engine.sessions:
            self._engine.sessions.remove(session)
