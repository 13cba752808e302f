"""Ownership among replicas: a lock in the shared database for each running server.

When a replica takes over from one that did not report its stop, it asks that replica first, and waits as long as the
server may still run there; only then it is recorded as the owner. If the old replica is dead, the kernel refuses the
connection at once. If it is cut off, it stops its servers when its lease is over, and from then on asks the others
which of them owns what. If it stands still, its claims are ended for it (`doubt`), and it finds its lease over before
it acts again. If the database has lost our locks, they are success again; a server that another replica owned meanwhile
is stopped. Implements `Ownership`.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from weakref import WeakValueDictionary

from wicket_mcp.cluster.claims import ClaimingMembers, ClaimsAway, Taken
from wicket_mcp.cluster.lease import LEASE, MARGIN
from wicket_mcp.cluster.members import Member
from wicket_mcp.cluster.pulse import Answers
from wicket_mcp.errors import NoOwner
from wicket_mcp.tasks import Tasks
from wicket_mcp.upstream.ownership import Claim

log = logging.getLogger(__name__)

GIVES_UP_AFTER = LEASE + MARGIN
"""Seconds after its last word in which an unreachable replica has certainly stopped what it owned."""
ASK_EVERY = 0.2
PAUSE = 0.05
LOOKS = 100

Locate = Callable[[Member, str], Awaitable[Claim | None]]
"""The owner of a key, according to another member."""
StillOwns = Callable[[Member, str, int], Awaitable[bool | None]]
"""Whether a member still owns a key under an epoch; None if it does not answer."""


@dataclass
class _Held:
    """A key that we own."""

    epoch: int
    lost: Callable[[], None] | None = None
    """Stops what runs under the claim; None as long as nobody has got the claim."""

    def stop(self) -> None:
        if self.lost is not None:
            self.lost()


class LockOwnership:
    """See the module's docstring."""

    def __init__(self, members: ClaimingMembers, still_owns: StillOwns, locate: Locate, answers: Answers) -> None:
        self._members = members
        self._answers = answers
        self._locate = locate
        self._still_owns = still_owns
        self._held: dict[str, _Held] = {}
        self._wanted: Counter[str] = Counter()
        """How many callers wait for a claim of a key; only those for which there are some."""
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._tasks = Tasks()

    def __repr__(self) -> str:
        return f"<LockOwnership {self._members.me} owns {len(self._held)}>"

    @property
    def keys(self) -> list[str]:
        return list(self._held)

    async def claim(self, key: str, lost: Callable[[], None]) -> Claim:
        """See `Ownership`. An attempt that is not awaited any more goes on to its end, and is undone if nobody else
        wants the key: half an attempt would be a lock that nobody knows of.
        """
        while not self.epoch(key):
            self._wanted[key] += 1
            claiming = self._tasks.start(self._claim(key), f"claim {key}", awaited=True)
            try:
                claim = await asyncio.shield(claiming)
            except asyncio.CancelledError:
                self._tasks.start(self._undo(claiming, key), f"undo the claim of {key}")
                raise
            finally:
                self._wanted[key] -= 1
                if not self._wanted[key]:
                    del self._wanted[key]
            if not claim.ours:
                return claim
        held = self._held[key]
        held.lost = lost
        return Claim(held.epoch)

    async def _undo(self, claiming: "asyncio.Task[Claim]", key: str) -> None:
        with suppress(NoOwner):
            await claiming
            if (held := self._held.get(key)) is not None and held.lost is None and not self._wanted[key]:
                await self.release(key, held.epoch)

    async def _claim(self, key: str) -> Claim:
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            for _ in range(LOOKS):
                try:
                    claim = await self._try(key)
                except ClaimsAway as problem:
                    if (claim := await self._ask_members(key)) is not None:
                        return claim
                    text = f"The gateway that runs server '{key}' cannot be determined: {problem}."
                    raise NoOwner(key, text, hint="Try again when the database is back.") from None
                if claim is not None:
                    return claim
                await asyncio.sleep(PAUSE)
        raise NoOwner(key, f"It is not known which gateway runs server '{key}'.", hint="Try again.")

    async def _try(self, key: str) -> Claim | None:
        if epoch := self.epoch(key):
            return Claim(epoch)
        if not self._members.certain:
            raise ClaimsAway(self._members.problem or "PostgreSQL did not answer in time")
        success = await self._members.claim(key)
        if success is None:
            holder = await self._members.holder(key)
            return (
                None
                if holder is None or holder.member.id == self._members.me
                else Claim(holder.epoch, holder.member.address)
            )
        epoch = await self._take_over(success, key)
        if epoch is None:
            return None  # the lock is lost: another replica may have it
        log.info("this replica runs server '%s' from now on (epoch %d)", key, epoch)
        self._held[key] = _Held(epoch)
        return Claim(epoch)

    async def _take_over(self, success: Taken, key: str) -> int | None:
        """The epoch under which we own the key, once the earlier owner has stopped; None if we lost the lock."""
        if success.earlier is None:
            return success.epoch
        await self._wait_for(success.earlier, key, success.epoch)
        return await self._members.record(key)

    async def _ask_members(self, key: str) -> Claim | None:
        """The database does not answer us: ask the members that can reach it for the owner; one of them takes the key
        if it is free.
        """
        for member in list(self._members.all.values()):
            if member.id != self._members.me and (claim := await self._locate(member, key)) is not None:
                return claim
        return None

    async def holder(self, key: str) -> Claim | None:
        """The owner, with its address. Raises ClaimsAway."""
        members = self._members
        if (epoch := self.epoch(key)) and members.me in members.all:
            return Claim(epoch, members.all[members.me].address)
        holder = await members.holder(key)
        return None if holder is None else Claim(holder.epoch, holder.member.address)

    async def doubt(self, key: str, claim: Claim) -> bool:
        """See `Ownership`. An owner that answers nobody keeps its claims as long as it looks at the database: it may be
        unreachable for us alone.
        """
        if await self._answers(claim.address):
            return False
        try:
            await self._members.depose(claim.address)
            holder = await self._members.holder(key)
        except ClaimsAway:
            return False
        return holder is None or holder.epoch != claim.epoch

    def epoch(self, key: str) -> int:
        if key in self._held and self._members.certain:
            return self._held[key].epoch
        return 0

    async def release(self, key: str, epoch: int) -> None:
        if (held := self._held.get(key)) is not None and held.epoch == epoch:
            del self._held[key]
            await self._members.release(key)

    async def close(self) -> None:
        await self._tasks.close()
        for key, held in list(self._held.items()):
            await self.release(key, held.epoch)

    def give_up(self) -> None:
        """Stop everything at once: others may own our keys by now."""
        held, self._held = self._held, {}
        for claim in held.values():
            claim.stop()

    async def claim_again(self) -> None:
        """The database lost our locks: take them again, and stop what others own by now, or have owned meanwhile."""
        for key, held in list(self._held.items()):
            try:
                success = await self._members.claim(key)
            except ClaimsAway:
                return
            if self._held.get(key) is held and (success is None or success.epoch != held.epoch):
                log.warning("another replica has run server '%s' meanwhile: it is stopped here", key)
                del self._held[key]
                held.stop()
                if success is not None:
                    await self._members.release(key)

    async def _wait_for(self, earlier: Member, key: str, epoch: int) -> None:
        """Wait until the earlier owner has certainly stopped: it says so, it is dead, or its lease is over: it has
        lost its locks, which were ours before this began.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + GIVES_UP_AFTER
        while loop.time() < until:
            if await self._still_owns(earlier, key, epoch) is False:
                return
            await asyncio.sleep(ASK_EVERY)
