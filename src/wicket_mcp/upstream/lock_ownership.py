"""Ownership among replicas: a lock in the shared database for each running server.

When a replica takes over from one that did not report its stop, it asks that replica first, and waits as long as the
server may still run there. If the old replica is dead, the kernel refuses the connection at once. If it is cut off, it
stops its servers by itself after a while, and from then on asks the others which of them owns what. If the database has
lost our locks, they are taken again; a server that another replica owns by then is stopped. Implements `Ownership`.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from wicket_mcp.cluster.claims import ClaimingMembers, ClaimsAway
from wicket_mcp.cluster.members import Member
from wicket_mcp.errors import NoOwner
from wicket_mcp.tasks import Tasks
from wicket_mcp.upstream.ownership import Claim

log = logging.getLogger(__name__)

GIVES_UP_AFTER = 12.0
"""Seconds after which an unreachable replica has certainly stopped what it owned."""
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

    def __init__(self, members: ClaimingMembers, still_owns: StillOwns, locate: Locate) -> None:
        self._members = members
        self._locate = locate
        self._still_owns = still_owns
        self._held: dict[str, _Held] = {}
        self._wanted: Counter[str] = Counter()
        """How many callers wait for a claim of a key."""
        self._locks: dict[str, asyncio.Lock] = {}
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
        if (held := self._held.get(key)) is None:
            self._wanted[key] += 1
            claiming = self._tasks.start(self._claim(key), f"claim {key}", awaited=True)
            try:
                claim = await asyncio.shield(claiming)
            except asyncio.CancelledError:
                self._tasks.start(self._undo(claiming, key), f"undo the claim of {key}")
                raise
            finally:
                self._wanted[key] -= 1
            if not claim.ours or (held := self._held.get(key)) is None:
                return claim
        held.lost = lost
        return Claim(held.epoch)

    async def _undo(self, claiming: "asyncio.Task[Claim]", key: str) -> None:
        with suppress(NoOwner):
            await claiming
            if (held := self._held.get(key)) is not None and held.lost is None and not self._wanted[key]:
                await self.release(key)

    async def _claim(self, key: str) -> Claim:
        async with self._locks.setdefault(key, asyncio.Lock()):
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
        if key in self._held:
            return Claim(self._held[key].epoch)
        claim = await self._members.claim(key)
        if claim is None:
            holder = await self._members.holder(key)
            return (
                None
                if holder is None or holder.member.id == self._members.me
                else Claim(holder.epoch, holder.member.address)
            )
        if claim.earlier is not None:
            await self._wait_for(claim.earlier, key, claim.epoch - 1)
        log.info("this replica runs server '%s' from now on (epoch %d)", key, claim.epoch)
        self._held[key] = _Held(claim.epoch)
        return Claim(claim.epoch)

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
        holder = await self._members.holder(key)
        return None if holder is None else Claim(holder.epoch, holder.member.address)

    def epoch(self, key: str) -> int:
        return self._held[key].epoch if key in self._held else 0

    async def release(self, key: str) -> None:
        if self._held.pop(key, None) is not None:
            await self._members.release(key)

    async def close(self) -> None:
        await self._tasks.close()
        for key in list(self._held):
            await self.release(key)

    def give_up(self) -> None:
        """Stop everything at once: the database was unreachable for so long that others may own our keys by now."""
        held, self._held = self._held, {}
        for claim in held.values():
            claim.stop()

    async def claim_again(self) -> None:
        """The database lost our locks: take them again, and stop what others own by now."""
        for key in list(self._held):
            try:
                claim = await self._members.claim(key)
            except ClaimsAway:
                return
            if key not in self._held:
                continue
            if claim is not None:
                self._held[key].epoch = claim.epoch
            else:
                log.warning("another replica runs server '%s' now: it is stopped here", key)
                self._held.pop(key).stop()

    async def _wait_for(self, earlier: Member, key: str, epoch: int) -> None:
        """Wait until the earlier owner has certainly stopped: it says so, it is dead, or its time is over."""
        loop = asyncio.get_running_loop()
        until = loop.time() + GIVES_UP_AFTER
        while loop.time() < until:
            if await self._still_owns(earlier, key, epoch) is False:
                return
            await asyncio.sleep(ASK_EVERY)
